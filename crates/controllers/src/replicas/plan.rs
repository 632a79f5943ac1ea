//! Which pods belong to an owner of replicas, how many to create, which to delete. Pure.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;
use std::sync::Arc;

use api::core::pod::Pod;
use apimachinery::selector::Labels;
use jiff::Timestamp;

use crate::{owners, pods};

/// Pods created or deleted by one reconcile, at most; the next one goes on.
pub(crate) const BURST: usize = 500;
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

pub(crate) struct Observed {
    pub owner_uid: String,
    pub is_deleting: bool,
    pub replicas: i32,
    pub selector: Labels,
    /// The pods that the owner controls, and the pods of its namespace that nobody controls.
    pub candidates: Vec<Arc<Pod>>,
    /// Pods per node of all owners that belong together (ReplicaSets of one Deployment).
    pub related_per_node: BTreeMap<String, usize>,
    /// Whether the cache shows everything that was created and deleted before.
    pub is_cache_current: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub adopt: Vec<Arc<Pod>>,
    pub release: Vec<Arc<Pod>>,
    /// Active pods of the owner, with those that are adopted.
    pub active: Vec<Arc<Pod>>,
    pub terminating: usize,
    pub create: usize,
    pub delete: Vec<Arc<Pod>>,
}

pub(crate) fn plan(observed: &Observed) -> Plan {
    let mut plan = claim(observed);
    if observed.is_deleting || !observed.is_cache_current {
        return plan;
    }
    let wanted = usize::try_from(observed.replicas).unwrap_or(0);
    let have = plan.active.len();
    if have < wanted {
        plan.create = (wanted - have).min(BURST);
    } else if have > wanted {
        let mut ranked = plan.active.clone();
        ranked.sort_by(|one, two| rank(one, two, &observed.related_per_node));
        ranked.truncate((have - wanted).min(BURST));
        plan.delete = ranked;
    }
    plan
}

fn claim(observed: &Observed) -> Plan {
    let mut plan = Plan::default();
    let no_labels = BTreeMap::new();
    for pod in &observed.candidates {
        let labels = pod.metadata.labels.as_ref().unwrap_or(&no_labels);
        let is_match = observed.selector.matches(labels);
        match owners::controller_of(&pod.metadata) {
            Some(owner) if owner.uid != observed.owner_uid => {}
            Some(_) if !pods::is_active(pod) => {
                if is_match && !pods::is_terminal(pod) {
                    plan.terminating += 1;
                }
            }
            Some(_) if is_match => plan.active.push(pod.clone()),
            Some(_) if observed.is_deleting => {}
            Some(_) => plan.release.push(pod.clone()),
            None if is_match && pods::is_active(pod) && !observed.is_deleting => {
                plan.adopt.push(pod.clone());
                plan.active.push(pod.clone());
            }
            None => {}
        }
    }
    plan
}

/// Which of two pods goes first when there are too many: what does the least work, then what was
/// placed or became ready last.
pub(crate) fn rank(one: &Pod, two: &Pod, related_per_node: &BTreeMap<String, usize>) -> Ordering {
    let doubled = |pod: &Pod| {
        pods::node_name(pod).and_then(|it| related_per_node.get(it)).copied().unwrap_or(0)
    };
    let is_assigned = |pod: &Pod| pods::node_name(pod).is_some();
    is_assigned(one)
        .cmp(&is_assigned(two))
        .then_with(|| phase_rank(one).cmp(&phase_rank(two)))
        .then_with(|| pods::is_ready(one).cmp(&pods::is_ready(two)))
        .then_with(|| deletion_cost(one).cmp(&deletion_cost(two)))
        .then_with(|| doubled(two).cmp(&doubled(one)))
        .then_with(|| later_first(pods::ready_since(one), pods::ready_since(two)))
        .then_with(|| pods::restarts(two).cmp(&pods::restarts(one)))
        .then_with(|| later_first(created(one), created(two)))
        .then_with(|| one.metadata.name.cmp(&two.metadata.name))
}

fn phase_rank(pod: &Pod) -> u8 {
    match pods::phase(pod) {
        "Pending" => 0,
        "Unknown" => 1,
        _ => 2,
    }
}

fn deletion_cost(pod: &Pod) -> i32 {
    let annotations = pod.metadata.annotations.as_ref();
    annotations.and_then(|it| it.get(DELETION_COST)).and_then(|it| it.parse().ok()).unwrap_or(0)
}

fn created(pod: &Pod) -> Option<Timestamp> {
    pod.metadata.creation_timestamp.as_ref().map(|it| it.0)
}

/// An unknown time counts as now.
fn later_first(one: Option<Timestamp>, two: Option<Timestamp>) -> Ordering {
    let time = |it: Option<Timestamp>| Reverse(it.unwrap_or(Timestamp::MAX));
    time(one).cmp(&time(two))
}
