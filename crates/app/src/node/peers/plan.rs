//! What this node's object should say, and does not. Pure.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use network::{LeftOut, Tried};
use serde_json::{Value, json};

use super::place::{CONDITION, NodePlace};

/// How the ways to other nodes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// What is to be known of it all the same.
    Whole(Vec<String>),
    /// Why the kernel is not as it should be.
    Broken(String),
    /// Other nodes are there, and none of them is reached: why each is not.
    CutOff(Vec<String>),
}

/// Of more the number is told.
const NOTES_MAX: usize = 3;

impl Outcome {
    pub(super) fn of(result: Result<(), String>, tried: &Tried, overlaps: &[String]) -> Self {
        let unreached = || {
            let said = tried.unreached.iter();
            said.map(|it| format!("pods of node {} are not reached: {}", it.node, it.why))
        };
        match result {
            Err(why) => Self::Broken(why),
            Ok(()) if tried.is_cut_off => Self::CutOff(unreached().collect()),
            Ok(()) => {
                let repaired = tried.repaired.iter().cloned();
                Self::Whole(overlaps.iter().cloned().chain(unreached()).chain(repaired).collect())
            }
        }
    }
}

/// What an Event tells of, once as long as it holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Note {
    pub(super) node: String,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// `own`: this Node's name.
pub(super) fn notes(
    own: &str,
    left_out: &[LeftOut],
    tried: &Tried,
    overlaps: &[String],
) -> BTreeSet<Note> {
    let of_peer = |node: &str, reason, why: &str| {
        let message = format!("node {own} does not reach its pods: {why}");
        Note { node: node.to_owned(), reason, message }
    };
    let of_own =
        |reason, message: &str| Note { node: own.to_owned(), reason, message: message.to_owned() };
    let grave = left_out.iter().filter(|it| !it.is_early);
    let left_out = grave.map(|it| of_peer(&it.node, "PeerLeftOut", &it.why));
    let unreached = tried.unreached.iter().map(|it| of_peer(&it.node, "PeerNotReached", &it.why));
    let repaired = tried.repaired.iter().map(|it| of_own("PodNetworkRepaired", it));
    let overlaps = overlaps.iter().map(|it| of_own("PodAddressesTaken", it));
    left_out.chain(unreached).chain(repaired).chain(overlaps).collect()
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
        Outcome::Whole(notes) => {
            let is_there = ["the pod network of this node is there".to_owned()];
            ("False", "XebecIsUp", in_short(is_there.iter().chain(notes)))
        }
        Outcome::Broken(why) => ("True", "PodNetworkBroken", why.clone()),
        Outcome::CutOff(whys) => ("True", "PeersNotReached", in_short(whys.iter())),
    };
    let is_said = own.condition.as_ref().is_some_and(|it| {
        it.status == status
            && it.reason.as_deref() == Some(reason)
            && it.message.as_deref() == Some(&message)
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

fn in_short<'a>(notes: impl Iterator<Item = &'a String> + Clone) -> String {
    let mut shown: Vec<String> = notes.clone().take(NOTES_MAX).cloned().collect();
    let n_more = notes.count().saturating_sub(NOTES_MAX);
    if n_more > 0 {
        shown.push(format!("and {n_more} more, of which Events tell"));
    }
    shown.join("; ")
}

fn seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::NodeCondition;
    use network::Unreached;

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
            let whole = Outcome::Whole(Vec::new());
            let patches = plan(&own, &published, &whole, Timestamp::UNIX_EPOCH);
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
        let whole = Outcome::Whole(Vec::new());
        assert_eq!(written(None, &whole), Some(json!("False")));
        assert_eq!(written(said("False", "XebecIsUp", message), &whole), None);
        let cloud = said("True", "NoRouteCreated", "waiting for cloud routes");
        assert_eq!(written(cloud, &whole), Some(json!("False")));
        let broken = Outcome::Broken("no module vxlan".into());
        assert_eq!(written(None, &broken), Some(json!("True")));
        assert_eq!(written(said("True", "PodNetworkBroken", "no module vxlan"), &broken), None);
    }

    fn unreached(nodes: &[&str], is_cut_off: bool) -> Tried {
        let of = |it: &&str| Unreached { node: (*it).to_owned(), why: "silence".into() };
        Tried { unreached: nodes.iter().map(of).collect(), is_cut_off, ..Tried::default() }
    }

    #[test]
    fn a_node_without_a_network_is_one_that_reaches_nobody_who_is_there() {
        let check = |tried: &Tried, status: &str, message: &str| {
            let outcome = Outcome::of(Ok(()), tried, &[]);
            let own = NodePlace::default();
            let patches = plan(&own, &BTreeMap::new(), &outcome, Timestamp::UNIX_EPOCH);
            let condition = patches.status.unwrap()["status"]["conditions"][0].clone();
            assert_eq!(
                (&condition["status"], &condition["message"]),
                (&json!(status), &json!(message))
            );
        };
        let is_there = "the pod network of this node is there";
        let b = "pods of node b are not reached: silence";
        check(&Tried::default(), "False", is_there);
        check(&unreached(&["b"], false), "False", &format!("{is_there}; {b}"));
        check(&unreached(&["b"], true), "True", b);
        let many = unreached(&["b", "c", "d", "e", "f"], true);
        let Outcome::CutOff(whys) = Outcome::of(Ok(()), &many, &[]) else { panic!() };
        let expected = format!("{}; and 2 more, of which Events tell", whys[..3].join("; "));
        check(&many, "True", &expected);
        let broken = Outcome::of(Err("no module".into()), &many, &[]);
        assert_eq!(broken, Outcome::Broken("no module".into()));
    }

    #[test]
    fn events_tell_what_is_wrong_with_peers_and_what_was_done() {
        let tried =
            Tried { repaired: ["shorter packets".to_owned()].into(), ..unreached(&["b"], false) };
        let early = |is_early| LeftOut { node: "c".into(), why: "no key".into(), is_early };
        let notes = notes("a", &[early(true), early(false)], &tried, &["taken".to_owned()]);
        let shown: Vec<_> =
            notes.iter().map(|it| format!("{} {}: {}", it.node, it.reason, it.message)).collect();
        let expected = [
            "a PodAddressesTaken: taken",
            "a PodNetworkRepaired: shorter packets",
            "b PeerNotReached: node a does not reach its pods: silence",
            "c PeerLeftOut: node a does not reach its pods: no key",
        ];
        assert_eq!(shown, expected);
    }
}
