//! Deployments and ReplicaSets in, actions out.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::apps::deployment::Deployment;
use api::apps::replica_set::ReplicaSet;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{
    DeploymentCondition, DeploymentSpec, DeploymentStrategy, ReplicaSetCondition, ReplicaSetSpec,
    ReplicaSetStatus, RollingUpdateDeployment,
};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    LabelSelector, ObjectMeta, OwnerReference, Time,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use proptest::prelude::*;
use reconcile::testing::converges;

use super::plan::{Action, Observed, plan};
use super::revisions::{self, REVISION};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + seconds).unwrap()
}

pub(super) fn template(version: &str) -> PodTemplateSpec {
    let labels = BTreeMap::from([("version".to_owned(), version.to_owned())]);
    let metadata = ObjectMeta { labels: Some(labels), ..ObjectMeta::default() };
    PodTemplateSpec { metadata: Some(metadata), spec: None }
}

/// A Deployment of template `new`; `options`: `recreate`, `paused`, `surge=n`, `unavailable=n`,
/// `limit=n`, `revision=n`.
pub(super) fn deployment(replicas: i32, options: &str) -> Arc<Deployment> {
    let mut rolling = RollingUpdateDeployment::default();
    let mut deployment = Deployment {
        metadata: ObjectMeta {
            name: Some("web".to_owned()),
            uid: Some("uid-web".to_owned()),
            generation: Some(1),
            ..ObjectMeta::default()
        },
        spec: Some(DeploymentSpec {
            replicas: Some(replicas),
            template: template("new"),
            selector: LabelSelector::default(),
            strategy: Some(DeploymentStrategy::default()),
            progress_deadline_seconds: Some(600),
            ..DeploymentSpec::default()
        }),
        status: None,
    };
    let spec = deployment.spec.as_mut().unwrap();
    for option in options.split_whitespace() {
        let number = |text: &str| IntOrString::Int(text.parse().unwrap());
        match option.split_once('=').unwrap_or((option, "")) {
            ("recreate", _) => {
                spec.strategy.as_mut().unwrap().type_ = Some("Recreate".to_owned());
            }
            ("paused", _) => spec.paused = Some(true),
            ("surge", it) => rolling.max_surge = Some(number(it)),
            ("unavailable", it) => rolling.max_unavailable = Some(number(it)),
            ("limit", it) => spec.revision_history_limit = Some(it.parse().unwrap()),
            ("revision", it) => {
                let annotations = BTreeMap::from([(REVISION.to_owned(), it.to_owned())]);
                deployment.metadata.annotations = Some(annotations);
            }
            (unknown, _) => panic!("option {unknown}"),
        }
    }
    spec.strategy.as_mut().unwrap().rolling_update = Some(rolling);
    Arc::new(deployment)
}

/// `name replicas/available [revision=n] [desired=n max=n]`; `*name` is of the present template.
pub(super) fn replica_set(position: usize, text: &str) -> Arc<ReplicaSet> {
    let mut words = text.split(' ');
    let name = words.next().unwrap();
    let (replicas, available) = words.next().unwrap().split_once('/').unwrap();
    let (replicas, available): (i32, i32) = (replicas.parse().unwrap(), available.parse().unwrap());
    let mut annotations = BTreeMap::new();
    for word in words {
        let (key, value) = word.split_once('=').unwrap();
        let key = match key {
            "desired" => "desired-replicas",
            "max" => "max-replicas",
            other => other,
        };
        annotations.insert(format!("deployment.kubernetes.io/{key}"), value.to_owned());
    }
    let (name, version) = name.strip_prefix('*').map_or((name, name), |it| (it, "new"));
    Arc::new(ReplicaSet {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            uid: Some(format!("uid-{name}")),
            annotations: Some(annotations),
            creation_timestamp: Some(Time(at(i64::try_from(position).unwrap()))),
            ..ObjectMeta::default()
        },
        spec: Some(ReplicaSetSpec {
            replicas: Some(replicas),
            template: Some(template(version)),
            ..ReplicaSetSpec::default()
        }),
        status: Some(ReplicaSetStatus {
            replicas,
            available_replicas: Some(available),
            ready_replicas: Some(available),
            ..ReplicaSetStatus::default()
        }),
    })
}

