//! A model of the server, the kubelets and a controller that is killed between any two writes, and
//! whose caches may be old: identities stay unique, the order is kept at every step, and it comes
//! to rest.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::Identified as _;
use api::apps::StatefulSet;
use api::core::pod::PodView;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::claims::Write;
use super::identity::REVISION;
use super::plan::{From, Plan, Task, Terms, Then};
use super::tests::{World, pod, render, revision, set};

/// What the server has, and the world as the controller saw it last.
struct Cluster {
    server: World,
    /// By name: the server has each once.
    n_made: usize,
}

fn name(pod: &PodView) -> &str {
    &pod.meta.key.name
}

impl Cluster {
    fn new(spec: &Value) -> Self {
        let server = World {
            set: set(spec, &json!({})),
            current: revision("new"),
            update: revision("new"),
            pods: Vec::new(),
            strangers: Vec::new(),
            claims: BTreeMap::new(),
            allows_max_unavailable: false,
            now: 0,
        };
        Self { server, n_made: 0 }
    }

    fn plan(&self) -> Plan {
        self.server.plan()
    }

    fn set(&mut self, change: impl FnOnce(&mut StatefulSet)) {
        change(Arc::make_mut(&mut self.server.set));
    }

    fn change(&mut self, choice: usize, change: impl FnOnce(&mut PodView)) {
        let count = self.server.pods.len().max(1);
        if let Some(pod) = self.server.pods.get_mut(choice % count) {
            change(Arc::make_mut(pod));
        }
    }

    /// The tasks of one plan, of which so many are carried out; then the status, unless killed.
    fn work(&mut self, limit: usize) {
        let plan = self.plan();
        for task in plan.tasks.iter().take(limit) {
            self.take(task);
        }
        if limit >= plan.tasks.len() {
            let status = plan.status;
            // What the record of the history says of a finished rollout.
            if status.current_revision == status.update_revision {
                self.server.current = self.server.update.clone();
            }
            self.set(|it| it.status = Some(status));
        }
    }

    fn take(&mut self, task: &Task) {
        for write in &task.claims {
            let (Write::Create(claim) | Write::Update { claim, .. }) = write;
            let name = claim.metadata.name.clone().unwrap();
            self.server.claims.insert(name, Arc::new((**claim).clone()));
        }
        match &task.then {
            Then::Nothing | Then::Relabel(_) => {}
            Then::Create(ordinal, from) => self.create(*ordinal, *from),
            Then::Delete(seen) => {
                self.check_deletion(seen);
                let uid = seen.uid();
                for pod in self.server.pods.iter_mut().filter(|it| it.uid() == uid) {
                    Arc::make_mut(&mut Arc::make_mut(pod).meta).is_deleting = true;
                }
            }
        }
    }

    fn create(&mut self, ordinal: i64, from: From) {
        let text = format!("{ordinal} Pending");
        let mut pod = pod(&text);
        if self.server.pods.iter().any(|it| name(it) == name(&pod)) {
            return;
        }
        let terms = Terms::of(&self.server.set);
        if terms.is_ordered {
            for below in terms.first..ordinal {
                let is_well = |it: &Arc<PodView>| it.is_ready && !it.is_deleting();
                let found = self.server.pods.iter().find(|it| name(it) == format!("web-{below}"));
                assert!(found.is_some_and(is_well), "{ordinal} before {below}");
            }
        }
        self.n_made += 1;
        let source = match from {
            From::Current => &self.server.current,
            From::Update => &self.server.update,
        };
        let source = source.metadata.name.clone().unwrap();
        let inner = Arc::make_mut(&mut pod);
        let meta = Arc::make_mut(&mut inner.meta);
        meta.uid = format!("uid-{}", self.n_made);
        let labels: Vec<(String, String)> = meta
            .labels
            .iter()
            .filter(|(key, _)| *key != REVISION)
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .chain([(REVISION.to_owned(), source)])
            .collect();
        meta.labels = labels.into_iter().collect();
        self.server.pods.push(pod);
    }

    /// An ordered set takes one healthy pod away at a time.
    fn check_deletion(&self, seen: &PodView) {
        if !Terms::of(&self.server.set).is_ordered || !seen.is_ready {
            return;
        }
        let going = self.server.pods.iter().filter(|it| it.is_deleting() && it.is_ready);
        let others: Vec<&str> =
            going.filter(|it| it.uid() != seen.uid()).map(|it| name(it)).collect();
        assert!(others.is_empty(), "{} beside {others:?}", name(seen));
    }

    /// What a kubelet, or somebody with kubectl, does to a pod.
    fn happen(&mut self, choice: usize, what: u8) {
        let since = super::tests::at(self.server.now);
        match what {
            0..=3 => self.change(choice, |it| {
                if !it.is_terminal() {
                    it.phase = "Running".into();
                    it.is_ready = true;
                    it.ready_since = Some(since);
                }
            }),
            4 => self.change(choice, |it| it.is_ready = false),
            5 => self.change(choice, |it| {
                (it.phase, it.is_ready) = ("Failed".into(), false);
            }),
            6 => self.change(choice, |it| {
                (it.phase, it.is_ready) = ("Succeeded".into(), false);
            }),
            _ => self.end_deleted(),
        }
    }

