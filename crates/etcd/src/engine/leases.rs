//! Leases. Granting under an id of our own choice and revoking can be repeated; keeping alive
//! always can.

use std::time::Duration;

use kvstore::{Error, LeaseId, LeaseStatus, Revision};
use stdx::Backoff;
use tokio::time::{Instant, sleep, timeout};

use super::errors::{self, Failure, Refusal};
use super::members::{Answer, Unanswered};
use super::revisions::Freshness;
use super::{Shared, convert};
use crate::wire::messages::{
    LeaseGrantRequest, LeaseKeepAliveRequest, LeaseLeasesRequest, LeaseLeasesResponse,
    LeaseRevokeRequest, LeaseTimeToLiveRequest,
};
use crate::wire::methods::{self, Method};

/// How a change of leases ended.
enum Ended<A> {
    Answered(A),
    /// `is_repeat`: an earlier attempt may have done it already.
    Refused {
        refusal: Refusal,
        is_repeat: bool,
    },
}

impl Shared {
    pub(super) async fn lease_grant(
        &self,
        id: Option<LeaseId>,
        ttl: Duration,
    ) -> Result<LeaseId, Error> {
        let is_ours = id.is_none();
        let id = id.unwrap_or_else(|| self.random_lease());
        let seconds = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
        let ttl = i64::try_from(seconds).unwrap_or(i64::MAX);
        let request = LeaseGrantRequest { ttl, id: id.0.get() };
        match self.repeat(methods::LEASE_GRANT, &request).await? {
            Ended::Answered(_) => Ok(id),
            // Nobody else has an id of 63 random bits: it was the attempt before.
            Ended::Refused { refusal: Refusal::LeaseExists, is_repeat: true } if is_ours => Ok(id),
            Ended::Refused { refusal: Refusal::LeaseExists, is_repeat: true } => {
                Err(Error::Uncertain { why: "the lease exists, maybe of another".to_owned() })
            }
            Ended::Refused { refusal, .. } => Err(refuse(id, refusal)),
        }
    }

    pub(super) async fn lease_revoke(&self, id: LeaseId) -> Result<Revision, Error> {
        let request = LeaseRevokeRequest { id: id.0.get() };
        match self.repeat(methods::LEASE_REVOKE, &request).await? {
            Ended::Answered(answer) => {
                let told = answer.header.map_or(0, |it| it.revision);
                let revision = convert::revision(told);
                self.await_own_events(revision).await;
                Ok(revision)
            }
            Ended::Refused { refusal: Refusal::LeaseNotFound, is_repeat: true } => {
                self.current().await
            }
            Ended::Refused { refusal, .. } => Err(refuse(id, refusal)),
        }
    }

