//! Sets, nodes and pods in, plans out.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::apps::DaemonSet;
use api::core::node::{Node, NodeView};
use api::core::pod::PodView;
use api::{Identified as _, Meta, Resource as _};
use apimachinery::ObjectKey;
use jiff::Timestamp;
use proptest::prelude::*;
use reconcile::testing::converges;
use serde_json::{Value, json};

use super::backoff::Backoff;
use super::nodes::{self, HASH};
use super::plan::{Observed, Plan, Reason, explain, plan};

pub(super) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A set with the defaults of the server; `spec` has the rest, `pod` what its template says of
/// pods.
pub(super) fn set(spec: &Value, pod: &Value) -> Arc<DaemonSet> {
    let mut pod_spec = json!({"containers": [{"name": "main", "image": "i"}]});
    pod_spec.as_object_mut().unwrap().extend(pod.as_object().unwrap().clone());
    let mut whole = json!({
        "selector": {"matchLabels": {"app": "agent"}},
        "template": {"metadata": {"labels": {"app": "agent"}}, "spec": pod_spec},
    });
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    let meta = json!({"name": "agent", "namespace": "ns", "uid": "owner", "generation": 1});
    let set = json!({"metadata": meta, "spec": whole});
    let mut set: DaemonSet = serde_json::from_value(set).unwrap();
    set.apply_defaults();
    Arc::new(set)
}

/// `name word word ...`: `label=value`, or `!key:effect` for a taint.
pub(super) fn node(text: &str) -> Arc<NodeView> {
    let mut words = text.split(' ');
    let name = words.next().unwrap();
    let (mut labels, mut taints) = (json!({}), Vec::new());
    for word in words {
        match word.strip_prefix('!') {
            Some(taint) => {
                let (key, effect) = taint.split_once(':').unwrap();
                taints.push(json!({"key": key, "effect": effect}));
            }
            None => {
                let (key, value) = word.split_once('=').unwrap();
                labels[key] = json!(value);
            }
        }
    }
    let node = json!({"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints}});
    Arc::new(NodeView::from(&serde_json::from_value::<Node>(node).unwrap()))
}

/// `name@node word word ...`: `unbound`, `old`, `deleting`, `unready`, `since=second`,
/// `made=second`, or a phase. Ready since second 0, if nothing else is said.
pub(super) fn pod(text: &str) -> Arc<PodView> {
    let mut words = text.split(' ');
    let (name, node) = words.next().unwrap().split_once('@').unwrap();
    let (mut hash, mut is_deleting, mut is_bound) = ("new", false, true);
    let (mut phase, mut since, mut created) = ("Running", Some(at(0)), at(0));
    for word in words {
        match word.split_once('=').unwrap_or((word, "")) {
            ("old", _) => hash = "old",
            ("deleting", _) => is_deleting = true,
            ("unbound", _) => (is_bound, phase, since) = (false, "Pending", None),
            ("unready", _) => since = None,
            ("since", second) => since = Some(at(second.parse().unwrap())),
            ("made", second) => created = at(second.parse().unwrap()),
            (other, _) => (phase, since) = (other, None),
        }
    }
    let meta = Meta {
        key: ObjectKey::new("ns", name),
        uid: name.to_owned(),
        labels: [("app", "agent"), (HASH, hash)].into_iter().collect(),
        is_deleting,
        ..Meta::default()
    };
    let mut view = PodView::default();
    if is_bound {
        view.node_name = node.into();
    } else {
        view = PodView::from(&nodes::pod(&set(&json!({}), &json!({})), node, hash));
    }
    Arc::new(PodView {
        meta: Arc::new(meta),
        phase: phase.into(),
        is_ready: since.is_some(),
        ready_since: since,
        created: Some(created),
        ..view
    })
}

pub(super) fn observed(set: &Arc<DaemonSet>, nodes: &[&str], pods: &[&str]) -> Observed {
    Observed {
        set: set.clone(),
        hashes: BTreeSet::from(["new".to_owned()]),
        nodes: nodes.iter().map(|it| node(it)).collect(),
        pods: pods.iter().map(|it| pod(it)).collect(),
        backoff: Backoff::default(),
        now: at(100),
    }
}

pub(super) fn render(plan: &Plan) -> String {
    let created = plan.create.iter().map(|it| format!("create {it}"));
    let deleted = plan.delete.iter().map(|it| {
        let why = match it.reason {
            Reason::Failed => "failed ",
            Reason::Succeeded => "succeeded ",
            Reason::Other => "",
        };
        format!("delete {why}{}", it.pod.meta.key.name)
    });
    created.chain(deleted).collect::<Vec<_>>().join(", ")
}

fn check(set: &Arc<DaemonSet>, nodes: &[&str], pods: &[&str], expected: &str) {
    assert_eq!(render(&plan(&observed(set, nodes, pods))), expected, "{nodes:?} {pods:?}");
}

fn plain() -> Arc<DaemonSet> {
    set(&json!({}), &json!({}))
}

#[test]
fn each_node_gets_one_pod() {
    let set = plain();
    check(&set, &["a", "b"], &[], "create a, create b");
    check(&set, &["a", "b"], &["x@a"], "create b");
    check(&set, &["a", "b"], &["x@a", "y@b unbound"], "");
    check(&set, &["a"], &["x@a deleting"], "");
    check(&set, &["a"], &["x@a Failed deleting"], "create a");
    // The first that was bound stays, then the oldest.
    check(&set, &["a"], &["x@a made=5", "y@a made=3", "z@a unbound"], "delete x, delete z");
    // Nobody will ever bind it.
    check(&set, &["a"], &["x@a", "y@gone unbound"], "delete y");
    check(&set, &["a"], &["x@a", "y@gone"], "");
}

#[test]
fn nodes_are_chosen_by_name_labels_and_taints() {
    let chosen =
        |pod: Value, nodes: &[&str]| render(&plan(&observed(&set(&json!({}), &pod), nodes, &[])));
    let disks = ["a disk=ssd", "b disk=hdd", "c"];
    assert_eq!(chosen(json!({"nodeSelector": {"disk": "ssd"}}), &disks), "create a");
    assert_eq!(chosen(json!({"nodeName": "c"}), &disks), "create c");
    let expression = json!({"key": "disk", "operator": "Exists"});
    let affinity = json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [expression]}],
    }}}});
    assert_eq!(chosen(affinity, &disks), "create a, create b");
    let tainted = ["a !mine:NoSchedule", "b !mine:NoExecute", "c !mine:PreferNoSchedule"];
    assert_eq!(chosen(json!({}), &tainted), "create c");
    let tolerations = json!({"tolerations": [{"operator": "Exists"}]});
    assert_eq!(chosen(tolerations, &tainted), "create a, create b, create c");
    let troubled = [
        "a !node.kubernetes.io/not-ready:NoExecute",
        "b !node.kubernetes.io/unreachable:NoExecute",
        "c !node.kubernetes.io/disk-pressure:NoSchedule",
        "d !node.kubernetes.io/unschedulable:NoSchedule",
        "e !node.kubernetes.io/network-unavailable:NoSchedule",
    ];
    assert_eq!(chosen(json!({}), &troubled), "create a, create b, create c, create d");
    let host = chosen(json!({"hostNetwork": true}), &troubled);
    assert!(host.ends_with("create d, create e"), "{host}");
}

