//! Whether a node is alive, and the taints that say so. Pure.

use std::sync::Arc;
use std::time::Duration;

use api::core::node::NodeView;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{NodeCondition, Taint};

use crate::{conditions, pods};

/// Conditions that nobody vouches for once the kubelet is silent.
const HEARTBEAT_CONDITIONS: &[&str] = &["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];
const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// Taints that this controller sets and removes, by condition, the status that means trouble, and
/// key.
const CONDITION_TAINTS: &[(&str, &str, &str)] = &[
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
];
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

pub(crate) struct Observed {
    pub node: Arc<NodeView>,
    /// When the last heartbeat, lease or status, was seen here, by our clock.
    pub seen: Timestamp,
    pub now: Timestamp,
    pub grace: Duration,
    pub startup_grace: Duration,
}

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Plan {
    /// The conditions to write, when the node fell silent.
    pub conditions: Option<Vec<NodeCondition>>,
    pub taints: Option<Vec<Taint>>,
    /// Pods of the node should not count as ready.
    pub is_down: bool,
    /// When silence would mean death.
    pub deadline: Option<Duration>,
}

pub(crate) fn plan(observed: &Observed) -> Plan {
    let has_ready = observed.node.condition("Ready").is_some();
    let grace = if has_ready { observed.grace } else { observed.startup_grace };
    let left = pods::remaining(observed.seen, grace, observed.now);
    let stored = observed.node.conditions.as_slice();
    let mut plan = Plan::default();
    if left.is_zero() {
        let silent = silenced(stored, observed.now);
        plan.conditions = (silent != stored).then_some(silent);
    } else {
        plan.deadline = Some(left);
    }
    let conditions = plan.conditions.as_deref().unwrap_or(stored);
    plan.is_down = find(conditions, "Ready").is_some_and(|it| it.status != "True");
    let wanted = tainted(&observed.node, conditions, observed.now);
    plan.taints = (wanted != observed.node.taints).then_some(wanted);
    plan
}

fn find<'a>(conditions: &'a [NodeCondition], kind: &str) -> Option<&'a NodeCondition> {
    conditions.iter().find(|it| it.type_ == kind)
}

fn silenced(stored: &[NodeCondition], now: Timestamp) -> Vec<NodeCondition> {
    let mut conditions = stored.to_vec();
    for kind in HEARTBEAT_CONDITIONS {
        match conditions.iter_mut().find(|it| it.type_ == *kind) {
            None => conditions.push(NodeCondition {
                type_: (*kind).to_owned(),
                status: "Unknown".to_owned(),
                reason: Some("NodeStatusNeverUpdated".to_owned()),
                message: Some("Kubelet never posted node status.".to_owned()),
                last_heartbeat_time: None,
                last_transition_time: Some(conditions::time(now)),
            }),
            Some(condition) if condition.status != "Unknown" => {
                condition.status = "Unknown".to_owned();
                condition.reason = Some("NodeStatusUnknown".to_owned());
                condition.message = Some("Kubelet stopped posting node status.".to_owned());
                condition.last_transition_time = Some(conditions::time(now));
            }
            Some(_) => {}
        }
    }
    conditions
}

/// The node's taints with ours set by its conditions; foreign ones stay as they are.
fn tainted(node: &NodeView, conditions: &[NodeCondition], now: Timestamp) -> Vec<Taint> {
    let mut wanted: Vec<(&str, &str)> = Vec::new();
    for (kind, trouble, key) in CONDITION_TAINTS {
        if find(conditions, kind).is_some_and(|it| it.status == *trouble) {
            wanted.push((key, "NoSchedule"));
            if *kind == "Ready" {
                wanted.push((key, "NoExecute"));
            }
        }
    }
    if find(conditions, "Ready").is_none() {
        // Set by admission when the node registers; it stays until the first status.
        wanted.push((NOT_READY, "NoSchedule"));
    }
    if node.is_unschedulable {
        wanted.push((UNSCHEDULABLE, "NoSchedule"));
    }
    let is_ours = |it: &Taint| {
        let is_execute =
            it.effect == "NoExecute" && [NOT_READY, UNREACHABLE].contains(&it.key.as_str());
        let is_schedule = it.effect == "NoSchedule"
            && (it.key == UNSCHEDULABLE
                || CONDITION_TAINTS.iter().any(|(_, _, key)| it.key == *key));
        is_execute || is_schedule
    };
    let is_wanted = |it: &Taint| wanted.contains(&(it.key.as_str(), it.effect.as_str()));
    let mut taints: Vec<Taint> =
        node.taints.iter().filter(|it| !is_ours(it) || is_wanted(it)).cloned().collect();
    for (key, effect) in wanted {
        if !taints.iter().any(|it| it.key == key && it.effect == effect) {
            taints.push(Taint {
                key: key.to_owned(),
                effect: effect.to_owned(),
                time_added: Some(conditions::time(now)),
                value: None,
            });
        }
    }
    taints
}