pub(super) fn observe(deployment: &Arc<Deployment>, sets: &[Arc<ReplicaSet>]) -> Observed {
    Observed::new(deployment.clone(), sets.to_vec(), at(100))
}

fn render(actions: &[Action]) -> String {
    let name = |it: &ReplicaSet| it.metadata.name.clone().unwrap();
    let lines = actions.iter().filter_map(|it| match it {
        Action::Create(it) => Some(format!("create {}", super::plan::replicas(it))),
        Action::Update(it) => Some(format!("update {}", name(it))),
        Action::Scale(it) => Some(format!("scale {} to {}", name(&it.replica_set), it.replicas)),
        Action::Delete(it) => Some(format!("delete {}", name(it))),
        Action::SetRevision(it) => Some(format!("revision {it}")),
        Action::SetStatus(_) => None,
    });
    lines.collect::<Vec<_>>().join("; ")
}

fn check(replicas: i32, options: &str, sets: &[&str], expected: &str) {
    let sets: Vec<Arc<ReplicaSet>> =
        sets.iter().enumerate().map(|(n, it)| replica_set(n, it)).collect();
    let deployment = deployment(replicas, options);
    assert_eq!(render(&plan(&observe(&deployment, &sets)).actions), expected);
}

#[test]
fn the_first_replica_set_is_made_at_full_size() {
    check(3, "", &[], "create 3");
    check(3, "", &["old 3/3 revision=1"], "create 1");
}

#[test]
fn old_replicas_wait_for_new_ones() {
    let options = "surge=1 unavailable=0 revision=2";
    check(3, options, &["old 3/3", "*new 1/0 revision=2"], "");
    check(3, options, &["old 3/3", "*new 1/1 revision=2"], "scale old to 2");
    check(3, options, &["old 2/2", "*new 1/1 revision=2"], "scale new to 2");
}

#[test]
fn old_replicas_that_serve_nobody_go_first() {
    let options = "surge=1 unavailable=1 revision=2";
    check(3, options, &["old 3/0", "*new 1/0 revision=2"], "scale old to 2");
    check(4, options, &["one 1/1", "two 3/1", "*new 1/0 revision=2"], "scale two to 2");
}

#[test]
fn recreate_starts_new_pods_only_after_the_old_are_gone() {
    check(3, "recreate", &["old 3/3"], "scale old to 0");
    check(3, "recreate", &["old 0/0 revision=1"], "create 3");
    let sets = [replica_set(0, "old 0/0 revision=1")];
    let mut observed = observe(&deployment(3, "recreate"), &sets);
    observed.has_old_pods = true;
    assert_eq!(render(&plan(&observed).actions), "");
}

#[test]
fn a_template_that_comes_back_gets_the_next_revision() {
    let sets = ["*one 0/0 revision=1", "two 3/3 revision=2"];
    check(3, "", &sets, "update one");
    let annotations = revisions::annotations(
        &deployment(3, ""),
        replica_set(0, sets[0]).metadata.annotations.as_ref(),
        3,
    );
    assert_eq!(annotations[REVISION], "3");
    assert_eq!(annotations["deployment.kubernetes.io/revision-history"], "1");
    check(3, "", &["*one 0/0 revision=3", "two 3/3 revision=2"], "revision 3");
}

#[test]
fn a_paused_deployment_scales_but_does_not_roll() {
    check(3, "paused", &["old 3/3 desired=3 max=4"], "");
    check(5, "paused", &["old 3/3 desired=3 max=4"], "scale old to 5");
}

#[test]
fn scaling_in_the_middle_of_an_update_is_shared_out() {
    let sets = ["old 8/8 desired=10 max=13", "*new 5/5 revision=1 desired=10 max=13"];
    check(20, "surge=3 revision=1", &sets, "scale old to 14; scale new to 9");
}

