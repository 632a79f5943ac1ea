//! A model of the server, the kubelets and a controller that is killed between any two writes:
//! nothing is counted twice, nothing is forgotten, bounds hold at every step, and it comes to rest.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::Identified as _;
use api::batch::job::{Job, conditions};
use api::core::pod::PodView;
use k8s_openapi::api::batch::v1::JobStatus;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::indexes::Indexes;
use super::plan::{Plan, plan};
use super::terms::is_tracked;
use super::tests::{at, job, observed, pod, render};

struct World {
    job: Arc<Job>,
    pods: BTreeMap<String, Arc<PodView>>,
    n_made: usize,
    /// Pods that lost their finalizers before they ended.
    given_up: BTreeSet<String>,
    now: i64,
}

/// A write, as the server takes it.
enum Write {
    Create(Option<i32>, i32),
    /// Refused if the pod is not as it was.
    GiveUp(Arc<PodView>),
    Delete(String),
    Status(Box<JobStatus>),
    Untrack(String),
}

fn writes(plan: &Plan) -> Vec<Write> {
    let mut writes = Vec::new();
    for creation in &plan.create {
        let failures = creation.failures.map_or(0, |it| it.counted);
        writes.push(Write::Create(creation.index, failures));
    }
    for pod in &plan.let_go {
        if is_tracked(pod) {
            writes.push(Write::GiveUp(pod.clone()));
        }
        writes.push(Write::Delete(pod.uid().to_owned()));
    }
    writes.extend(plan.status.clone().map(|it| Write::Status(Box::new(it))));
    writes.extend(plan.stop.iter().map(|it| Write::Delete(it.uid().to_owned())));
    writes.extend(plan.untrack.iter().map(|it| Write::Untrack(it.uid().to_owned())));
    writes
}

impl World {
    fn new(spec: &Value) -> Self {
        let job = job(spec, &json!({}));
        Self { job, pods: BTreeMap::new(), n_made: 0, given_up: BTreeSet::new(), now: 0 }
    }

    fn plan(&self) -> Plan {
        plan(&observed(&self.job, self.pods.values().cloned().collect(), self.now))
    }

    fn status(&self) -> JobStatus {
        self.job.status.clone().unwrap_or_default()
    }

    fn is_finished(&self) -> bool {
        conditions::is_finished(&self.status())
    }

    fn change(&mut self, uid: &str, change: impl FnOnce(&mut PodView)) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        change(Arc::make_mut(pod));
        // Nobody holds it any more.
        if pod.meta.is_deleting && pod.meta.finalizers.is_empty() && pod.is_terminal() {
            self.pods.remove(uid);
        }
    }

    /// Whether the rest of the plan goes on.
    fn take(&mut self, write: Write) -> bool {
        match write {
            Write::Create(index, failures) => {
                let name = format!("p{:03}", self.n_made);
                self.n_made += 1;
                let index =
                    index.map_or(String::new(), |it| format!(" index={it} failures={failures}"));
                self.pods.insert(name.clone(), pod(&format!("{name}{index}")));
            }
            Write::GiveUp(seen) => {
                if self.pods.get(seen.uid()) != Some(&seen) {
                    return false;
                }
                self.given_up.insert(seen.uid().to_owned());
                self.change(seen.uid(), |it| Arc::make_mut(&mut it.meta).finalizers.clear());
            }
            Write::Delete(uid) => self.delete(&uid),
            Write::Status(status) => Arc::make_mut(&mut self.job).status = Some(*status),
            Write::Untrack(uid) => {
                self.change(&uid, |it| Arc::make_mut(&mut it.meta).finalizers.clear());
            }
        }
        self.check();
        true
    }

    fn delete(&mut self, uid: &str) {
        self.change(uid, |it| Arc::make_mut(&mut it.meta).is_deleting = true);
    }

    /// What a kubelet, or somebody with kubectl, does to a pod.
    fn happen(&mut self, choice: usize, what: u8) {
        let Some(uid) = self.pods.keys().nth(choice % self.pods.len().max(1)).cloned() else {
            return;
        };
        let (now, is_terminal) = (self.now, self.pods[&uid].is_terminal());
        let phase = match what {
            0 | 1 if !is_terminal => "Succeeded",
            2 | 3 if !is_terminal => "Failed",
            4 => return self.delete(&uid),
            _ => return,
        };
        self.change(&uid, |it| {
            it.phase = phase.into();
            it.job.as_mut().unwrap().ended = Some(at(now));
        });
    }

    /// Kubelets end what is being deleted.
    fn end_deleted(&mut self) {
        for uid in self.pods.keys().cloned().collect::<Vec<_>>() {
            let pod = &self.pods[&uid];
            if pod.meta.is_deleting && !pod.is_terminal() {
                self.change(&uid, |it| it.phase = "Failed".into());
            } else {
                self.change(&uid, |_| {});
            }
        }
    }

    /// What holds at every step.
    fn check(&self) {
        let spec = self.job.spec.as_ref().unwrap();
        let parallelism = spec.parallelism.unwrap();
        let n_active = self.pods.values().filter(|it| it.is_active()).count();
        assert!(n_active <= parallelism as usize, "{n_active} run");
        let status = self.status();
        let uncounted = status.uncounted_terminated_pods.clone().unwrap_or_default();
        let named = uncounted.succeeded.iter().chain(&uncounted.failed).flatten().count();
        let counted = status.succeeded.unwrap_or(0) + status.failed.unwrap_or(0);
        let most = self.n_made - self.given_up.len();
        assert!(counted as usize + named <= most, "{counted} and {named} of {most}");
        assert!(status.ready.unwrap_or(0) <= status.active.unwrap_or(0));
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// A plan, of which so many writes are made; between them things happen to pods.
    Work(usize, Vec<(usize, u8)>),
    Happen(usize, u8),
    Suspend(bool),
}

