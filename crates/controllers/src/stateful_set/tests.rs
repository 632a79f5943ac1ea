//! Sets, pods and claims in, plans out.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::apps::{ControllerRevision, StatefulSet};
use api::core::persistent_volume_claim::PersistentVolumeClaim;
use api::core::pod::PodView;
use api::{Meta, Resource as _};
use apimachinery::ObjectKey;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Value, json};

use super::claims::Write;
use super::identity::{self, POD_NAME, REVISION};
use super::plan::{From, Observed, Plan, Then, explain, plan};

pub(super) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A set with the defaults of the server; `spec` has the rest.
pub(super) fn set(spec: &Value, status: &Value) -> Arc<StatefulSet> {
    let mut whole = json!({
        "replicas": 3, "serviceName": "web", "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "main", "image": "i"}]},
        },
    });
    for (field, value) in spec.as_object().unwrap() {
        whole[field] = value.clone();
    }
    let meta = json!({"name": "web", "namespace": "ns", "uid": "owner", "generation": 1});
    let set = json!({"metadata": meta, "spec": whole, "status": status});
    let mut set: StatefulSet = serde_json::from_value(set).unwrap();
    set.apply_defaults();
    Arc::new(set)
}

pub(super) fn revision(name: &str) -> Arc<ControllerRevision> {
    let mut revision = ControllerRevision::default();
    revision.metadata.name = Some(name.to_owned());
    revision.metadata.uid = Some(name.to_owned());
    Arc::new(revision)
}

/// `ordinal word word ...`: `old` (the current template; else that of the update), `deleting`,
/// `nameless`, `since=second` (ready since), or a phase. Ready, if nothing else is said.
pub(super) fn pod(text: &str) -> Arc<PodView> {
    let mut words = text.split(' ');
    let name = format!("web-{}", words.next().unwrap());
    let (mut revision, mut label, mut is_deleting) = ("new", name.as_str(), false);
    let (mut phase, mut since) = ("Running", Some(at(0)));
    for word in words {
        match word.split_once('=').unwrap_or((word, "")) {
            ("old", _) => revision = "old",
            ("deleting", _) => is_deleting = true,
            ("nameless", _) => label = "",
            ("unready", _) => since = None,
            ("since", second) => since = Some(at(second.parse().unwrap())),
            (other, _) => (phase, since) = (other, None),
        }
    }
    let owner = OwnerReference {
        kind: "StatefulSet".to_owned(),
        uid: "owner".to_owned(),
        controller: Some(true),
        ..OwnerReference::default()
    };
    let meta = Meta {
        key: ObjectKey::new("ns", name.clone()),
        uid: format!("uid-{name}"),
        labels: [("app", "web"), (REVISION, revision), (POD_NAME, label)].into_iter().collect(),
        owner_references: vec![owner],
        is_deleting,
        ..Meta::default()
    };
    Arc::new(PodView {
        meta: Arc::new(meta),
        phase: phase.into(),
        is_ready: since.is_some(),
        ready_since: since,
        ..PodView::default()
    })
}

/// A claim of a set that retains it, with these owners: `set`, `pod`, `former`, `other`.
fn claim(name: &str, owners: &[&str]) -> Arc<PersistentVolumeClaim> {
    let pod = name.trim_start_matches("data-");
    let owners: Vec<Value> = owners
        .iter()
        .map(|it| match *it {
            "set" => json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "owner", "controller": true}),
            "pod" => json!({"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": format!("uid-{pod}"), "controller": true}),
            "former" => json!({"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": "former", "controller": true}),
            "other" => json!({"apiVersion": "v1", "kind": "X", "name": "x", "uid": "x", "controller": true}),
            other => panic!("{other}"),
        })
        .collect();
    let meta = json!({"name": name, "namespace": "ns", "ownerReferences": owners});
    Arc::new(serde_json::from_value(json!({"metadata": meta})).unwrap())
}

pub(super) struct World {
    pub set: Arc<StatefulSet>,
    pub current: Arc<ControllerRevision>,
    pub update: Arc<ControllerRevision>,
    pub pods: Vec<Arc<PodView>>,
    pub strangers: Vec<Arc<PodView>>,
    pub claims: BTreeMap<String, Arc<PersistentVolumeClaim>>,
    pub allows_max_unavailable: bool,
    pub now: i64,
}

impl World {
    fn new(spec: &Value, pods: &[&str]) -> Self {
        Self {
            set: set(spec, &json!({})),
            current: revision("old"),
            update: revision("new"),
            pods: pods.iter().map(|it| pod(it)).collect(),
            strangers: Vec::new(),
            claims: BTreeMap::new(),
            allows_max_unavailable: false,
            now: 100,
        }
    }

