//! The fence: one key of this server's own that every writing transaction compares. Writing it
//! makes all transactions that were sent before and have not happened yet fail, wherever they are,
//! however late they arrive.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use kvstore::Revision;
use stdx::Backoff;
use tokio::time::{Instant, sleep, timeout};

use super::convert;
use super::errors::{Failure, Refusal};
use super::members::Members;
use super::revisions::Freshness;
use crate::wire::messages::{PutRequest, RangeRequest};
use crate::wire::methods;

/// Outside of `/registry/`, so that whoever watches objects does not see it.
const PREFIX: &str = "/xebec/fences/";

pub(super) struct Fence {
    pub(super) key: Bytes,
    /// The revision of the last write to the key that is known; 0 before the first. Only grows, and
    /// no revision comes twice: a transaction that compares an older one never succeeds again.
    raised: AtomicI64,
    raising: tokio::sync::Mutex<()>,
}

impl Fence {
    pub(super) fn new(name: &str) -> Self {
        let key = Bytes::from(format!("{PREFIX}{name}"));
        Self { key, raised: AtomicI64::new(0), raising: tokio::sync::Mutex::new(()) }
    }

    pub(super) fn raised(&self) -> i64 {
        self.raised.load(Ordering::Acquire)
    }

    /// Somebody (an earlier attempt that came late, another of this name) has raised it.
    pub(super) fn adopt(&self, raised: i64) {
        self.raised.fetch_max(raised, Ordering::AcqRel);
    }

    /// A read of the key: the cheapest linearizable request there is, and it tells where the fence
    /// is.
    pub(super) fn request(&self) -> RangeRequest {
        RangeRequest { key: self.key.clone(), keys_only: true, ..RangeRequest::default() }
    }

    /// Returns a revision at which transactions that compared `sent` could no longer happen. One
    /// write serves all that wait.
    pub(super) async fn raise(
        &self,
        members: &Members,
        sent: i64,
        deadline: Instant,
    ) -> Result<Revision, String> {
        let waited = tokio::time::timeout_at(deadline, self.raising.lock()).await;
        let _raising = waited.map_err(|_| "the fence could not be written in time".to_owned())?;
        let mut backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(1));
        loop {
            let raised = self.raised();
            if raised > sent {
                return Ok(convert::revision(raised));
            }
            let member = members.pick(&[]);
            let request = PutRequest { key: self.key.clone(), ..PutRequest::default() };
            let freshness = Freshness::AtLeast(members.revisions.known());
            let call = members.call(member, methods::PUT, &request, freshness);
            let failure = match timeout(members.limits.timeout_attempt, call).await {
                Ok(Ok(answer)) => {
                    members.trust(member);
                    self.adopt(answer.header.map_or(0, |it| it.revision));
                    continue;
                }
                Ok(Err(failure)) => failure,
                Err(_) => Failure::Unknown { why: "no answer".to_owned() },
            };
            if let Failure::Refused(refusal) = &failure {
                return Err(format!("the fence cannot be written: {}", refused(refusal)));
            }
            members.suspect(member);
            if Instant::now() >= deadline {
                return Err(format!("the fence could not be written: {}", failure.why()));
            }
            sleep(backoff.step()).await;
        }
    }
}

fn refused(refusal: &Refusal) -> String {
    match refusal {
        Refusal::ReadOnly { why } => why.clone(),
        Refusal::Other(status) => status.to_string(),
        refusal => format!("{refusal:?}"),
    }
}