fn any_step() -> impl Strategy<Value = Step> {
    let events = prop::collection::vec((0..20usize, 0..12u8), 0..4);
    prop_oneof![
        6 => (0..30usize, events).prop_map(|(writes, events)| Step::Work(writes, events)),
        6 => (0..20usize, 0..5u8).prop_map(|(pod, what)| Step::Happen(pod, what)),
        1 => any::<bool>().prop_map(Step::Suspend),
    ]
}

fn run(spec: &Value, steps: Vec<Step>) -> World {
    let mut world = World::new(spec);
    for step in steps {
        world.now += 1;
        match step {
            Step::Happen(pod, what) => world.happen(pod, what),
            Step::Suspend(is_suspended) => {
                Arc::make_mut(&mut world.job).spec.as_mut().unwrap().suspend = Some(is_suspended);
            }
            Step::Work(_, _) if world.is_finished() => {}
            Step::Work(limit, events) => {
                let mut events = events.into_iter();
                for write in writes(&world.plan()).into_iter().take(limit) {
                    if let Some((pod, what)) = events.next() {
                        world.happen(pod, what);
                    }
                    if !world.take(write) {
                        break;
                    }
                }
            }
        }
    }
    world
}

/// Every pod succeeds from now on, and nobody is killed.
fn rest(world: &mut World) {
    Arc::make_mut(&mut world.job).spec.as_mut().unwrap().suspend = None;
    for _ in 0..60 {
        world.now += 700;
        for write in writes(&world.plan()) {
            world.take(write);
        }
        world.end_deleted();
        if world.is_finished() {
            return;
        }
        for uid in world.pods.keys().cloned().collect::<Vec<_>>() {
            if world.pods[&uid].is_active() {
                world.change(&uid, |it| it.phase = "Succeeded".into());
            }
        }
    }
    panic!("still {:?}", world.status());
}

fn check_count(world: &World) {
    let status = world.status();
    let counted = status.succeeded.unwrap_or(0) + status.failed.unwrap_or(0);
    assert_eq!(counted as usize, world.n_made - world.given_up.len(), "{status:?}");
    assert!(world.pods.values().all(|it| !is_tracked(it)), "somebody is held");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_pod_that_ended_is_counted_once_whenever_the_controller_is_killed(
        parallelism in 1..5i32,
        completions in 1..8i32,
        backoff_limit in 0..6i32,
        waits in any::<bool>(),
        steps in prop::collection::vec(any_step(), 0..60),
    ) {
        let policy = if waits { "Failed" } else { "TerminatingOrFailed" };
        let spec = json!({
            "parallelism": parallelism, "completions": completions, "backoffLimit": backoff_limit,
            "podReplacementPolicy": policy,
        });
        let mut world = run(&spec, steps);
        rest(&mut world);
        check_count(&world);
    }

    #[test]
    fn every_index_ends_once_whenever_the_controller_is_killed(
        parallelism in 1..5i32,
        completions in 1..8i32,
        limit in prop::option::of(0..3i32),
        steps in prop::collection::vec(any_step(), 0..60),
    ) {
        let mut spec = json!({
            "completionMode": "Indexed", "parallelism": parallelism, "completions": completions,
            "backoffLimit": i32::MAX,
        });
        if let Some(limit) = limit {
            spec["backoffLimitPerIndex"] = json!(limit);
        }
        let mut world = run(&spec, steps);
        rest(&mut world);
        let status = world.status();
        prop_assert!(world.pods.values().all(|it| !is_tracked(it)), "somebody is held");
        let failed = status.failed_indexes.as_deref().unwrap_or_default();
        let over = Indexes::parse(failed, completions)
            .union(&Indexes::parse(status.completed_indexes.as_deref().unwrap_or_default(), completions));
        prop_assert_eq!(over.len(), i64::from(completions), "{:?}", status);
        prop_assert_eq!(conditions::is_true(&status, "Complete"), failed.is_empty());
    }

    #[test]
    fn planning_twice_gives_the_same_plan(steps in prop::collection::vec(any_step(), 0..40)) {
        let world = run(&json!({"parallelism": 3, "completions": 6}), steps);
        prop_assert_eq!(render(&world.plan()), render(&world.plan()));
    }
}