#[test]
fn history_above_the_limit_is_deleted_oldest_first() {
    let sets = ["one 0/0 revision=1", "two 0/0 revision=2", "*new 3/3 revision=3"];
    check(3, "limit=1 revision=3", &sets, "delete one");
    check(3, "limit=2 revision=3", &sets, "");
    check(3, "limit=0 revision=3", &["one 0/0 revision=1", "*new 3/2 revision=3"], "");
}

#[test]
fn a_collision_changes_the_hash_and_nothing_else_does() {
    let hash = |collisions| revisions::template_hash(&template("new"), collisions);
    assert_eq!(hash(None), hash(None));
    assert_ne!(hash(None), hash(Some(1)));
    assert_ne!(hash(None), revisions::template_hash(&template("old"), None));
    assert_eq!(hash(None).len(), 10);
}

/// `type=status reason: message` of each condition besides Available.
fn told(conditions: Option<&Vec<DeploymentCondition>>) -> Vec<String> {
    let conditions = conditions.into_iter().flatten().filter(|it| it.type_ != "Available");
    let text = |it: &Option<String>| it.clone().unwrap_or_default();
    conditions
        .map(|it| format!("{}={} {}: {}", it.type_, it.status, text(&it.reason), text(&it.message)))
        .collect()
}

#[test]
fn pods_that_cannot_be_created_are_a_failure_until_they_can() {
    let mut set = ReplicaSet::clone(&replica_set(0, "*new 3/0 revision=1"));
    set.status.as_mut().unwrap().conditions = Some(vec![ReplicaSetCondition {
        type_: "ReplicaFailure".to_owned(),
        status: "True".to_owned(),
        reason: Some("FailedCreate".to_owned()),
        message: Some("exceeded quota".to_owned()),
        ..ReplicaSetCondition::default()
    }]);
    let mut deployment = deployment(3, "revision=1");
    let status = |deployment: &Arc<Deployment>, set: &ReplicaSet| {
        let observed = observe(deployment, &[Arc::new(set.clone())]);
        super::status::plan(&observed, &[]).status
    };
    let failed = status(&deployment, &set);
    let progressing = r#"Progressing=True FoundNewReplicaSet: Found new replica set "new""#;
    let failure = "ReplicaFailure=True FailedCreate: exceeded quota";
    let waits = r#"Waiting=True PodsNotCreated: ReplicaSet "new" lacks pods: exceeded quota"#;
    assert_eq!(told(failed.conditions.as_ref()), [progressing, failure, waits]);
    Arc::make_mut(&mut deployment).status = Some(failed);
    set.status.as_mut().unwrap().conditions = None;
    let well = status(&deployment, &set);
    let waits = r#"Waiting=True PodsNotAvailable: waiting for 3 of 3 pods of ReplicaSet "new" to be available"#;
    assert_eq!(told(well.conditions.as_ref()), [progressing, waits]);
}

#[test]
fn a_replica_set_that_cannot_be_created_stops_progress_and_is_said_once() {
    let mut deployment = deployment(3, "");
    let status = super::status::not_created(&deployment, "quota", at(0)).unwrap();
    let expected = "Progressing=False ReplicaSetCreateError: quota";
    assert_eq!(told(status.conditions.as_ref()), [expected]);
    Arc::make_mut(&mut deployment).status = Some(status);
    assert_eq!(super::status::not_created(&deployment, "quota again", at(9)), None);
    let spec = Arc::make_mut(&mut deployment).spec.as_mut().unwrap();
    spec.progress_deadline_seconds = None;
    assert_eq!(super::status::not_created(&deployment, "quota", at(9)), None);
}

