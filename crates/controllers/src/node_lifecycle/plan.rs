//! Whether a node is alive, and the conditions, taints and labels that say so. Pure.

use std::sync::Arc;
use std::time::Duration;

use api::core::node::NodeView;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{NodeCondition, Taint};

use super::zones::Standing;
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
const EXCLUDED: &str = "node.kubernetes.io/exclude-disruption";
const REGION: &str = "topology.kubernetes.io/region";
const ZONE: &str = "topology.kubernetes.io/zone";
/// Labels that are copied to the name that they had before.
const COPIED_LABELS: &[(&str, &str)] = &[
    ("kubernetes.io/os", "beta.kubernetes.io/os"),
    ("kubernetes.io/arch", "beta.kubernetes.io/arch"),
];

pub(crate) struct Observed {
    pub node: Arc<NodeView>,
    /// When the last heartbeat, lease or status, was seen here, by our clock.
    pub seen: Timestamp,
    pub now: Timestamp,
    pub grace: Duration,
    pub startup_grace: Duration,
}

/// What is to be written, whatever the zone says.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Plan {
    /// The conditions to write, when the node fell silent.
    pub conditions: Option<Vec<NodeCondition>>,
    /// It was ready until now.
    pub has_fallen: bool,
    /// Nobody vouches for it: its pods should not count as ready.
    pub is_silent: bool,
    pub labels: Vec<(&'static str, String)>,
    /// The key of the taint that its pods must leave for.
    pub evicts: Option<&'static str>,
    /// When silence would mean death.
    pub deadline: Option<Duration>,
}

pub(crate) fn plan(observed: &Observed) -> Plan {
    let node = &*observed.node;
    let has_ready = node.condition("Ready").is_some();
    let grace = if has_ready { observed.grace } else { observed.startup_grace };
    let left = pods::remaining(observed.seen, grace, observed.now);
    let stored = node.conditions.as_slice();
    let mut plan = Plan { labels: labels(node), ..Plan::default() };
    if left.is_zero() {
        let silent = silenced(node, observed.now);
        plan.conditions = (silent != stored).then_some(silent);
        plan.has_fallen = plan.conditions.is_some() && node.is_ready();
    } else {
        plan.deadline = Some(left);
    }
    let conditions = plan.conditions.as_deref().unwrap_or(stored);
    let status = find(conditions, "Ready").map(|it| it.status.as_str());
    plan.is_silent = status == Some("Unknown");
    plan.evicts = match status {
        Some("False") => Some(NOT_READY),
        Some("Unknown") => Some(UNREACHABLE),
        _ => None,
    };
    plan
}

/// The zone of a node, and how it counts there.
pub(crate) fn standing(node: &NodeView) -> Standing {
    let label = |name| node.meta.labels.get(name).unwrap_or_default();
    let (region, zone) = (label(REGION), label(ZONE));
    // No name has this between its letters.
    let is_zoned = !region.is_empty() || !zone.is_empty();
    let zone = if is_zoned { format!("{region}:\0:{zone}") } else { String::new() };
    let ready = node.condition("Ready").filter(|_| !is_excluded(node));
    Standing { zone, is_ready: ready.map(|it| it.status == "True") }
}

/// The same of a node that nobody has heard from for too long.
pub(crate) fn standing_when_silent(node: &NodeView) -> Standing {
    Standing { is_ready: (!is_excluded(node)).then_some(false), ..standing(node) }
}

fn is_excluded(node: &NodeView) -> bool {
    node.meta.labels.get(EXCLUDED).is_some()
}

/// Whether pods were told to leave already: then another reason to leave needs no turn of its own.
pub(crate) fn is_evicting(node: &NodeView) -> bool {
    node.taints
        .iter()
        .any(|it| it.effect == "NoExecute" && [NOT_READY, UNREACHABLE].contains(&it.key.as_str()))
}

/// The taints of a node with these conditions, where they differ from what it has. `evicts`: the
/// reason for pods to leave, where they may be told so.
pub(crate) fn taints(
    node: &NodeView,
    conditions: &[NodeCondition],
    evicts: Option<&'static str>,
    now: Timestamp,
) -> Option<Vec<Taint>> {
    let wanted = tainted(node, conditions, evicts, now);
    (wanted != node.taints).then_some(wanted)
}

fn labels(node: &NodeView) -> Vec<(&'static str, String)> {
    let missing = COPIED_LABELS.iter().filter_map(|(from, to)| {
        let value = node.meta.labels.get(from)?;
        (node.meta.labels.get(to) != Some(value)).then(|| (*to, value.to_owned()))
    });
    missing.collect()
}

fn find<'a>(conditions: &'a [NodeCondition], kind: &str) -> Option<&'a NodeCondition> {
    conditions.iter().find(|it| it.type_ == kind)
}

fn silenced(node: &NodeView, now: Timestamp) -> Vec<NodeCondition> {
    let mut conditions = node.conditions.clone();
    for kind in HEARTBEAT_CONDITIONS {
        match conditions.iter_mut().find(|it| it.type_ == *kind) {
            None => conditions.push(NodeCondition {
                type_: (*kind).to_owned(),
                status: "Unknown".to_owned(),
                reason: Some("NodeStatusNeverUpdated".to_owned()),
                message: Some("Kubelet never posted node status.".to_owned()),
                last_heartbeat_time: node.created.map(conditions::time),
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
fn tainted(
    node: &NodeView,
    conditions: &[NodeCondition],
    evicts: Option<&'static str>,
    now: Timestamp,
) -> Vec<Taint> {
    let mut wanted: Vec<(&str, &str)> = Vec::new();
    for (kind, trouble, key) in CONDITION_TAINTS {
        if find(conditions, kind).is_some_and(|it| it.status == *trouble) {
            wanted.push((key, "NoSchedule"));
        }
    }
    wanted.extend(evicts.map(|it| (it, "NoExecute")));
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
