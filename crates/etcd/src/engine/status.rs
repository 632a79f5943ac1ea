//! How the cluster is: size, alarms, and how far back its history goes; and compacting it.

use kvstore::{Error, KeyRange, RangeRequest, Revision, Status, Want};
use tokio::time::{sleep, timeout};

use super::errors::{Failure, Refusal};
use super::members::Unanswered;
use super::revisions::Freshness;
use super::stream::{End, Stream};
use super::{Shared, convert, unanswered};
use crate::wire::messages::{
    AlarmAction, AlarmRequest, AlarmType, CompactionRequest, RangeRequest as WireRange,
    StatusRequest,
};
use crate::wire::methods;

impl Shared {
    pub(super) async fn status(&self) -> Result<Status, Error> {
        let timeout = self.members.limits.timeout_request;
        let everything = KeyRange::prefix(b"");
        let request = RangeRequest { want: Want::Count, ..RangeRequest::latest(everything) };
        let count = self.range(&request).await?;
        let request = StatusRequest {};
        let status = self.members.read(methods::STATUS, &request, Freshness::OfMember, timeout);
        let status = status.await.map_err(|it| unanswered(it, "asking etcd how it is"))?;
        let size = |number: i64| u64::try_from(number).unwrap_or(0);
        Ok(Status {
            revision: count.revision,
            oldest: self.find_oldest().await?,
            n_keys: count.count,
            bytes: size(status.db_size),
            bytes_current: size(status.db_size_in_use),
            // A member hashes its whole history for an answer, and differently after each
            // compaction.
            hash: None,
            read_only: self.alarm().await?,
        })
    }

    /// What keeps the cluster from being written.
    async fn alarm(&self) -> Result<Option<String>, Error> {
        let timeout = self.members.limits.timeout_request;
        let request = AlarmRequest { action: AlarmAction::Get as i32, member_id: 0, alarm: 0 };
        let alarms = self.members.read(methods::ALARM, &request, Freshness::OfMember, timeout);
        let alarms = match alarms.await {
            Ok(answer) => answer.alarms,
            // Only some users may ask; writing then tells.
            Err(Unanswered::Refused(_)) => return Ok(None),
            Err(err) => return Err(unanswered(err, "asking etcd for its alarms")),
        };
        let has = |kind: AlarmType| alarms.iter().any(|it| it.alarm == kind as i32);
        Ok(if has(AlarmType::Corrupt) {
            Some("etcdserver: corrupt cluster".to_owned())
        } else if has(AlarmType::NoSpace) {
            Some("etcdserver: mvcc: database space exceeded".to_owned())
        } else {
            None
        })
    }

    /// Asks how far back the history goes. etcd says so only to a watch from before that.
    pub(super) async fn find_oldest(&self) -> Result<Revision, Error> {
        let limit = self.members.limits.timeout_request;
        let mut request: WireRange = self.fence.request();
        request.revision = 1;
        let freshness = Freshness::AtLeast(self.members.revisions.known());
        match self.members.read(methods::RANGE, &request, freshness, limit).await {
            Ok(_) => return Ok(Revision(1)),
            Err(Unanswered::Refused(Refusal::Compacted)) => {}
            Err(err) => return Err(unanswered(err, "asking etcd for its oldest revision")),
        }
        let asking = async {
            loop {
                let member = self.members.pick(&[]);
                match self.probe(member).await {
                    Some(oldest) => return oldest,
                    None => self.members.suspect(member),
                }
                sleep(std::time::Duration::from_millis(50)).await;
            }
        };
        let oldest = timeout(limit, asking).await.map_err(|_| Error::Unavailable {
            why: "no answer to a question for the oldest revision".to_owned(),
        })?;
        self.feed.compact(oldest);
        Ok(oldest)
    }

    async fn probe(&self, member: usize) -> Option<Revision> {
        let asking = async {
            let mut stream = Stream::open(&self.members, member, Revision(0)).await?;
            loop {
                stream.next(&self.members).await?;
            }
        };
        let end: Result<End, _> = timeout(self.members.limits.timeout_attempt, async {
            let never: Result<std::convert::Infallible, End> = asking.await;
            match never {
                Ok(it) => match it {},
                Err(end) => end,
            }
        })
        .await;
        match end {
            Ok(End::Compacted { oldest }) => Some(oldest),
            Ok(End::Gap { .. } | End::Failed { .. }) | Err(_) => None,
        }
    }

    pub(super) async fn compact(&self, through: Revision) -> Result<(), Error> {
        let limit = self.members.limits.timeout_request;
        let request = CompactionRequest { revision: convert::number(through), physical: false };
        // May be asked for twice: the second time it has been done.
        let answer = self.members.read(methods::COMPACT, &request, Freshness::OfMember, limit);
        match answer.await {
            Ok(_) => {
                self.feed.compact(through);
                Ok(())
            }
            Err(Unanswered::Refused(Refusal::Compacted)) => match self.find_oldest().await? {
                oldest if oldest == through => Ok(()),
                oldest => Err(Error::Compacted { requested: through, oldest }),
            },
            Err(Unanswered::Refused(refusal)) => Err(self.refuse_revision(refusal, through).await),
            Err(err) => Err(unanswered(err, "compacting etcd")),
        }
    }
}

impl From<Failure> for End {
    fn from(failure: Failure) -> Self {
        Self::Failed { why: failure.why() }
    }
}