#[test]
fn a_pod_goes_when_its_node_is_not_chosen_any_more_but_bears_a_soft_repulsion() {
    let disk = set(&json!({}), &json!({"nodeSelector": {"disk": "ssd"}}));
    check(&disk, &["a disk=hdd"], &["x@a", "y@a deleting"], "delete x");
    let set = plain();
    check(&set, &["a !mine:NoSchedule"], &["x@a"], "");
    check(&set, &["a !mine:NoExecute"], &["x@a"], "delete x");
    let status = plan(&observed(&set, &["a !mine:NoSchedule", "b"], &["x@a"])).status;
    assert_eq!((status.number_misscheduled, status.desired_number_scheduled), (1, 1));
}

#[test]
fn a_pod_is_pinned_to_its_node_and_bears_its_troubles() {
    let mut set = DaemonSet::clone(&set(
        &json!({}),
        &json!({
            "tolerations": [{"key": "mine", "operator": "Exists"}],
            "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "preference": {"matchExpressions": [{"key": "k", "operator": "Exists"}]}},
            ]}},
        }),
    ));
    set.metadata.annotations =
        Some([("deprecated.daemonset.template.generation".to_owned(), "7".to_owned())].into());
    let pod = json!(nodes::pod(&set, "n1", "abc"));
    let labels =
        json!({"app": "agent", "controller-revision-hash": "abc", "pod-template-generation": "7"});
    assert_eq!(pod["metadata"]["labels"], labels);
    assert_eq!(pod["metadata"]["generateName"], "agent-");
    let affinity = &pod["spec"]["affinity"]["nodeAffinity"];
    let term = &affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
    let field = json!({"key": "metadata.name", "operator": "In", "values": ["n1"]});
    assert_eq!(*term, json!([{"matchFields": [field]}]));
    assert!(affinity["preferredDuringSchedulingIgnoredDuringExecution"].is_array());
    assert_eq!(pod["spec"]["tolerations"].as_array().unwrap().len(), 7);
    let view = PodView::from(&serde_json::from_value::<api::core::pod::Pod>(pod).unwrap());
    assert_eq!(nodes::target(&view), Some("n1"));
}

