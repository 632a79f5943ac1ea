//! A rollout step by step, while pods turn ready and ReplicaSets follow at any time: never fewer
//! pods available and never more wanted than the bounds allow.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::apps::deployment::Deployment;
use api::apps::replica_set::ReplicaSet;
use k8s_openapi::api::apps::v1::ReplicaSetStatus;
use proptest::prelude::*;

use super::plan::{Action, plan, replicas, wanted};
use super::rolling::bounds;
use super::tests::{Model, deployment, observe, replica_set, template, write};

#[derive(Clone, Debug)]
enum Step {
    /// The controller looks, and writes this many of the things that it wants.
    Plan(usize),
    /// A ReplicaSet makes or deletes pods, those that serve nobody first, and counts them.
    Follow(usize),
    /// A pod of a ReplicaSet turns ready; nobody has counted it yet.
    Ready(usize),
    /// Another template, perhaps one that there was.
    Template(u8),
}

#[derive(Clone, Copy, Debug, Default)]
struct Pods {
    all: i32,
    ready: i32,
}

struct Rollout {
    model: Model,
    pods: BTreeMap<String, Pods>,
}

fn uid(set: &ReplicaSet) -> String {
    set.metadata.uid.clone().unwrap()
}

impl Rollout {
    fn new(deployment: Arc<Deployment>) -> Self {
        let size = wanted(&deployment);
        let old = replica_set(0, &format!("old {size}/{size} revision=1"));
        let pods = BTreeMap::from([(uid(&old), Pods { all: size, ready: size })]);
        Self { model: (deployment, vec![old]), pods }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Plan(most) => {
                let actions = plan(&observe(&self.model.0, &self.model.1)).actions;
                for action in actions.into_iter().take(*most) {
                    if let Action::Delete(it) = &action {
                        assert_eq!(self.pods.remove(&uid(it)).unwrap_or_default().all, 0);
                    }
                    write(&mut self.model, action);
                    self.check();
                }
            }
            Step::Follow(index) => self.follow(*index),
            Step::Ready(index) => {
                let index = index % self.model.1.len();
                let pods = self.pods.entry(uid(&self.model.1[index])).or_default();
                pods.ready = (pods.ready + 1).min(pods.all);
            }
            Step::Template(version) => {
                let spec = Arc::make_mut(&mut self.model.0).spec.as_mut().unwrap();
                spec.template = template(&format!("v{version}"));
            }
        }
        self.check();
    }

    fn follow(&mut self, index: usize) {
        let index = index % self.model.1.len();
        let set = Arc::make_mut(&mut self.model.1[index]);
        let pods = self.pods.entry(uid(set)).or_default();
        pods.all = replicas(set);
        pods.ready = pods.ready.min(pods.all);
        set.status = Some(ReplicaSetStatus {
            replicas: pods.all,
            ready_replicas: Some(pods.ready),
            available_replicas: Some(pods.ready),
            ..ReplicaSetStatus::default()
        });
    }

    fn check(&self) {
        let (deployment, sets) = &self.model;
        let (total, bounds) = (wanted(deployment), bounds(deployment));
        let ready: i32 = self.pods.values().map(|it| it.ready).sum();
        assert!(ready >= total - bounds.unavailable, "{ready} of {total} are ready, {bounds:?}");
        let sizes: i32 = sets.iter().map(|it| replicas(it)).sum();
        assert!(sizes <= total + bounds.surge, "{sizes} for {total} are wanted, {bounds:?}");
    }

    /// Nobody disturbs it any more.
    fn finish(&mut self) {
        for _ in 0..200 {
            self.step(&Step::Plan(usize::MAX));
            for index in 0..self.model.1.len() {
                self.step(&Step::Follow(index));
                self.step(&Step::Ready(index));
                self.step(&Step::Follow(index));
            }
        }
        let observed = observe(&self.model.0, &self.model.1);
        let current = observed.current.clone().expect("the rollout is over");
        let total = wanted(&self.model.0);
        assert_eq!(self.pods[&uid(&current)].ready, total);
        assert_eq!(self.pods.values().map(|it| it.all).sum::<i32>(), total);
    }
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..4_usize).prop_map(Step::Plan),
        4 => (0..4_usize).prop_map(Step::Follow),
        4 => (0..4_usize).prop_map(Step::Ready),
        1 => (0..3_u8).prop_map(Step::Template),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn a_rollout_keeps_its_bounds_at_every_step(
        size in 0..8_i32,
        surge in 0..4_i32,
        unavailable in 0..4_i32,
        steps in prop::collection::vec(any_step(), 0..80),
    ) {
        let options = format!("surge={surge} unavailable={unavailable} limit=2");
        let mut rollout = Rollout::new(deployment(size, &options));
        steps.iter().for_each(|it| rollout.step(it));
        rollout.finish();
    }
}