    pub(super) fn plan(&self) -> Plan {
        let all = self.pods.iter().chain(&self.strangers);
        let by_name: BTreeMap<String, Arc<PodView>> =
            all.map(|it| (it.meta.key.name.clone(), it.clone())).collect();
        plan(&Observed {
            set: self.set.clone(),
            current: self.current.clone(),
            update: self.update.clone(),
            pods: self.pods.clone(),
            claim: &|name| self.claims.get(name).cloned(),
            pod: &|name| by_name.get(name).cloned(),
            allows_max_unavailable: self.allows_max_unavailable,
            now: at(self.now),
        })
    }
}

fn render_claim(write: &Write) -> String {
    let (verb, claim) = match write {
        Write::Create(claim) => ("claim", claim),
        Write::Update { claim, is_foreign: false } => ("own", claim),
        Write::Update { claim, is_foreign: true } => ("leave", claim),
    };
    let owners = claim.metadata.owner_references.iter().flatten().map(|it| format!(" {}", it.kind));
    format!("{verb} {}{}", claim.metadata.name.as_deref().unwrap(), owners.collect::<String>())
}

pub(super) fn render(plan: &Plan) -> String {
    let mut words = Vec::new();
    for task in &plan.tasks {
        words.extend(task.claims.iter().map(render_claim));
        words.extend(match &task.then {
            Then::Nothing => None,
            Then::Create(ordinal, From::Update) => Some(format!("create {ordinal}")),
            Then::Create(ordinal, From::Current) => Some(format!("create {ordinal} old")),
            Then::Delete(pod) => Some(format!("delete {}", &pod.meta.key.name[4..])),
            Then::Relabel(pod) => Some(format!("relabel {}", &pod.meta.key.name[4..])),
        });
    }
    words.join(", ")
}

fn check(spec: &Value, pods: &[&str], expected: &str) {
    assert_eq!(render(&World::new(spec, pods).plan()), expected, "{spec} {pods:?}");
}

#[test]
fn pods_are_made_one_after_the_other_when_those_below_are_well() {
    let spec = json!({});
    check(&spec, &[], "create 0");
    check(&spec, &["0 Pending"], "");
    check(&spec, &["0 unready"], "");
    check(&spec, &["0"], "create 1");
    check(&spec, &["0", "1 deleting"], "");
    check(&spec, &["0", "1", "2"], "");
    // One that went is made again before any above it.
    check(&spec, &["1", "2"], "create 0");
    check(&spec, &["0", "2 Pending"], "create 1");
}

#[test]
fn a_pod_counts_when_it_was_ready_for_long_enough() {
    let spec = json!({"minReadySeconds": 10});
    check(&spec, &["0 since=90"], "create 1");
    let world = World::new(&spec, &["0 since=95"]);
    let plan = world.plan();
    assert_eq!((render(&plan).as_str(), plan.next.unwrap().as_secs()), ("", 5));
    assert_eq!((plan.status.ready_replicas, plan.status.available_replicas), (Some(1), Some(0)));
    let said = explain(&plan).unwrap();
    assert_eq!(said, ("PodNotAvailable", "waiting for pod web-0 to be Available".to_owned()));
}

#[test]
fn parallel_pods_are_made_all_at_once_and_wait_for_nobody() {
    let spec = json!({"podManagementPolicy": "Parallel"});
    check(&spec, &[], "create 0, create 1, create 2");
    check(&spec, &["1 Pending"], "create 0, create 2");
    check(
        &spec,
        &["0 Failed", "1", "2", "3", "4 deleting", "5 unready"],
        "delete 0, delete 5, delete 3",
    );
    let many = json!({"podManagementPolicy": "Parallel", "replicas": i32::MAX});
    let plan = World::new(&many, &["3"]).plan();
    assert_eq!(plan.tasks.len(), 500);
    assert_eq!(plan.unavailable, i64::from(i32::MAX) - 1);
}

#[test]
fn ordinals_begin_where_the_set_says() {
    let spec = json!({"ordinals": {"start": 5}, "replicas": 2});
    check(&spec, &[], "create 5");
    check(&spec, &["5"], "create 6");
    check(&spec, &["0", "5", "6", "7"], "delete 7");
    check(&spec, &["0", "5", "6"], "delete 0");
    let last = json!({"ordinals": {"start": i32::MAX}, "replicas": i32::MAX});
    check(&last, &[], "create 2147483647");
}

