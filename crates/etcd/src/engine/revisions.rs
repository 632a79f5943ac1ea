//! What this process knows of the cluster's revision, and that it is one cluster.
//!
//! Known revisions only grow. A linearizable answer from before what was known when it was asked
//! for is an answer from the past (etcd gives some, issue #20418) and must not be used.

use std::sync::OnceLock;

use kvstore::Revision;
use tokio::sync::watch;

use super::convert::revision;
use super::errors::Failure;
use crate::wire::messages::ResponseHeader;

pub(super) struct Revisions {
    known: watch::Sender<Revision>,
    cluster: OnceLock<u64>,
}

/// What the answer to a request may be from.
#[derive(Clone, Copy)]
pub(super) enum Freshness {
    /// Not before what was known when it was asked for.
    AtLeast(Revision),
    /// Any moment: what the member itself knows.
    OfMember,
}

impl Revisions {
    pub(super) fn new() -> Self {
        Self { known: watch::Sender::new(Revision(1)), cluster: OnceLock::new() }
    }

    pub(super) fn known(&self) -> Revision {
        *self.known.borrow()
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<Revision> {
        self.known.subscribe()
    }

    /// Learns from the header of an answer, or says why the answer must not be used.
    pub(super) fn admit(
        &self,
        header: Option<&ResponseHeader>,
        freshness: Freshness,
    ) -> Result<Revision, Failure> {
        let header = match (header, freshness) {
            (Some(header), _) => header,
            // Some answers of a member about itself have none.
            (None, Freshness::OfMember) => return Ok(self.known()),
            (None, Freshness::AtLeast(_)) => {
                return Err(Failure::Unknown { why: "an answer without a header".to_owned() });
            }
        };
        let cluster = *self.cluster.get_or_init(|| header.cluster_id);
        if cluster != header.cluster_id {
            let why = format!(
                "the member {:x} is of cluster {:x}, not {cluster:x}",
                header.member_id, header.cluster_id
            );
            return Err(Failure::Unknown { why });
        }
        let told = revision(header.revision);
        if let Freshness::AtLeast(floor) = freshness
            && told < floor
        {
            let why = format!("the member {:x} answered from the past", header.member_id);
            return Err(Failure::Unknown { why });
        }
        self.known.send_if_modified(|it| {
            let is_news = told > *it;
            *it = told.max(*it);
            is_news
        });
        Ok(told)
    }
}

#[cfg(test)]
mod tests {
    use kvstore::Revision;

    use super::{Freshness, Revisions};
    use crate::wire::messages::ResponseHeader;

    #[test]
    fn answers_from_the_past_or_another_cluster_are_not_used() {
        let revisions = Revisions::new();
        let check = |cluster_id, revision, freshness, is_admitted: bool, known| {
            let header = ResponseHeader { cluster_id, revision, ..ResponseHeader::default() };
            let admitted = revisions.admit(Some(&header), freshness);
            assert_eq!(admitted.is_ok(), is_admitted, "{header:?}: {admitted:?}");
            assert_eq!(revisions.known(), Revision(known));
        };
        let since = |it| Freshness::AtLeast(Revision(it));
        check(7, 5, since(1), true, 5);
        check(7, 4, since(5), false, 5);
        check(7, 4, Freshness::OfMember, true, 5);
        check(7, 5, since(5), true, 5);
        check(8, 9, since(5), false, 5);
        check(8, 9, Freshness::OfMember, false, 5);
        check(7, 9, since(5), true, 9);
    }
}
