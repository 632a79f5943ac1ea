//! Pods in, adoptions, releases, creations and deletions out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::Identified as _;
use api::core::pod::{Pod, PodView};
use apimachinery::selector::Labels;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, PodCondition, PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use proptest::prelude::*;
use reconcile::testing::converges;

use super::plan::{Observed, Plan, plan};
use super::status::{self, Failure, Planned, Status, Wanted};

pub(super) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + seconds).unwrap()
}

/// `name word word ...`: `orphan`, `foreign`, `other` (labels that do not match), `deleting`,
/// `node=n`, `ready=seconds`, `age=seconds`, `cost=n`, `restarts=n`, or a phase.
pub(super) fn pod(text: &str) -> Arc<PodView> {
    let mut words = text.split(' ');
    let name = words.next().unwrap();
    let mut pod = Pod {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            uid: Some(format!("uid-{name}")),
            labels: Some(BTreeMap::from([("app".to_owned(), "web".to_owned())])),
            owner_references: Some(vec![owner("owner")]),
            creation_timestamp: Some(Time(at(0))),
            ..ObjectMeta::default()
        },
        spec: Some(PodSpec::default()),
        status: Some(PodStatus { phase: Some("Running".to_owned()), ..PodStatus::default() }),
    };
    for word in words {
        describe(&mut pod, word);
    }
    Arc::new(PodView::from(&pod))
}

fn owner(uid: &str) -> OwnerReference {
    OwnerReference { uid: uid.to_owned(), controller: Some(true), ..OwnerReference::default() }
}

fn describe(pod: &mut Pod, word: &str) {
    let (meta, status) = (&mut pod.metadata, pod.status.as_mut().unwrap());
    match word.split_once('=').unwrap_or((word, "")) {
        ("orphan", _) => meta.owner_references = None,
        ("foreign", _) => meta.owner_references = Some(vec![owner("somebody")]),
        ("other", _) => meta.labels = None,
        ("deleting", _) => meta.deletion_timestamp = Some(Time(at(0))),
        ("node", node) => pod.spec.as_mut().unwrap().node_name = Some(node.to_owned()),
        ("age", seconds) => {
            meta.creation_timestamp = Some(Time(at(-seconds.parse::<i64>().unwrap())));
        }
        ("ready", seconds) => {
            status.conditions = Some(vec![PodCondition {
                type_: "Ready".to_owned(),
                status: "True".to_owned(),
                last_transition_time: Some(Time(at(-seconds.parse::<i64>().unwrap()))),
                ..PodCondition::default()
            }]);
        }
        ("cost", cost) => {
            let key = "controller.kubernetes.io/pod-deletion-cost".to_owned();
            meta.annotations = Some(BTreeMap::from([(key, cost.to_owned())]));
        }
        ("restarts", count) => {
            let restart_count = count.parse().unwrap();
            status.container_statuses =
                Some(vec![ContainerStatus { restart_count, ..ContainerStatus::default() }]);
        }
        (phase, _) => status.phase = Some(phase.to_owned()),
    }
}

fn observed(replicas: i32, pods: Vec<Arc<PodView>>) -> Observed<'static> {
    let mut related_per_node = BTreeMap::new();
    for node in pods.iter().filter_map(|it| it.node()) {
        *related_per_node.entry(node.to_owned()).or_insert(0) += 1;
    }
    Observed {
        owner_uid: "owner".to_owned(),
        is_deleting: false,
        replicas,
        selector: Labels::from_map(&BTreeMap::from([("app".to_owned(), "web".to_owned())])),
        candidates: pods,
        related_per_node: Box::new(move || related_per_node.clone()),
        is_cache_current: true,
        now: at(0),
    }
}

fn render(plan: &Plan) -> String {
    let names = |pods: &[Arc<PodView>]| -> String {
        let names = pods.iter().map(|it| format!(" {}", it.key().name));
        names.collect()
    };
    let mut lines = Vec::new();
    for (verb, pods) in
        [("adopt", &plan.adopt), ("release", &plan.release), ("delete", &plan.delete)]
    {
        if !pods.is_empty() {
            lines.push(format!("{verb}{}", names(pods)));
        }
    }
    if plan.create > 0 {
        lines.push(format!("create {}", plan.create));
    }
    lines.join("; ")
}

fn check(replicas: i32, pods: &[&str], expected: &str) {
    let pods = pods.iter().map(|it| pod(it)).collect();
    assert_eq!(render(&plan(&observed(replicas, pods))), expected);
}