    /// Asks until there is an answer. Only for what may happen twice.
    async fn repeat<Q, A>(&self, method: Method<Q, A>, request: &Q) -> Result<Ended<A>, Error>
    where
        Q: prost::Message,
        A: Answer,
    {
        let members = &self.members;
        let deadline = Instant::now() + members.limits.timeout_request;
        let mut backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(1));
        let mut is_repeat = false;
        loop {
            let member = members.pick(&[]);
            let call = members.call(member, method, request, Freshness::OfMember);
            let why = match timeout(members.limits.timeout_attempt, call).await {
                Ok(Ok(answer)) => {
                    members.trust(member);
                    return Ok(Ended::Answered(answer));
                }
                Ok(Err(Failure::Refused(refusal))) => {
                    return Ok(Ended::Refused { refusal, is_repeat });
                }
                Ok(Err(failure)) => {
                    is_repeat |= matches!(failure, Failure::Unknown { .. });
                    failure.why()
                }
                Err(_) => {
                    is_repeat = true;
                    "no answer".to_owned()
                }
            };
            members.suspect(member);
            if Instant::now() >= deadline {
                return Err(match is_repeat {
                    true => Error::Uncertain { why },
                    false => Error::Unavailable { why },
                });
            }
            sleep(backoff.step()).await;
        }
    }

    pub(super) async fn lease_keep_alive(&self, id: LeaseId) -> Result<Duration, Error> {
        let members = &self.members;
        let deadline = Instant::now() + members.limits.timeout_request;
        let mut backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(1));
        loop {
            let member = members.pick(&[]);
            let call = self.keep_alive_once(member, id);
            let failure = match timeout(members.limits.timeout_attempt, call).await {
                Ok(Ok(0)) => return Err(Error::LeaseNotFound { id }),
                Ok(Ok(ttl)) => return Ok(convert::seconds(ttl)),
                Ok(Err(failure)) => failure,
                Err(_) => Failure::Unknown { why: "no answer".to_owned() },
            };
            if let Failure::Refused(refusal) = failure {
                return Err(refuse(id, refusal));
            }
            members.suspect(member);
            if Instant::now() >= deadline {
                return Err(Error::Unavailable { why: failure.why() });
            }
            sleep(backoff.step()).await;
        }
    }

    /// What is left, in seconds; 0 when there is no such lease.
    async fn keep_alive_once(&self, member: usize, id: LeaseId) -> Result<i64, Failure> {
        let channel = self.members.channel(member).await?;
        let request = LeaseKeepAliveRequest { id: id.0.get() };
        let opened = channel.open(methods::LEASE_KEEP_ALIVE, &request).await;
        let (requests, pending) = opened.map_err(Failure::of)?;
        let mut answers = pending.answers().await.map_err(Failure::of)?;
        let answer = answers.next().await.map_err(Failure::of)?;
        // The server ends the stream after us.
        let _ = requests.finish();
        let silent = || Failure::Unknown { why: "the stream ended".to_owned() };
        answer.map(|it| it.ttl.max(0)).ok_or_else(silent)
    }

    pub(super) async fn lease(&self, id: LeaseId) -> Result<LeaseStatus, Error> {
        let request = LeaseTimeToLiveRequest { id: id.0.get(), keys: true };
        let timeout = self.members.limits.timeout_request;
        let method = methods::LEASE_TIME_TO_LIVE;
        let answer = self.members.read(method, &request, Freshness::OfMember, timeout).await;
        let answer = match answer {
            Ok(answer) => answer,
            Err(Unanswered::Unavailable { why }) => return Err(Error::Unavailable { why }),
            Err(Unanswered::Refused(refusal)) => return Err(refuse(id, refusal)),
        };
        if answer.ttl < 0 {
            return Err(Error::LeaseNotFound { id });
        }
        let mut keys = answer.keys;
        keys.sort();
        Ok(LeaseStatus {
            id,
            granted: convert::seconds(answer.granted_ttl),
            remaining: convert::seconds(answer.ttl),
            keys,
        })
    }

    /// A member lists what it knows itself, so it is first made to know everything that is
    /// committed.
    pub(super) async fn leases(&self) -> Result<Vec<LeaseId>, Error> {
        let members = &self.members;
        let deadline = Instant::now() + members.limits.timeout_request;
        let mut backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(1));
        loop {
            let member = members.pick(&[]);
            let failure = match timeout(members.limits.timeout_attempt, self.list(member)).await {
                Ok(Ok(answer)) => {
                    let mut leases: Vec<_> =
                        answer.leases.iter().filter_map(|it| LeaseId::new(it.id)).collect();
                    leases.sort();
                    return Ok(leases);
                }
                Ok(Err(failure)) => failure,
                Err(_) => Failure::Unknown { why: "no answer".to_owned() },
            };
            members.suspect(member);
            if Instant::now() >= deadline {
                return Err(Error::Unavailable { why: failure.why() });
            }
            sleep(backoff.step()).await;
        }
    }

    async fn list(&self, member: usize) -> Result<LeaseLeasesResponse, Failure> {
        let freshness = Freshness::AtLeast(self.members.revisions.known());
        self.members.call(member, methods::RANGE, &self.fence.request(), freshness).await?;
        let request = LeaseLeasesRequest {};
        self.members.call(member, methods::LEASE_LEASES, &request, Freshness::OfMember).await
    }

    /// Positive: etcd chooses an id itself for 0, and its tools print them as unsigned.
    fn random_lease(&self) -> LeaseId {
        let id = i64::try_from(self.random.next_u64() >> 1).unwrap_or(1);
        LeaseId::new(id.max(1)).expect("at least one")
    }
}

fn refuse(id: LeaseId, refusal: Refusal) -> Error {
    match refusal {
        Refusal::LeaseNotFound => Error::LeaseNotFound { id },
        Refusal::LeaseExists => Error::LeaseExists { id },
        Refusal::ReadOnly { why } => Error::ReadOnly { why },
        Refusal::Other(status) => errors::refused(status),
        refusal => {
            let text = format!("a request for a lease was refused: {refusal:?}");
            errors::refused(crate::wire::Status::new(crate::wire::Code::Unknown, text))
        }
    }
}