    fn end_deleted(&mut self) {
        self.server.pods.retain(|it| !it.is_deleting());
    }

    fn check(&self) {
        let mut names: Vec<&str> = self.server.pods.iter().map(|it| name(it)).collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all, "two pods of one name");
    }
}

#[derive(Clone, Debug)]
enum Step {
    Work(usize),
    Happen(usize, u8),
    Scale(i32),
    Change(u8),
    Partition(i32),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..6usize).prop_map(Step::Work),
        8 => (0..20usize, 0..10u8).prop_map(|(pod, what)| Step::Happen(pod, what)),
        1 => (0..6i32).prop_map(Step::Scale),
        1 => (0..3u8).prop_map(Step::Change),
        1 => (0..6i32).prop_map(Step::Partition),
    ]
}

fn run(spec: &Value, steps: Vec<Step>) -> Cluster {
    let mut cluster = Cluster::new(spec);
    for step in steps {
        cluster.server.now += 1;
        match step {
            Step::Work(limit) => cluster.work(limit),
            Step::Happen(pod, what) => cluster.happen(pod, what),
            Step::Scale(replicas) => {
                cluster.set(|it| it.spec.as_mut().unwrap().replicas = Some(replicas));
            }
            Step::Change(which) => {
                cluster.server.update = revision(["new", "newer", "newest"][usize::from(which)]);
            }
            Step::Partition(partition) => cluster.set(|it| {
                let strategy = it.spec.as_mut().unwrap().update_strategy.as_mut().unwrap();
                strategy.rolling_update.get_or_insert_default().partition = Some(partition);
            }),
        }
        cluster.check();
    }
    cluster
}

/// Every pod is well from now on, and nobody is killed.
fn rest(cluster: &mut Cluster) {
    for _ in 0..100 {
        cluster.server.now += 100;
        let planned = cluster.plan();
        let is_settled =
            planned.tasks.is_empty() && cluster.server.set.status.as_ref() == Some(&planned.status);
        let is_well = cluster.server.pods.iter().all(|it| it.is_ready && !it.is_deleting());
        if is_settled && is_well {
            return;
        }
        cluster.work(usize::MAX);
        cluster.end_deleted();
        for pod in 0..cluster.server.pods.len() {
            cluster.happen(pod, 0);
        }
    }
    panic!("still {}", render(&cluster.plan()));
}

fn check_rest(cluster: &Cluster) {
    let terms = Terms::of(&cluster.server.set);
    let mut ordinals: Vec<i64> =
        cluster.server.pods.iter().map(|it| name(it)[4..].parse().unwrap()).collect();
    ordinals.sort_unstable();
    assert_eq!(ordinals, (terms.first..terms.end).collect::<Vec<_>>());
    let update = cluster.server.update.metadata.name.as_deref();
    for pod in &cluster.server.pods {
        let ordinal: i64 = name(pod)[4..].parse().unwrap();
        if ordinal >= terms.kept_below {
            assert_eq!(pod.label(REVISION), update, "{}", name(pod));
        }
        assert!(cluster.server.claims.contains_key(&format!("data-{}", name(pod))));
    }
    let status = cluster.server.set.status.as_ref().unwrap();
    assert_eq!(i64::from(status.replicas), terms.end - terms.first);
    if terms.kept_below <= terms.first {
        assert_eq!(status.current_revision.as_deref(), update);
    }
}

fn spec(replicas: i32, policy: &str, start: i32) -> Value {
    json!({
        "replicas": replicas, "podManagementPolicy": policy, "ordinals": {"start": start},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {}}],
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Retain"},
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn an_ordered_set_keeps_its_order_whenever_the_controller_is_killed(
        replicas in 0..5i32,
        start in 0..3i32,
        steps in prop::collection::vec(any_step(), 0..60),
    ) {
        let mut cluster = run(&spec(replicas, "OrderedReady", start), steps);
        rest(&mut cluster);
        check_rest(&cluster);
    }

    #[test]
    fn a_parallel_set_comes_to_rest_whenever_the_controller_is_killed(
        replicas in 0..6i32,
        steps in prop::collection::vec(any_step(), 0..60),
    ) {
        let mut cluster = run(&spec(replicas, "Parallel", 0), steps);
        rest(&mut cluster);
        check_rest(&cluster);
    }

    #[test]
    fn planning_twice_gives_the_same_plan(steps in prop::collection::vec(any_step(), 0..40)) {
        let cluster = run(&spec(4, "OrderedReady", 0), steps);
        prop_assert_eq!(render(&cluster.plan()), render(&cluster.plan()));
    }
}