#[test]
fn what_ended_is_deleted_and_made_again() {
    check(&json!({}), &["0", "1 Failed", "2"], "delete 1");
    check(&json!({}), &["0", "1 Succeeded", "2"], "delete 1");
    check(&json!({}), &["0", "1 Failed deleting", "2"], "");
}

#[test]
fn surplus_pods_go_from_the_highest_while_the_others_are_well() {
    let spec = json!({"replicas": 1});
    check(&spec, &["0", "1", "2"], "delete 2");
    check(&spec, &["0", "1", "2 deleting"], "");
    check(&spec, &["0 unready", "1", "2"], "");
    // The first that is not well may go, and holds up those above it until then.
    check(&spec, &["0", "1", "2 unready"], "delete 2");
    check(&spec, &["0", "1 unready", "2"], "delete 2");
    check(&spec, &["0", "1 unready", "2 unready"], "");
    check(&spec, &["0", "1 unready", "2 Failed"], "delete 2");
}

#[test]
fn an_update_goes_from_the_highest_down_to_the_partition() {
    let spec = json!({});
    check(&spec, &["0 old", "1 old", "2 old"], "delete 2");
    check(&spec, &["0 old", "1 old", "2 unready"], "");
    check(&spec, &["0 old", "1 old", "2"], "delete 1");
    check(&spec, &["0 old", "1", "2"], "delete 0");
    check(&spec, &["0", "1", "2"], "");
    let partition =
        json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}});
    check(&partition, &["0 old", "1 old", "2"], "");
    check(&partition, &["0 old", "1 old"], "create 2");
    check(&partition, &["0 old", "2"], "create 1 old");
    check(&partition, &["0 old", "1 old", "2 old"], "delete 2");
    let beyond = json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": i32::MAX}}});
    check(&beyond, &["0 old", "1 old", "2 old"], "");
    check(&beyond, &["0 old", "1 old"], "create 2 old");
}

#[test]
fn a_parallel_set_is_updated_one_by_one_too() {
    let spec = json!({"podManagementPolicy": "Parallel"});
    check(&spec, &["0 old", "1 old", "2 old"], "delete 2");
    check(&spec, &["0 old", "1 old", "2 unready"], "");
    check(&spec, &["0 old", "1 old"], "create 2");
}

#[test]
fn on_delete_leaves_outdated_pods_to_their_users() {
    let spec = json!({"updateStrategy": {"type": "OnDelete"}});
    check(&spec, &["0 old", "1 old", "2 old"], "");
    check(&spec, &["0 old", "1 old"], "create 2");
}

#[test]
fn who_does_not_say_how_far_keeps_what_the_update_has_not_reached() {
    let mut world = World::new(&json!({}), &["1 old", "2"]);
    let mut set = StatefulSet::clone(&world.set);
    set.spec.as_mut().unwrap().update_strategy.as_mut().unwrap().rolling_update = None;
    set.status.as_mut().unwrap().current_replicas = Some(2);
    world.set = Arc::new(set);
    assert_eq!(render(&world.plan()), "create 0 old");
}

#[test]
fn several_may_be_unavailable_where_the_gate_allows() {
    let rolling = json!({"partition": 0, "maxUnavailable": 2});
    let spec = json!({"replicas": 4, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling}});
    let planned = |pods: &[&str]| {
        let mut world = World::new(&spec, pods);
        world.allows_max_unavailable = true;
        render(&world.plan())
    };
    assert_eq!(planned(&["0 old", "1 old", "2 old", "3 old"]), "delete 3, delete 2");
    assert_eq!(planned(&["0 old", "1 old", "2", "3"]), "delete 1, delete 0");
    // In an ordered set those below an unready one are held up before.
    assert_eq!(planned(&["0 old", "1 old", "2 old", "3 unready"]), "");
    let parallel = json!({"podManagementPolicy": "Parallel", "replicas": 4, "updateStrategy": spec["updateStrategy"]});
    let mut world = World::new(&parallel, &["0 old", "1 old", "2 old", "3 unready"]);
    world.allows_max_unavailable = true;
    assert_eq!(render(&world.plan()), "delete 2");
}

#[test]
fn a_set_that_goes_does_nothing_but_count() {
    let mut world = World::new(&json!({}), &["0", "1 Failed"]);
    let mut set = StatefulSet::clone(&world.set);
    set.metadata.deletion_timestamp =
        serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    world.set = Arc::new(set);
    let plan = world.plan();
    assert_eq!((render(&plan).as_str(), plan.status.replicas), ("", 2));
}