#[test]
fn missing_pods_are_created_in_bounded_number() {
    check(3, &[], "create 3");
    check(3, &["a", "b"], "create 1");
    check(3, &["a", "b Failed", "c deleting"], "create 2");
    check(10_000, &[], "create 500");
}

#[test]
fn orphans_that_match_are_adopted_and_strangers_left_alone() {
    check(1, &["a orphan"], "adopt a");
    check(1, &["a foreign"], "create 1");
    check(1, &["a orphan other"], "create 1");
    check(1, &["a orphan deleting"], "create 1");
    check(1, &["a other"], "release a; create 1");
}

#[test]
fn surplus_pods_that_do_the_least_go_first() {
    check(1, &["a node=n", "b"], "delete b");
    check(1, &["a node=n", "b node=n Pending"], "delete b");
    check(1, &["a node=n ready=9", "b node=n"], "delete b");
    check(1, &["a node=n ready=9 cost=5", "b node=n ready=9 cost=-5"], "delete b");
    check(2, &["a node=m ready=9", "b node=n ready=5", "c node=n ready=9"], "delete b");
    check(1, &["a node=n ready=9", "b node=n ready=5"], "delete b");
    check(1, &["a node=n ready=9", "b node=n ready=9 restarts=3"], "delete b");
    check(1, &["a node=n age=9", "b node=n age=3"], "delete b");
}

#[test]
fn ages_of_one_order_of_magnitude_count_as_equal() {
    // 2^33 ns are 8.6 s and 2^34 ns 17.2 s: 9 s and 16 s are one order, 5 s another.
    check(1, &["a node=n ready=9", "b node=n ready=16"], "delete a");
    check(1, &["b node=n ready=9", "a node=n ready=16"], "delete a");
    check(1, &["a node=n ready=9", "b node=n ready=5"], "delete b");
    check(1, &["b node=n age=9", "a node=n age=16"], "delete a");
    // Restarts decide between pods of one second alone.
    check(1, &["a node=n ready=9", "b node=n ready=16 restarts=3"], "delete a");
    check(2, &["a node=n ready=9", "c node=n ready=9 restarts=3", "b node=n ready=16"], "delete c");
}

#[test]
fn nothing_is_created_or_deleted_while_earlier_writes_are_not_seen() {
    let mut stale = observed(3, vec![pod("a")]);
    stale.is_cache_current = false;
    assert_eq!(render(&plan(&stale)), "");
    let mut deleting = observed(3, vec![pod("a"), pod("b orphan")]);
    deleting.is_deleting = true;
    assert_eq!(render(&plan(&deleting)), "");
}

/// The status after `plan`, of an owner that wants its pods ready for five seconds.
fn told(plan: &Plan, failure: Option<&str>, stored: &Status) -> Planned {
    let wanted =
        Wanted { template: None, min_ready_seconds: 5, generation: 1, counts_terminating: true };
    let failure =
        failure.map(|it| Failure { reason: "FailedCreate".to_owned(), message: it.to_owned() });
    status::plan(plan, &wanted, failure, stored, at(0))
}

#[test]
fn a_ready_pod_is_available_after_its_minimum_time() {
    let pods = vec![pod("a ready=10"), pod("b ready=4"), pod("c"), pod("d deleting")];
    let planned = told(&plan(&observed(3, pods)), None, &Status::default());
    let status = planned.write.unwrap();
    assert_eq!((status.replicas, status.ready, status.available), (3, 2, 1));
    assert_eq!((status.terminating, status.observed_generation), (1, 1));
    assert_eq!(planned.next_available, Some(Duration::from_secs(1)));
}

#[test]
fn a_failure_is_said_once_until_it_is_over() {
    let plan = plan(&observed(3, Vec::new()));
    let first = told(&plan, Some("no room"), &Status::default()).write.unwrap();
    assert_eq!(first.failure.as_ref().unwrap().message, "no room");
    assert_eq!(told(&plan, Some("still no room"), &first).write, None);
    assert_eq!(told(&plan, None, &first).write.unwrap().failure, None);
}

#[test]
fn kinds_without_the_field_do_not_count_what_is_ending() {
    let plan = plan(&observed(1, vec![pod("a"), pod("b deleting")]));
    let wanted =
        Wanted { template: None, min_ready_seconds: 0, generation: 1, counts_terminating: false };
    let status = status::plan(&plan, &wanted, None, &Status::default(), at(0)).write.unwrap();
    assert_eq!((status.replicas, status.terminating), (1, 0));
}