#[test]
fn the_hash_label_and_empty_maps_do_not_make_another_template() {
    let mut hashed = template("new");
    let meta = hashed.metadata.as_mut().unwrap();
    meta.labels.as_mut().unwrap().insert("pod-template-hash".to_owned(), "1".to_owned());
    meta.annotations = Some(BTreeMap::new());
    let mut set = ReplicaSet::clone(&replica_set(0, "*new 1/1"));
    set.spec.as_mut().unwrap().template = Some(hashed);
    assert!(revisions::is_of_template(&set, &template("new")));
    assert!(!revisions::is_of_template(&set, &template("old")));
}

#[test]
fn a_name_that_is_taken_is_our_own_or_a_collision() {
    let deployment = deployment(3, "");
    let owned_by = |uid: &str| {
        let mut set = ReplicaSet::clone(&replica_set(0, "*new 3/3"));
        set.metadata.owner_references = Some(vec![OwnerReference {
            uid: uid.to_owned(),
            controller: Some(true),
            ..OwnerReference::default()
        }]);
        set
    };
    assert!(revisions::is_own(&owned_by("uid-web"), &deployment));
    assert!(!revisions::is_own(&owned_by("uid-other"), &deployment));
    assert!(!revisions::is_own(&replica_set(0, "*new 3/3"), &deployment));
    let mut other = owned_by("uid-web");
    other.spec.as_mut().unwrap().template = Some(template("old"));
    assert!(!revisions::is_own(&other, &deployment));
    let collided = super::status::collided(&deployment);
    assert_eq!(collided.collision_count, Some(1));
}

#[test]
fn a_deployment_that_is_left_alone_is_seen_once() {
    let mut deployment = deployment(3, "");
    let seen = super::status::seen(&deployment).unwrap();
    assert_eq!(seen.observed_generation, Some(1));
    Arc::make_mut(&mut deployment).status = Some(seen);
    assert_eq!(super::status::seen(&deployment), None);
}

/// What a Deployment's plan is made of.
pub(super) type Model = (Arc<Deployment>, Vec<Arc<ReplicaSet>>);

/// Carries an action out on the model; pods become available at once.
fn apply(model: &mut Model, action: Action) {
    write(model, action);
    for set in model.1.iter_mut().map(Arc::make_mut) {
        let replicas = set.spec.as_ref().unwrap().replicas.unwrap();
        set.status = Some(ReplicaSetStatus {
            replicas,
            ready_replicas: Some(replicas),
            available_replicas: Some(replicas),
            ..ReplicaSetStatus::default()
        });
    }
}

pub(super) fn write((deployment, sets): &mut Model, action: Action) {
    match action {
        Action::Create(it) => {
            let mut created = *it;
            created.metadata.uid = created.metadata.name.clone();
            created.metadata.creation_timestamp = Some(Time(at(50)));
            sets.push(Arc::new(created));
        }
        Action::Update(it) => replace(sets, *it),
        Action::Scale(it) => {
            let mut scaled = ReplicaSet::clone(&it.replica_set);
            scaled.spec.as_mut().unwrap().replicas = Some(it.replicas);
            let annotations = scaled.metadata.annotations.get_or_insert_default();
            annotations.extend(super::plan::size_annotations(deployment));
            replace(sets, scaled);
        }
        Action::Delete(it) => sets.retain(|other| other.metadata.uid != it.metadata.uid),
        Action::SetRevision(it) => {
            let meta = &mut Arc::make_mut(deployment).metadata;
            meta.annotations.get_or_insert_default().insert(REVISION.to_owned(), it);
        }
        Action::SetStatus(it) => Arc::make_mut(deployment).status = Some(*it),
    }
}

fn replace(sets: &mut [Arc<ReplicaSet>], set: ReplicaSet) {
    let stored = sets.iter_mut().find(|it| it.metadata.uid == set.metadata.uid);
    *stored.expect("only known replica sets are written") = Arc::new(set);
}