#[test]
fn what_ended_goes_and_comes_again_later_and_later() {
    let set = plain();
    check(&set, &["a"], &["x@a Succeeded"], "delete succeeded x");
    let mut failed = observed(&set, &["a", "b"], &["x@a Failed", "y@b"]);
    let mut waits = Vec::new();
    for _ in 0..12 {
        let first = plan(&failed);
        assert_eq!(render(&first), "delete failed x");
        failed.backoff = first.backoff;
        let next = plan(&failed);
        assert_eq!(render(&next), "");
        let said = explain(&next).unwrap().1;
        assert!(said.starts_with("pod x failed on node a; it is replaced at 1970-"), "{said}");
        waits.push(next.next.unwrap().as_secs());
        failed.now = failed.now.saturating_add(next.next.unwrap()).unwrap();
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900]);
    // Another generation, or half an hour without a failure, begins anew.
    let mut anew = Backoff::default();
    anew.step("a", 1, at(0));
    anew.step("a", 1, at(1));
    assert_eq!(anew.remaining("a", 1, at(1)), Duration::from_secs(2));
    assert_eq!(anew.remaining("a", 2, at(1)), Duration::ZERO);
    assert_eq!(anew.remaining("b", 1, at(1)), Duration::ZERO);
    anew.prune(1, at(1801));
    assert!(anew.is_empty());
}

fn rolling(unavailable: &Value, surge: &Value) -> Arc<DaemonSet> {
    let rolling = json!({"maxUnavailable": unavailable, "maxSurge": surge});
    set(&json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling}}), &json!({}))
}

const ABC: [&str; 3] = ["a", "b", "c"];

#[test]
fn outdated_pods_go_as_far_as_others_are_available() {
    let one = rolling(&json!(1), &json!(0));
    check(&one, &ABC, &["x@a old", "y@b old", "z@c old"], "delete x");
    check(&one, &ABC, &["x@a unready", "y@b old", "z@c old"], "");
    check(&one, &ABC, &["x@a deleting", "y@b old", "z@c old"], "");
    check(&one, &ABC, &["x@a", "y@b old", "z@c old"], "delete y");
    // Those that serve nobody go at once, and are counted.
    check(&one, &ABC, &["x@a old unready", "y@b old unready", "z@c old"], "delete x, delete y");
    let half = rolling(&json!("50%"), &json!(0));
    check(&half, &ABC, &["x@a old", "y@b old", "z@c old"], "delete x, delete y");
    // Somebody is missing: it comes first.
    check(&one, &ABC, &["x@a old", "y@b old"], "create c");
    let said = plan(&observed(&one, &ABC, &["x@a unready", "y@b old", "z@c old"]));
    assert_eq!(explain(&said).unwrap().1, "the update waits for x to be available");
}

#[test]
fn with_a_surge_successors_come_first() {
    let one = rolling(&json!(0), &json!(1));
    check(&one, &ABC, &["x@a old", "y@b old", "z@c old"], "create a");
    let first = ["x@a old", "n@a unready", "y@b old", "z@c old"];
    check(&one, &ABC, &first, "");
    check(&one, &ABC, &["x@a old", "n@a", "y@b old", "z@c old"], "delete x");
    check(&one, &ABC, &["x@a old unready", "n@a unready", "y@b old", "z@c old"], "delete x");
    check(&one, &ABC, &["n@a", "y@b old", "z@c old"], "create b");
    // A node whose pod serves nobody gets its successor at once.
    check(&one, &ABC, &["x@a old", "n@a unready", "y@b old unready", "z@c old"], "create b");
    check(&one, &["a"], &["x@a Failed"], "create a, delete failed x");
    check(
        &one,
        &["a"],
        &["x@a old", "y@a old", "n@a unready", "m@a unready"],
        "delete n, delete y",
    );
    // It should not run there any more, and others are enough.
    let away = ["a !mine:NoSchedule", "b"];
    check(&one, &away, &["x@a old unready", "y@b"], "delete x");
    check(&one, &away, &["x@a old", "y@b"], "delete x");
    check(&one, &away, &["x@a old", "y@b unready"], "");
}