#[test]
fn only_changes_that_count_wake_the_owner() {
    let is_relevant =
        |before: &str, after: &str| crate::workload::is_relevant(&pod(before), &pod(after));
    for after in ["a deleting", "a Failed", "a ready=1", "a other", "a orphan"] {
        assert!(is_relevant("a", after), "{after}");
    }
    for after in ["a node=n", "a restarts=1", "a cost=3", "a Pending"] {
        assert!(!is_relevant("a", after), "{after}");
    }
    assert!(is_relevant("a ready=1", "a ready=2"));
}

fn some_pod() -> impl Strategy<Value = String> {
    let owner = prop_oneof![Just(""), Just(" orphan"), Just(" foreign")];
    let labels = prop_oneof![3 => Just(""), 1 => Just(" other")];
    let life = prop_oneof![4 => Just(""), 1 => Just(" deleting"), 1 => Just(" Failed")];
    let place = prop_oneof![Just(""), Just(" node=n"), Just(" node=m ready=3")];
    (owner, labels, life, place).prop_map(|(a, b, c, d)| format!("{a}{b}{c}{d}"))
}

/// A part of a plan.
#[derive(Debug, PartialEq)]
enum Step {
    Adopt(Arc<PodView>),
    Release(Arc<PodView>),
    Delete(Arc<PodView>),
    Create,
}

fn steps(plan: Plan) -> Vec<Step> {
    let mut steps: Vec<Step> = plan.adopt.into_iter().map(Step::Adopt).collect();
    steps.extend(plan.release.into_iter().map(Step::Release));
    steps.extend(plan.delete.into_iter().map(Step::Delete));
    steps.extend((0..plan.create).map(|_| Step::Create));
    steps
}

/// Carries a part of a plan out on the model.
fn apply(pods: &mut Vec<Arc<PodView>>, step: Step) {
    let position = |pods: &[Arc<PodView>], wanted: &PodView| {
        pods.iter().position(|it| it.key() == wanted.key()).unwrap()
    };
    let own = |pod: &mut Arc<PodView>, owners| {
        Arc::make_mut(&mut Arc::make_mut(pod).meta).owner_references = owners;
    };
    match step {
        Step::Adopt(it) => {
            let at = position(pods, &it);
            own(&mut pods[at], vec![owner("owner")]);
        }
        Step::Release(it) => {
            let at = position(pods, &it);
            own(&mut pods[at], Vec::new());
        }
        Step::Delete(it) => _ = pods.remove(position(pods, &it)),
        // Names are never used again: the model only grows by one at a time.
        Step::Create => pods.push(pod(&format!("new-{}", unused(pods)))),
    }
}

/// A number that no pod of the model has in its name.
fn unused(pods: &[Arc<PodView>]) -> usize {
    let names = pods.iter().map(|it| it.meta.key.name.as_str());
    let numbers = names.filter_map(|it| it.strip_prefix("new-")?.parse::<usize>().ok());
    numbers.max().map_or(0, |it| it + 1)
}

proptest! {
    #[test]
    fn planning_is_stable_and_reaches_the_wanted_number(
        replicas in 0..20i32,
        pods in prop::collection::vec(some_pod(), 0..20),
    ) {
        let pods: Vec<Arc<PodView>> =
            pods.iter().enumerate().map(|(n, it)| pod(&format!("pod-{n}{it}"))).collect();
        let rested =
            converges(|pods: &Vec<_>| steps(plan(&observed(replicas, pods.clone()))), apply, pods, 2);
        let last = plan(&observed(replicas, rested.unwrap()));
        prop_assert_eq!(i32::try_from(last.active.len()).unwrap(), replicas);
    }

    #[test]
    fn one_write_of_the_status_is_enough(
        replicas in 0..5i32,
        pods in prop::collection::vec(some_pod(), 0..10),
        failure in prop::option::of("[a-c]"),
    ) {
        let pods: Vec<Arc<PodView>> =
            pods.iter().enumerate().map(|(n, it)| pod(&format!("pod-{n}{it}"))).collect();
        let plan = plan(&observed(replicas, pods));
        let rested = converges(
            |stored| told(&plan, failure.as_deref(), stored).write.into_iter().collect(),
            |stored, written| *stored = written,
            Status::default(),
            1,
        );
        prop_assert_eq!(rested.unwrap().failure.is_some(), failure.is_some());
    }
}