proptest! {
    #[test]
    fn planning_is_stable_and_the_new_template_takes_over(
        replicas in 0..12i32,
        old in prop::collection::vec((0..8i32, 0..8i32), 0..4),
        surge in 0..4i32,
        unavailable in 0..4i32,
        is_recreate: bool,
    ) {
        let strategy = if is_recreate { "recreate" } else { "" };
        let options = format!("surge={surge} unavailable={unavailable} limit=2 {strategy}");
        let sets: Vec<Arc<ReplicaSet>> = old
            .iter()
            .enumerate()
            .map(|(n, (size, up))| {
                replica_set(n, &format!("old-{n} {size}/{} revision={}", up.min(size), n + 1))
            })
            .collect();
        let rested = converges(
            |(deployment, sets): &Model| plan(&observe(deployment, sets)).actions,
            apply,
            (deployment(replicas, &options), sets),
            100,
        );
        let (deployment, sets) = rested.unwrap();
        let observed = observe(&deployment, &sets);
        let current = observed.current.clone().expect("the current replica set exists");
        prop_assert_eq!(super::plan::replicas(&current), replicas);
        prop_assert!(observed.old.iter().all(|it| super::plan::replicas(it) == 0));
        prop_assert!(observed.old.len() <= 2);
    }
}

#[test]
fn sizes_at_their_limit_do_not_turn_around() {
    let max = i32::MAX;
    let own = format!("revision=2 desired={max} max={max}");
    let sets = [
        format!("*new 5/1 {own}"),
        format!("old {max}/{max} {own}"),
        format!("older {max}/1 {own}"),
    ];
    let sets: Vec<Arc<ReplicaSet>> =
        sets.iter().enumerate().map(|(n, it)| replica_set(n, it)).collect();
    for (replicas, options) in [
        (max, format!("surge={max}")),
        (max, String::new()),
        (7, String::new()),
        (0, String::new()),
    ] {
        for n_sets in 1..=sets.len() {
            let observed = observe(&deployment(replicas, &options), &sets[..n_sets]);
            for action in plan(&observed).actions {
                if let Action::Scale(it) = action {
                    assert!(it.replicas >= 0, "{replicas} {options} {n_sets}: {}", it.replicas);
                }
            }
        }
    }
}

#[test]
fn a_deployment_says_which_replica_set_it_waits_for() {
    let waiting = |deployment: &Arc<Deployment>, sets: &[Arc<ReplicaSet>]| {
        let status = super::status::plan(&observe(deployment, sets), &[]).status;
        let said = status.conditions.into_iter().flatten().find(|it| it.type_ == "Waiting");
        said.map(|it| format!("{}: {}", it.reason.unwrap(), it.message.unwrap()))
    };
    let check = |options: &str, sets: &[&str], expected: Option<&str>| {
        let sets: Vec<_> = sets.iter().enumerate().map(|(n, it)| replica_set(n, it)).collect();
        assert_eq!(waiting(&deployment(3, options), &sets).as_deref(), expected);
    };
    check("", &["*new 3/3"], None);
    check("paused", &["*new 3/1"], None);
    check(
        "",
        &["*new 2/1", "old 2/2"],
        Some("PodsNotAvailable: waiting for 2 of 3 pods of ReplicaSet \"new\" to be available"),
    );
    check(
        "",
        &["*new 3/3", "old 1/1"],
        Some("OldPodsRemain: waiting for 1 pods of old ReplicaSets to go: old"),
    );
    check(
        "recreate",
        &["old 2/2", "older 1/0"],
        Some("OldPodsRemain: waiting for 3 pods of old ReplicaSets to go: old, older"),
    );
    let mut refused = ReplicaSet::clone(&replica_set(0, "*new 3/1"));
    refused.status.as_mut().unwrap().conditions = Some(vec![ReplicaSetCondition {
        type_: "ReplicaFailure".to_owned(),
        status: "True".to_owned(),
        message: Some("exceeded quota: small".to_owned()),
        ..ReplicaSetCondition::default()
    }]);
    assert_eq!(
        waiting(&deployment(3, ""), &[Arc::new(refused)]).unwrap(),
        "PodsNotCreated: ReplicaSet \"new\" lacks pods: exceeded quota: small"
    );
}
