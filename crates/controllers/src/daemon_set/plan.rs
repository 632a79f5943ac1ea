//! Which nodes of a DaemonSet need a pod, and which pods go. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::Identified as _;
use api::apps::DaemonSet;
use api::core::node::NodeView;
use api::core::pod::PodView;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::DaemonSetStatus;

use super::backoff::Backoff;
use super::nodes::{self, Demands, GENERATION, HASH, Verdict};
use super::{rolling, status};
use crate::explanations::{Explanation, list};
use crate::pods;

/// Pods made, and pods deleted, by one reconcile, at most; the next one goes on.
pub(super) const BURST: usize = 250;

pub(super) struct Observed {
    pub set: Arc<DaemonSet>,
    /// Those of the present template: more than one if somebody stored it twice.
    pub hashes: BTreeSet<String>,
    /// By name.
    pub nodes: Vec<Arc<NodeView>>,
    /// Its own.
    pub pods: Vec<Arc<PodView>>,
    pub backoff: Backoff,
    pub now: Timestamp,
}

/// Why a pod goes, where an event says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    Failed,
    Succeeded,
    /// There are too many, or it should not be there, or it is outdated.
    Other,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Removal {
    pub pod: Arc<PodView>,
    pub node: String,
    pub reason: Reason,
}

/// What has to happen before the set goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// A pod that failed is left alone until then.
    Retry { pod: String, node: String, until: Timestamp },
    /// An update waits for these.
    Availability(Vec<String>),
}

#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Nodes that get a pod.
    pub create: Vec<String>,
    pub delete: Vec<Removal>,
    pub waits: Vec<Wait>,
    pub status: DaemonSetStatus,
    /// When time alone changes something.
    pub next: Option<Duration>,
    pub backoff: Backoff,
}

/// A node, and the pods that are there or on their way.
pub(super) struct Site {
    pub node: Arc<NodeView>,
    pub verdict: Verdict,
    /// Those that are bound first, then by age. Without those that ended and are being deleted.
    pub pods: Vec<Arc<PodView>>,
}

/// All that plan and status ask, once per look.
pub(super) struct View<'a> {
    pub observed: &'a Observed,
    pub sites: Vec<Site>,
    pub min_ready: Duration,
    generation: Option<String>,
    /// Pods that are for nodes that are not there.
    strays: Vec<Arc<PodView>>,
}

impl<'a> View<'a> {
    pub(super) fn new(observed: &'a Observed) -> Self {
        let mut by_node: BTreeMap<&str, Vec<Arc<PodView>>> = BTreeMap::new();
        for pod in observed.pods.iter().filter(|it| !(it.is_terminal() && it.is_deleting())) {
            if let Some(node) = nodes::target(pod) {
                by_node.entry(node).or_default().push(pod.clone());
            }
        }
        let demands = Demands::of(&observed.set);
        let mut site = |node: &Arc<NodeView>| {
            let mut pods = by_node.remove(node.name()).unwrap_or_default();
            pods.sort_by(|one, two| age(one).cmp(&age(two)));
            Site { node: node.clone(), verdict: demands.judge(node), pods }
        };
        let sites = observed.nodes.iter().map(&mut site).collect();
        let strays = by_node.into_values().flatten().collect();
        let seconds = observed.set.spec.as_ref().and_then(|it| it.min_ready_seconds).unwrap_or(0);
        Self {
            observed,
            sites,
            min_ready: Duration::from_secs(u64::try_from(seconds).unwrap_or(0)),
            generation: nodes::template_generation(&observed.set).map(|it| it.to_string()),
            strays,
        }
    }

    pub(super) fn is_available(&self, pod: &PodView) -> bool {
        pods::available_in(pod, self.min_ready, self.observed.now) == Some(Duration::ZERO)
    }

    /// Whether a pod is of the present template.
    pub(super) fn is_updated(&self, pod: &PodView) -> bool {
        let has_hash = pod.label(HASH).is_some_and(|it| self.observed.hashes.contains(it));
        let generation = self.generation.as_deref();
        has_hash || (generation.is_some() && pod.label(GENERATION) == generation)
    }

    pub(super) fn desired(&self) -> i32 {
        let wanted = self.sites.iter().filter(|it| it.verdict.should_run).count();
        i32::try_from(wanted).unwrap_or(i32::MAX)
    }
}

fn age(pod: &PodView) -> (bool, Option<Timestamp>, &str) {
    (pod.node().is_none(), pod.created, pod.meta.key.name.as_str())
}

