//! What this node's object should say, and does not. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::place::{CONDITION, NodePlace};

/// How the ways to other nodes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Whole,
    /// Why the kernel is not as it should be.
    Broken(String),
}

/// Patches of this Node; `None` where it says all already.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Patches {
    pub(super) annotations: Option<Value>,
    pub(super) status: Option<Value>,
}

/// Annotations that are ours and not wanted are taken back.
pub(super) fn plan(
    own: &NodePlace,
    published: &BTreeMap<String, String>,
    outcome: &Outcome,
    now: Timestamp,
) -> Patches {
    let mut annotations = serde_json::Map::new();
    for (name, value) in published {
        if own.annotations.get(name) != Some(value) {
            annotations.insert(name.clone(), json!(value));
        }
    }
    for name in network::ANNOTATIONS {
        if own.annotations.contains_key(name) && !published.contains_key(name) {
            annotations.insert(name.to_owned(), Value::Null);
        }
    }
    let annotations =
        (!annotations.is_empty()).then(|| json!({"metadata": {"annotations": annotations}}));
    Patches { annotations, status: status(own, outcome, now) }
}

fn status(own: &NodePlace, outcome: &Outcome, now: Timestamp) -> Option<Value> {
    let (status, reason, message) = match outcome {
        Outcome::Whole => ("False", "XebecIsUp", "the pod network of this node is there"),
        Outcome::Broken(why) => ("True", "PodNetworkBroken", why.as_str()),
    };
    let is_said = own.condition.as_ref().is_some_and(|it| {
        it.status == status
            && it.reason.as_deref() == Some(reason)
            && it.message.as_deref() == Some(message)
    });
    if is_said {
        return None;
    }
    let since = own.condition.as_ref().filter(|it| it.status == status);
    let since = since.and_then(|it| it.last_transition_time.as_ref()).map_or(now, |it| it.0);
    let condition = json!({
        "type": CONDITION,
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": seconds(now),
        "lastTransitionTime": seconds(since),
    });
    Some(json!({"status": {"conditions": [condition]}}))
}

fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::NodeCondition;

    const TYPE: &str = "flannel.alpha.coreos.com/backend-type";
    const DATA: &str = "flannel.alpha.coreos.com/backend-data";

    fn own(annotations: &[(&str, &str)]) -> NodePlace {
        let annotations = annotations.iter().map(|(key, value)| ((*key).into(), (*value).into()));
        NodePlace { annotations: annotations.collect(), ..NodePlace::default() }
    }

    fn said(status: &str, reason: &str, message: &str) -> Option<NodeCondition> {
        Some(NodeCondition {
            type_: CONDITION.into(),
            status: status.into(),
            reason: Some(reason.into()),
            message: Some(message.into()),
            ..NodeCondition::default()
        })
    }

    #[test]
    fn what_is_not_said_yet_is_said_and_what_is_not_so_any_more_is_taken_back() {
        let check = |own: NodePlace, published: &[(&str, &str)], expected: Option<Value>| {
            let published =
                published.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
            let patches = plan(&own, &published, &Outcome::Whole, Timestamp::UNIX_EPOCH);
            let annotations = expected.map(|it| json!({"metadata": {"annotations": it}}));
            assert_eq!(patches.annotations, annotations);
        };
        check(own(&[]), &[(TYPE, "vxlan")], Some(json!({TYPE: "vxlan"})));
        check(own(&[(TYPE, "vxlan")]), &[(TYPE, "vxlan")], None);
        let old = own(&[(TYPE, "vxlan"), (DATA, "x")]);
        check(old, &[(TYPE, "host-gw")], Some(json!({TYPE: "host-gw", DATA: null})));
        // What an administrator says stays.
        check(own(&[("flannel.alpha.coreos.com/public-ip-overwrite", "192.0.2.1")]), &[], None);
    }

    #[test]
    fn the_condition_is_written_when_it_changes() {
        let message = "the pod network of this node is there";
        let written = |condition: Option<NodeCondition>, outcome: &Outcome| {
            let own = NodePlace { condition, ..NodePlace::default() };
            let patches = plan(&own, &BTreeMap::new(), outcome, Timestamp::UNIX_EPOCH);
            patches.status.map(|it| it["status"]["conditions"][0]["status"].clone())
        };
        assert_eq!(written(None, &Outcome::Whole), Some(json!("False")));
        assert_eq!(written(said("False", "XebecIsUp", message), &Outcome::Whole), None);
        let cloud = said("True", "NoRouteCreated", "waiting for cloud routes");
        assert_eq!(written(cloud, &Outcome::Whole), Some(json!("False")));
        let broken = Outcome::Broken("no module vxlan".into());
        assert_eq!(written(None, &broken), Some(json!("True")));
        assert_eq!(written(said("True", "PodNetworkBroken", "no module vxlan"), &broken), None);
    }
}