#[test]
fn names_are_the_identity() {
    for (name, expected) in [
        ("web-0", Some(0)),
        ("web-10", Some(10)),
        ("web-01", None),
        ("web-", None),
        ("web", None),
        ("web-a", None),
        ("other-0", None),
        ("web-+1", None),
        ("web-2147483648", None),
        ("web-0-0", None),
    ] {
        assert_eq!(identity::ordinal("web", name), expected, "{name}");
    }
    check(&json!({}), &["0 nameless", "1", "2"], "relabel 0");
    check(
        &json!({"podManagementPolicy": "Parallel"}),
        &["0 nameless unready", "1", "2"],
        "relabel 0",
    );
    let mut world = World::new(&json!({}), &["0"]);
    world.strangers = vec![pod("1")];
    let plan = world.plan();
    assert_eq!(render(&plan), "");
    let said = explain(&plan).unwrap();
    assert_eq!(said.0, "ConflictingController");
}

#[test]
fn a_pod_has_its_name_its_host_and_its_claims() {
    let volumes = json!([{"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}]);
    let template = json!({
        "metadata": {"labels": {"app": "web"}, "annotations": {"a": "b"}},
        "spec": {"containers": [{"name": "main", "image": "i"}], "volumes": volumes},
    });
    let claims = json!([{"metadata": {"name": "data"}, "spec": {}}]);
    let set = set(&json!({"template": template, "volumeClaimTemplates": claims}), &json!({}));
    let template = &set.spec.as_ref().unwrap().template;
    let pod = json!(identity::pod(&set, 4, template, "web-abc"));
    let meta = &pod["metadata"];
    assert_eq!((&meta["name"], &meta["generateName"]), (&json!("web-4"), &json!("web-")));
    let labels = json!({
        "app": "web", "statefulset.kubernetes.io/pod-name": "web-4",
        "apps.kubernetes.io/pod-index": "4", "controller-revision-hash": "web-abc",
    });
    assert_eq!(meta["labels"], labels);
    assert_eq!(meta["ownerReferences"][0]["uid"], "owner");
    assert_eq!(
        (&pod["spec"]["hostname"], &pod["spec"]["subdomain"]),
        (&json!("web-4"), &json!("web"))
    );
    let volumes = pod["spec"]["volumes"].as_array().unwrap();
    assert_eq!(volumes.len(), 2);
    assert_eq!(volumes[0]["persistentVolumeClaim"]["claimName"], "data-web-4");
}

fn with_claims(retention: &Value) -> Value {
    json!({
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {}}],
        "persistentVolumeClaimRetentionPolicy": retention,
    })
}

/// Three wanted; claims as `name owner owner`.
fn check_claims(retention: &Value, pods: &[&str], claims: &[&str], expected: &str) {
    let mut world = World::new(&with_claims(retention), pods);
    for text in claims {
        let mut words = text.split(' ');
        let name = words.next().unwrap();
        let owners: Vec<&str> = words.collect();
        world.claims.insert(name.to_owned(), claim(name, &owners));
    }
    assert_eq!(render(&world.plan()), expected, "{retention} {pods:?} {claims:?}");
}

#[test]
fn claims_are_made_before_their_pod_and_again_while_it_is_pending() {
    let retain = json!({});
    check_claims(&retain, &[], &[], "claim data-web-0, create 0");
    check_claims(&retain, &[], &["data-web-0"], "create 0");
    check_claims(&retain, &["0 Pending"], &[], "claim data-web-0");
    check_claims(&retain, &["0 Pending"], &["data-web-0"], "");
    check_claims(&retain, &["0"], &[], "claim data-web-1, create 1");
}

#[test]
fn claims_belong_to_whom_they_go_with() {
    let (all, retain) = (["0", "1", "2"], json!({}));
    let three =
        |owner: &str| -> Vec<String> { (0..3).map(|it| format!("data-web-{it}{owner}")).collect() };
    let check = |retention: &Value, pods: &[&str], claims: &[String], expected: &str| {
        let claims: Vec<&str> = claims.iter().map(String::as_str).collect();
        check_claims(retention, pods, &claims, expected);
    };
    let deleted = json!({"whenDeleted": "Delete"});
    check(&deleted, &[], &[], "claim data-web-0 StatefulSet, create 0");
    let owned =
        "own data-web-0 StatefulSet, own data-web-1 StatefulSet, own data-web-2 StatefulSet";
    check(&deleted, &all, &three(""), owned);
    check(&deleted, &all, &three(" set"), "");
    check(&retain, &all, &three(" set"), "own data-web-0, own data-web-1, own data-web-2");
    // Those of surplus pods go with them, and are given to them before.
    let scaled = json!({"whenScaled": "Delete"});
    let mut four = three("");
    four.push("data-web-3".to_owned());
    let more = ["0", "1", "2", "3"];
    check(&scaled, &more, &four, "own data-web-3 Pod, delete 3");
    four[3] = "data-web-3 pod".to_owned();
    check(&scaled, &more, &four, "delete 3");
    check(&retain, &more, &four, "own data-web-3, delete 3");
    let both = json!({"whenScaled": "Delete", "whenDeleted": "Delete"});
    let mut four = three(" set");
    four.push("data-web-3 set".to_owned());
    check(&both, &more, &four, "own data-web-3 Pod, delete 3");
    // Scaled up again before the pod was gone.
    let mut back = three(" set");
    back[2] = "data-web-2 pod".to_owned();
    check(&both, &all, &back, "own data-web-2 StatefulSet");
}

#[test]
fn claims_of_others_are_left_to_them() {
    let both = json!({"whenScaled": "Delete", "whenDeleted": "Delete"});
    check_claims(&both, &["0"], &["data-web-0 other", "data-web-1 set"], "create 1");
    let mixed = ["data-web-0 set other", "data-web-1 set"];
    check_claims(&both, &["0"], &mixed, "leave data-web-0 X, create 1");
}

#[test]
fn a_pod_waits_for_claims_that_go() {
    let scaled = json!({"whenScaled": "Delete"});
    let mut world = World::new(&with_claims(&scaled), &[]);
    world.claims.insert("data-web-0".to_owned(), claim("data-web-0", &["former"]));
    let plan = world.plan();
    assert_eq!(render(&plan), "");
    let said = explain(&plan).unwrap().1;
    assert_eq!(said, "pod web-0 waits for claim data-web-0 of an earlier pod to be deleted");
    let mut ending = PersistentVolumeClaim::clone(&claim("data-web-0", &[]));
    ending.metadata.deletion_timestamp =
        serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    world.claims.insert("data-web-0".to_owned(), Arc::new(ending));
    let plan = world.plan();
    assert_eq!(render(&plan), "");
    let said = explain(&plan).unwrap().1;
    assert_eq!(said, "pod web-0 waits for claim data-web-0, which is being deleted");
    assert!(super::claims::is_claim_of(&world.set, "data-web-7"));
    for other in ["data-web", "data-web-x", "data-other-0", "web-0", "tmp-web-0"] {
        assert!(!super::claims::is_claim_of(&world.set, other), "{other}");
    }
}

#[test]
fn the_status_counts_by_template_and_ends_the_rollout() {
    let status = |pods: &[&str]| {
        let status = World::new(&json!({}), pods).plan().status;
        let number = |it: Option<i32>| it.unwrap_or(0);
        format!(
            "{} ready {} available {} current {} of {} updated {} of {}",
            status.replicas,
            number(status.ready_replicas),
            number(status.available_replicas),
            number(status.current_replicas),
            status.current_revision.unwrap(),
            number(status.updated_replicas),
            status.update_revision.unwrap(),
        )
    };
    assert_eq!(status(&[]), "0 ready 0 available 0 current 0 of old updated 0 of new");
    let going = status(&["0 old", "1 old", "2 old"]);
    assert_eq!(going, "3 ready 3 available 3 current 2 of old updated 0 of new");
    let half = status(&["0 old", "1 old deleting", "2"]);
    assert_eq!(half, "3 ready 3 available 3 current 1 of old updated 1 of new");
    let over = status(&["0", "1", "2"]);
    assert_eq!(over, "3 ready 3 available 3 current 3 of new updated 3 of new");
    let unready = status(&["0", "1", "2 unready"]);
    assert_eq!(unready, "3 ready 2 available 2 current 0 of old updated 3 of new");
}

#[test]
fn what_is_waited_for_is_said_once_and_taken_back() {
    let mut world = World::new(&json!({}), &["0 unready"]);
    let first = world.plan().status;
    let said = &first.conditions.as_ref().unwrap()[0];
    assert_eq!((said.type_.as_str(), said.reason.as_deref()), ("Waiting", Some("PodNotReady")));
    assert_eq!(said.message.as_deref(), Some("waiting for pod web-0 to be Running and Ready"));
    let mut set = StatefulSet::clone(&world.set);
    set.status = Some(first.clone());
    world.set = Arc::new(set);
    world.now = 200;
    assert_eq!(world.plan().status, first);
    world.pods = vec![pod("0")];
    assert_eq!(world.plan().status.conditions, None);
}