pub(super) fn plan(observed: &Observed) -> Plan {
    let view = View::new(observed);
    let bounds = rolling::bounds(&observed.set, view.desired());
    let mut plan = Plan { backoff: observed.backoff.clone(), ..Plan::default() };
    for site in &view.sites {
        keep(&view, site, bounds.is_surging, &mut plan);
    }
    let lost = view.strays.iter().filter(|it| it.node().is_none() && !it.is_deleting());
    for pod in lost {
        let node = nodes::target(pod).unwrap_or_default().to_owned();
        plan.delete.push(Removal { pod: pod.clone(), node, reason: Reason::Other });
    }
    let is_on_delete = rolling::is_on_delete(&observed.set);
    if plan.create.is_empty() && plan.delete.is_empty() && !is_on_delete {
        rolling::update(&view, bounds, &mut plan);
    }
    plan.create.truncate(BURST);
    plan.delete.truncate(BURST);
    let generation = status::observed_generation(&observed.set);
    plan.backoff.prune(generation, observed.now);
    for removal in plan.delete.iter().filter(|it| it.reason == Reason::Failed) {
        plan.backoff.step(&removal.node, generation, observed.now);
    }
    plan.next = next(&view, &plan.waits);
    plan.status = status::plan(&view, &plan);
    plan
}

fn next(view: &View<'_>, waits: &[Wait]) -> Option<Duration> {
    let now = view.observed.now;
    let retries = waits.iter().filter_map(|it| match it {
        Wait::Retry { until, .. } => Duration::try_from(until.duration_since(now)).ok(),
        Wait::Availability(_) => None,
    });
    let all = view.observed.pods.iter();
    let ready = all.filter_map(|it| pods::available_in(it, view.min_ready, now));
    retries.chain(ready).filter(|it| !it.is_zero()).min()
}

/// One pod on each node that should have one, none where none may be.
fn keep(view: &View<'_>, site: &Site, is_surging: bool, plan: &mut Plan) {
    let node = site.node.name().to_owned();
    if site.pods.is_empty() {
        if site.verdict.should_run {
            plan.create.push(node);
        }
        return;
    }
    let remove = |plan: &mut Plan, pod: &Arc<PodView>, reason| {
        plan.delete.push(Removal { pod: pod.clone(), node: node.clone(), reason });
    };
    let there = site.pods.iter().filter(|it| !it.is_deleting());
    if !site.verdict.may_stay {
        there.for_each(|it| remove(plan, it, Reason::Other));
        return;
    }
    let mut running = Vec::new();
    for pod in there {
        match pod.phase.as_str() {
            "Failed" => {
                let generation = status::observed_generation(&view.observed.set);
                let now = view.observed.now;
                match view.observed.backoff.remaining(&node, generation, now) {
                    Duration::ZERO => remove(plan, pod, Reason::Failed),
                    left => plan.waits.push(Wait::Retry {
                        pod: pod.meta.key.name.clone(),
                        node: node.clone(),
                        until: now.saturating_add(left).unwrap_or(now),
                    }),
                }
            }
            "Succeeded" => remove(plan, pod, Reason::Succeeded),
            _ => running.push(pod),
        }
    }
    if !is_surging {
        running.iter().skip(1).for_each(|it| remove(plan, it, Reason::Other));
        return;
    }
    // Nothing comes while one that failed is left alone: it would fail as often as it could.
    let is_left_alone =
        plan.waits.iter().any(|it| matches!(it, Wait::Retry { node: it, .. } if *it == node));
    if running.is_empty() && site.verdict.should_run && !is_left_alone {
        plan.create.push(node);
        return;
    }
    for pod in surplus_of_surge(view, &running) {
        plan.delete.push(Removal { pod, node: site.node.name().to_owned(), reason: Reason::Other });
    }
}

/// While an update surges, an outdated pod and its successor may be on a node together: one
/// of each, until the outdated one is not ready, or the other is available.
fn surplus_of_surge(view: &View<'_>, running: &[&Arc<PodView>]) -> Vec<Arc<PodView>> {
    let (mut new, mut old): (Vec<_>, Vec<_>) =
        running.iter().copied().cloned().partition(|it: &Arc<PodView>| view.is_updated(it));
    // Of several the one that serves stays (after two changes of the template there may be two
    // outdated ones); upstream keeps the oldest, whether it serves or not.
    new.sort_by_key(|it| !it.is_ready);
    old.sort_by_key(|it| !it.is_ready);
    let mut surplus: Vec<Arc<PodView>> =
        new.iter().skip(1).chain(old.iter().skip(1)).cloned().collect();
    if let (Some(new), Some(old)) = (new.first(), old.first())
        && (!old.is_ready || view.is_available(new))
    {
        surplus.push(old.clone());
    }
    surplus
}

/// What the set waits for, if that is why nothing is done: a reason and a sentence.
pub(super) fn explain(plan: &Plan) -> Option<Explanation> {
    if !plan.create.is_empty() || !plan.delete.is_empty() {
        return None;
    }
    Some(match plan.waits.first()? {
        Wait::Retry { pod, node, until } => {
            let message = format!("pod {pod} failed on node {node}; it is replaced at {until:.0}");
            ("PodFailed", message)
        }
        Wait::Availability(pods) => {
            let named = list(pods);
            ("PodsNotAvailable", format!("the update waits for {named} to be available"))
        }
    })
}
