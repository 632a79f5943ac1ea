//! A model of the server, the kubelets and a controller that is killed between any two writes and
//! forgets what it remembers: never two pods of one template on a node, never more unavailable than
//! allowed by its own doing, and it comes to rest.

use std::collections::BTreeSet;
use std::sync::Arc;

use api::Identified as _;
use api::core::pod::PodView;
use proptest::prelude::*;
use serde_json::json;

use super::backoff::Backoff;
use super::nodes::{self, HASH};
use super::plan::{Observed, Plan, View, plan};
use super::tests::{at, node, observed, pod, render, set};

const NODES: [&str; 4] = ["a", "b", "c", "d"];

struct Cluster {
    state: Observed,
    n_made: usize,
    template: u8,
    surge: i32,
    unavailable: i32,
}

impl Cluster {
    fn new(surge: i32, unavailable: i32) -> Self {
        let rolling = json!({"maxUnavailable": unavailable, "maxSurge": surge});
        let strategy = json!({"type": "RollingUpdate", "rollingUpdate": rolling});
        let set = set(&json!({"updateStrategy": strategy}), &json!({}));
        let mut cluster =
            Self { state: observed(&set, &NODES, &[]), n_made: 0, template: 0, surge, unavailable };
        cluster.state.hashes = BTreeSet::from(["0".to_owned()]);
        cluster
    }

    /// Writes of one plan, of which so many are made; who is killed forgets its backoff.
    fn work(&mut self, limit: usize) {
        let plan = plan(&self.state);
        let n_writes = plan.create.len() + plan.delete.len();
        let Plan { create, delete, backoff, .. } = plan;
        let n_created = limit.min(create.len());
        create.iter().take(limit).for_each(|it| self.create(it));
        for removal in delete.iter().take(limit - n_created) {
            self.check_removal(&removal.pod);
            let uid = removal.pod.uid();
            for pod in self.state.pods.iter_mut().filter(|it| it.uid() == uid) {
                Arc::make_mut(&mut Arc::make_mut(pod).meta).is_deleting = true;
            }
        }
        self.state.backoff = if limit >= n_writes { backoff } else { Backoff::default() };
    }

    fn create(&mut self, node: &str) {
        self.n_made += 1;
        let mut pod = pod(&format!("p{:03}@{node} unbound made={}", self.n_made, self.n_made));
        let inner = Arc::make_mut(&mut pod);
        let hash = self.template.to_string();
        let labels = [("app".to_owned(), "agent".to_owned()), (HASH.to_owned(), hash)];
        Arc::make_mut(&mut inner.meta).labels = labels.into_iter().collect();
        self.state.pods.push(pod);
        self.check();
    }

    /// Who serves somebody goes only if enough others do.
    fn check_removal(&self, pod: &PodView) {
        let view = View::new(&self.state);
        let is_wanted = |it: &&super::plan::Site| it.verdict.should_run;
        let node = nodes::target(pod);
        let site = view.sites.iter().filter(is_wanted).find(|it| Some(it.node.name()) == node);
        let Some(site) = site else { return };
        let serves = |it: &Arc<PodView>| it.is_ready && !it.is_deleting();
        let is_last = site.pods.iter().filter(|it| serves(it)).all(|it| it.uid() == pod.uid());
        if !pod.is_ready || pod.is_deleting() || !is_last {
            return;
        }
        let silent = view.sites.iter().filter(is_wanted).filter(|it| !it.pods.iter().any(serves));
        let allowed = if self.surge > 0 { 0 } else { self.unavailable.max(1) };
        assert!((silent.count() as i32) < allowed, "{} went", pod.meta.key.name);
    }

    fn check(&self) {
        for node in NODES {
            let there = self
                .state
                .pods
                .iter()
                .filter(|it| nodes::target(it) == Some(node) && it.is_active());
            let n_there = there.count();
            let most = if self.surge > 0 { 2 } else { 1 };
            assert!(n_there <= most, "{n_there} on {node}");
        }
    }

    fn change(&mut self, choice: usize, change: impl FnOnce(&mut PodView)) {
        let count = self.state.pods.len().max(1);
        if let Some(pod) = self.state.pods.get_mut(choice % count) {
            change(Arc::make_mut(pod));
        }
    }

    fn happen(&mut self, choice: usize, what: u8) {
        let now = self.state.now;
        match what {
            0..=3 => self.change(choice, |it| {
                if !it.is_terminal() {
                    let node = nodes::target(it).unwrap_or_default().to_owned();
                    it.node_name = node.as_str().into();
                    (it.phase, it.is_ready, it.ready_since) = ("Running".into(), true, Some(now));
                }
            }),
            4 => self.change(choice, |it| it.is_ready = false),
            5 => self.change(choice, |it| (it.phase, it.is_ready) = ("Failed".into(), false)),
            6 => self.change(choice, |it| (it.phase, it.is_ready) = ("Succeeded".into(), false)),
            7 => {
                let node_name = NODES[choice % NODES.len()];
                let taint = ["", " !mine:NoSchedule", " !mine:NoExecute"][choice % 3];
                self.state.nodes[choice % NODES.len()] = node(&format!("{node_name}{taint}"));
            }
            _ => self.state.pods.retain(|it| !it.is_deleting()),
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Work(usize),
    Happen(usize, u8),
    Template(u8),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..8usize).prop_map(Step::Work),
        10 => (0..20usize, 0..12u8).prop_map(|(pod, what)| Step::Happen(pod, what)),
        1 => (0..3u8).prop_map(Step::Template),
    ]
}

fn run(surge: i32, unavailable: i32, steps: Vec<Step>) -> Cluster {
    let mut cluster = Cluster::new(surge, unavailable);
    for (second, step) in steps.into_iter().enumerate() {
        cluster.state.now = at(100 + second as i64);
        match step {
            Step::Work(limit) => cluster.work(limit),
            Step::Happen(choice, what) => cluster.happen(choice, what),
            Step::Template(template) => {
                cluster.template = template;
                cluster.state.hashes = BTreeSet::from([template.to_string()]);
            }
        }
    }
    cluster
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_node_has_its_pod_whenever_the_controller_is_killed(
        (surge, unavailable) in prop_oneof![(Just(0), 1..3i32), (1..3i32, Just(0))],
        steps in prop::collection::vec(any_step(), 0..80),
    ) {
        let mut cluster = run(surge, unavailable, steps);
        cluster.state.nodes = NODES.iter().map(|it| node(it)).collect();
        for round in 0..60 {
            cluster.state.now = at(10_000 + round * 2_000);
            cluster.work(usize::MAX);
            cluster.state.pods.retain(|it| !it.is_deleting());
            for pod in 0..cluster.state.pods.len() {
                cluster.happen(pod, 0);
            }
        }
        prop_assert_eq!(render(&plan(&cluster.state)), "");
        prop_assert_eq!(cluster.state.pods.len(), NODES.len());
        let template = cluster.template.to_string();
        for pod in &cluster.state.pods {
            prop_assert_eq!(pod.label(HASH), Some(template.as_str()));
        }
        let status = plan(&cluster.state).status;
        prop_assert_eq!(status.number_available, Some(4));
    }

    #[test]
    fn planning_twice_gives_the_same_plan(steps in prop::collection::vec(any_step(), 0..40)) {
        let cluster = run(0, 1, steps);
        prop_assert_eq!(render(&plan(&cluster.state)), render(&plan(&cluster.state)));
    }
}
