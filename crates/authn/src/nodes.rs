//! Certificates of nodes, and of what runs on them: they prove nothing once their Node was deleted
//! after they were issued (docs/adr/0032-a-deleted-node-has-no-certificates.md).

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use apimachinery::User;
use jiff::{SignedDuration, Timestamp};

const NODES: &str = "system:nodes";
const NODE_PREFIX: &str = "system:node:";
/// With the node's name behind: the group of what runs there.
const COMPONENT_PREFIX: &str = "xebec:node:";
/// Our signer begins certificates so much before it signs them, and clocks differ by as much.
const BACKDATE_AND_SKEW: SignedDuration = SignedDuration::from_mins(10);

/// What of a certificate says whether it is of a node that was deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfNode {
    node: String,
    /// As our signer wrote it; others do not.
    since: Option<u64>,
    /// Seconds of Unix time.
    not_before: i64,
}

impl OfNode {
    /// `None`: the certificate is of no node.
    pub(crate) fn of(user: &User, since: Option<u64>, not_before: i64) -> Option<Self> {
        let node = user.name.strip_prefix(NODE_PREFIX).filter(|_| user.is_in(NODES));
        let beside = || user.groups.iter().find_map(|it| it.strip_prefix(COMPONENT_PREFIX));
        let node = node.or_else(beside)?.to_owned();
        Some(Self { node, since, not_before })
    }
}

/// Of one Node, the last one of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deletion {
    pub revision: u64,
    pub at: Timestamp,
}

/// The names of Nodes that were deleted. Names of those that were made again stay: what was issued
/// before holds no more.
#[derive(Default)]
pub struct DeletedNodes(RwLock<HashMap<Box<str>, Deletion>>);

impl DeletedNodes {
    pub fn note(&self, node: &str, deletion: Deletion) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(node.into(), deletion);
    }

    pub fn forget(&self, node: &str) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(node);
    }

    /// Those whose deletion is longer ago.
    pub fn before(&self, time: Timestamp) -> Vec<(String, Deletion)> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let old = all.iter().filter(|it| it.1.at < time);
        old.map(|(node, deletion)| (node.to_string(), *deletion)).collect()
    }

    /// Whether it was issued before its Node was deleted.
    pub fn refuses(&self, certificate: &OfNode) -> bool {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        all.get(certificate.node.as_str()).is_some_and(|it| it.ends(certificate))
    }
}

impl Deletion {
    /// The revision says it; the time, too, for a store that was restored with its old revisions. A
    /// certificate without a revision is as old as it says itself, though it may have been begun
    /// early.
    fn ends(&self, certificate: &OfNode) -> bool {
        let Ok(begin) = Timestamp::from_second(certificate.not_before) else { return true };
        match certificate.since {
            Some(since) => {
                let latest = begin.checked_add(BACKDATE_AND_SKEW).unwrap_or(Timestamp::MAX);
                since < self.revision || latest < self.at
            }
            None => begin < self.at,
        }
    }
}

#[cfg(test)]
mod tests {
    use apimachinery::User;
    use jiff::Timestamp;

    use super::{DeletedNodes, Deletion, OfNode};

    #[test]
    fn nodes_are_told_by_their_names_and_what_runs_there_by_its_group() {
        let check = |name: &str, groups: &[&str], expected: Option<&str>| {
            let found = OfNode::of(&User::new(name, groups), None, 0);
            assert_eq!(found.map(|it| it.node).as_deref(), expected, "{name} {groups:?}");
        };
        check("system:node:b", &["system:nodes"], Some("b"));
        check("system:node:b", &[], None);
        check("system:kube-proxy", &["xebec:node:b"], Some("b"));
        check("system:kube-proxy", &[], None);
        check("jane", &["system:nodes"], None);
    }

    #[test]
    fn what_was_issued_before_the_deletion_ends_with_it() {
        let nodes = DeletedNodes::default();
        let minute = |it: i64| 1_000_000 + it * 60;
        let at = Timestamp::from_second(minute(100)).unwrap();
        nodes.note("b", Deletion { revision: 70, at });
        let check = |node: &str, since: Option<u64>, begin: i64, expected: bool| {
            let node = node.to_owned();
            let certificate = OfNode { node, since, not_before: minute(begin) };
            assert_eq!(nodes.refuses(&certificate), expected, "{certificate:?}");
        };
        check("b", Some(69), 95, true);
        check("b", Some(71), 95, false);
        check("c", Some(1), 0, false);
        // Of a store that had more revisions than it has now.
        check("b", Some(5000), 40, true);
        // Of another's signer.
        check("b", None, 99, true);
        check("b", None, 100, false);
        nodes.note("b", Deletion { revision: 80, at });
        check("b", Some(71), 95, true);
        let later = Timestamp::from_second(minute(101)).unwrap();
        assert!(nodes.before(at).is_empty());
        assert_eq!(nodes.before(later), [("b".to_owned(), Deletion { revision: 80, at })]);
        nodes.forget("b");
        check("b", Some(69), 95, false);
    }
}
