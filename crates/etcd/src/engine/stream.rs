//! Every event of the cluster, read from one member: one watch over all keys, as whole commits
//! without a gap.
//!
//! Each revision of etcd has at least one event, so over all keys a revision that is missing is a
//! lost event, which is noticed here; and the next revision says that the one before is complete,
//! so no progress notification is needed (those of etcd before 3.4.25 and 3.5.8 may overtake
//! events, issue #15220).

use http::{HeaderName, HeaderValue};
use kvstore::Revision;

use super::convert;
use super::errors::{Failure, Refusal};
use super::feed::Commit;
use super::grouping::{Gap, Grouping};
use super::members::Members;
use super::revisions::Freshness;
use crate::wire::channel::{Requests, Responses};
use crate::wire::messages::{WatchCreateRequest, WatchRequest, WatchRequestUnion, WatchResponse};
use crate::wire::methods;

pub(super) struct Stream {
    /// Dropping it ends the stream.
    _requests: Requests<WatchRequest>,
    responses: Responses<WatchResponse>,
    member: usize,
    grouping: Grouping,
}

/// Why a stream ended.
#[derive(Debug)]
pub(super) enum End {
    /// What comes next has been compacted.
    Compacted {
        oldest: Revision,
    },
    /// Revisions between the last one seen and this one did not come.
    Gap {
        next: Revision,
    },
    Failed {
        why: String,
    },
}

impl Stream {
    pub(super) async fn open(
        members: &Members,
        member: usize,
        after: Revision,
    ) -> Result<Self, End> {
        let (key, range_end) = convert::everything();
        let create = WatchCreateRequest {
            key,
            range_end,
            start_revision: convert::number(after) + 1,
            prev_kv: true,
            fragment: true,
            ..WatchCreateRequest::default()
        };
        let request = WatchRequest { request_union: Some(WatchRequestUnion::Create(create)) };
        let channel = members.channel(member).await.map_err(End::of)?;
        // A member that knows of no leader must refuse, and end the stream when it loses it: what
        // it could tell may be old.
        let (name, value) = ("hasleader", "true");
        let channel =
            channel.with_header(HeaderName::from_static(name), HeaderValue::from_static(value));
        let opened = channel.open(methods::WATCH, &request).await;
        let (requests, pending) = opened.map_err(|it| End::of(Failure::of(it)))?;
        let responses = match pending.answers().await.map_err(Failure::of) {
            Ok(it) => it,
            Err(failure) => {
                if matches!(failure, Failure::Token) {
                    // The next attempt has the new one.
                    let _ = members.renew(member).await;
                }
                return Err(End::of(failure));
            }
        };
        Ok(Self { _requests: requests, responses, member, grouping: Grouping::after(after) })
    }

    /// The next commits; none when a message had nothing new. Cancel-safe.
    pub(super) async fn next(&mut self, members: &Members) -> Result<Vec<Commit>, End> {
        let answer = self.responses.next().await;
        let response = answer.map_err(|it| End::of(Failure::of(it)))?;
        let Some(response) = response else {
            return Err(End::Failed { why: "the member ended the watch".to_owned() });
        };
        members.revisions.admit(response.header.as_ref(), Freshness::OfMember).map_err(End::of)?;
        if response.canceled {
            // A watch that is told of a compaction is canceled with it.
            let oldest = convert::revision(response.compact_revision);
            if oldest.0 > 0 {
                return Err(End::Compacted { oldest });
            }
            // What a watch with an old token is told.
            if response.cancel_reason.contains("permission denied") {
                let _ = members.renew(self.member).await;
            }
            return Err(End::Failed { why: response.cancel_reason });
        }
        self.grouping.add(response.events.into_iter().filter_map(convert::event));
        if response.fragment {
            return Ok(Vec::new());
        }
        self.grouping.finish().map_err(|Gap { next }| End::Gap { next })
    }
}

impl End {
    fn of(failure: Failure) -> Self {
        Self::Failed { why: failure.why() }
    }
}

impl Failure {
    pub(super) fn why(&self) -> String {
        match self {
            Self::Again { why } | Self::Unknown { why } => why.clone(),
            Self::Token => "the token is not valid".to_owned(),
            Self::Refused(Refusal::Other(status)) => status.to_string(),
            Self::Refused(it) => format!("{it:?}"),
        }
    }
}