#[test]
fn on_delete_leaves_outdated_pods_to_their_users() {
    let set = set(&json!({"updateStrategy": {"type": "OnDelete"}}), &json!({}));
    check(&set, &ABC, &["x@a old", "y@b old", "z@c old"], "");
    check(&set, &ABC, &["x@a old", "y@b old"], "create c");
}

#[test]
fn a_pod_is_available_when_it_was_ready_for_long_enough() {
    let set = set(&json!({"minReadySeconds": 10}), &json!({}));
    let plan = plan(&observed(&set, &ABC, &["x@a since=95", "y@b since=0", "z@c old since=0"]));
    assert_eq!((render(&plan).as_str(), plan.next.unwrap().as_secs()), ("", 5));
    let status = plan.status;
    assert_eq!((status.number_ready, status.number_available), (3, Some(2)));
    assert_eq!((status.number_unavailable, status.updated_number_scheduled), (Some(1), Some(2)));
    assert_eq!((status.desired_number_scheduled, status.current_number_scheduled), (3, 3));
    assert_eq!(status.observed_generation, Some(1));
}

#[test]
fn pods_of_an_equal_revision_and_of_the_same_generation_are_up_to_date() {
    let mut equal = observed(&plain(), &["a"], &["x@a old"]);
    equal.hashes.insert("old".to_owned());
    assert_eq!(render(&plan(&equal)), "");
    let mut set = DaemonSet::clone(&plain());
    set.metadata.annotations =
        Some([("deprecated.daemonset.template.generation".to_owned(), "7".to_owned())].into());
    let mut former = observed(&Arc::new(set), &["a"], &["x@a old"]);
    let pod = Arc::make_mut(&mut former.pods[0]);
    Arc::make_mut(&mut pod.meta).labels = [("pod-template-generation", "7")].into_iter().collect();
    assert_eq!(render(&plan(&former)), "");
}

#[test]
fn work_is_done_in_bounded_parts() {
    let names: Vec<String> = (0..1000).map(|it| format!("n{it:04}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let plan = plan(&observed(&plain(), &names, &[]));
    assert_eq!((plan.create.len(), plan.status.desired_number_scheduled), (250, 1000));
}

fn some_pod() -> impl Strategy<Value = String> {
    let node = prop_oneof![Just("a"), Just("b"), Just("c"), Just("gone")];
    let words = prop_oneof![
        4 => Just(""), 2 => Just(" old"), 1 => Just(" old unready"), 1 => Just(" unready"),
        1 => Just(" Failed"), 1 => Just(" Succeeded"), 1 => Just(" unbound"), 1 => Just(" deleting"),
    ];
    (node, words).prop_map(|(node, words)| format!("{node}{words}"))
}

#[derive(Debug, PartialEq)]
enum Step {
    Create(String),
    Delete(String),
}

proptest! {
    #[test]
    fn planning_is_stable_and_ends_with_one_pod_per_node(
        pods in prop::collection::vec(some_pod(), 0..10),
        surge in 0..3i32,
        unavailable in 0..3i32,
    ) {
        let set = rolling(&json!(unavailable), &json!(surge));
        let texts: Vec<String> = pods.iter().enumerate().map(|(n, it)| format!("p{n}@{it}")).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let start = observed(&set, &ABC, &texts);
        let steps = |state: &Observed| {
            let plan = plan(state);
            let created = plan.create.into_iter().map(Step::Create);
            let deleted = plan.delete.into_iter().map(|it| Step::Delete(it.pod.uid().to_owned()));
            created.chain(deleted).collect()
        };
        let made = std::cell::Cell::new(0);
        let apply = |state: &mut Observed, step: Step| {
            // What is being deleted is gone by the next look, and pods that come are ready.
            state.pods.retain(|it| !it.is_deleting());
            match step {
                Step::Create(node) => {
                    made.set(made.get() + 1);
                    state.pods.push(pod(&format!("new{}@{node}", made.get())));
                }
                Step::Delete(uid) => state.pods.retain(|it| it.uid() != uid),
            }
        };
        let rested = converges(steps, apply, start, 20).unwrap();
        for node in ABC {
            let there = rested.pods.iter().filter(|it| nodes::target(it) == Some(node));
            let there: Vec<_> = there.filter(|it| !it.is_deleting()).collect();
            prop_assert!(there.len() <= 2, "{}: {}", node, there.len());
        }
    }
}
