//! A store over an etcd cluster.
//!
//! **Reads** are linearizable, and asked again of other members until one answers. An answer from
//! before what this process knew when it asked is thrown away.
//!
//! **Watches** all hang on one stream of every event of the cluster (`tail`), which goes on from
//! the last revision seen with whichever member answers. Over all keys, revisions follow each other
//! without a gap, so a lost event is noticed, and how far a watch is needs no word from etcd: when
//! revision N has come, everything before it has. Progress is a linearizable read of the current
//! revision, and then waiting for the stream to have it. That holds on every version of etcd,
//! whereas progress notifications overtake events in some (issue #15220). The price: this process
//! sees writes outside of `/registry/` too, and its user must be allowed to read all keys.
//!
//! **Writes** whose answer is lost may have happened, or may happen yet: a proposal can lie in a
//! paused or cut-off member for any time, so neither reading the keys nor waiting tells. Therefore
//! each transaction also compares a key of this server's own, the fence, which is never written in
//! good times. When an answer is lost, the fence is written first (`fence`): now the transaction
//! has happened or never will. Then the history from before it was sent until the fence is searched
//! for what it would have left (`outcome`):
//!
//! - nothing like it: it did not happen, and is sent again;
//! - a write that follows on the very state it compared (`mod_revision`, or absence), and is the
//!   same in every key, value and lease: it happened. (Another client could have written just these
//!   bytes on just this state; then what was asked for was done all the same. Of two such writers
//!   in one process only one is told so.)
//! - the same without such a compare, or nothing but deletions, which all look the same:
//!   `Error::Uncertain`, since it may be another's.
//!
//! `Error::Uncertain` is also the answer when the fence cannot be written in time, or when the
//! transaction has so many compares that one more does not fit.

mod config;
mod convert;
mod errors;
mod feed;
mod fence;
mod grouping;
mod leases;
mod members;
mod outcome;
mod revisions;
mod status;
mod stream;
mod tail;
mod txn;
mod watch;
mod watches;
mod written;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use futures_util::future::BoxFuture;
use kvstore::{
    Error, LeaseId, LeaseStatus, RangeRequest, RangeResponse, Revision, Status, Store, Txn,
    TxnResponse, Watch, WatchRequest, Watches,
};
use lifecycle::Tasks;
use stdx::{Random, World};
use tokio::sync::Semaphore;

pub use config::{Config, Credentials, Error as ConfigError, Limits};

use errors::Refusal;
use feed::Feed;
use fence::Fence;
use members::{Members, Unanswered};
use revisions::Freshness;
use txn::Claims;
use watch::EtcdWatch;
use watches::EtcdWatches;

use crate::wire::methods;

/// How many watches may read etcd's history at once.
const HISTORIES_MAX: usize = 4;
/// Ranges can be large, and are given this much longer than other requests.
const RANGE_FACTOR: u32 = 6;

#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("the configuration of etcd")]
    Configure {
        #[source]
        source: ConfigError,
    },
    #[error("reaching etcd")]
    Reach {
        #[source]
        source: Error,
    },
}

/// The engine. Its tasks end when it is dropped, or when the tree they are of does.
pub struct Etcd {
    shared: Arc<Shared>,
    tasks: Tasks,
}

/// What the engine's parts and its watches share.
struct Shared {
    members: Arc<Members>,
    feed: Arc<Feed>,
    fence: Fence,
    claims: Claims,
    histories: Arc<Semaphore>,
    /// Where the feed was when a write last waited for its events in vain.
    stuck_at: AtomicU64,
    random: Random,
}

impl Etcd {
    /// Connects, and reads what recently happened. Fails when no member answers in time; trying
    /// again is the caller's.
    pub async fn connect(
        config: Config,
        world: &World,
        tasks: &Tasks,
    ) -> Result<Arc<Self>, ConnectError> {
        let endpoints =
            config.parse_endpoints().map_err(|source| ConnectError::Configure { source })?;
        let tasks = tasks.child("etcd");
        let limits = config.limits;
        let members = Members::new(endpoints, config.credentials, limits, tasks.clone());
        let fence = Fence::new(&config.name);
        let started = Self::start(members, fence, world, &tasks).await;
        if started.is_err() {
            tasks.cancel();
        }
        started.map_err(|source| ConnectError::Reach { source })
    }

    async fn start(
        members: Members,
        fence: Fence,
        world: &World,
        tasks: &Tasks,
    ) -> Result<Arc<Self>, Error> {
        let limits = members.limits;
        // The feed is made anew once it is known where it begins.
        let feed = Arc::new(Feed::new(Revision(1), Revision(1), 0, 0));
        let mut shared = Shared {
            members: Arc::new(members),
            feed,
            fence,
            claims: Claims::default(),
            histories: Arc::new(Semaphore::new(HISTORIES_MAX)),
            stuck_at: AtomicU64::new(0),
            random: world.random.clone(),
        };
        let current = shared.current().await?;
        let oldest = shared.find_oldest().await?;
        let start = Revision(current.0.saturating_sub(limits.recall)).max(oldest);
        let feed = Feed::new(start, oldest, limits.ring_commits, limits.ring_bytes);
        shared.feed = Arc::new(feed);
        let (members, feed) = (shared.members.clone(), shared.feed.clone());
        tasks.spawn("tail", |shutdown| tail::run(members, feed, shutdown));
        let reached = shared.feed.reached(current);
        if tokio::time::timeout(limits.timeout_request, reached).await.is_err() {
            let why = "its events cannot be read: the user must be allowed to read all keys";
            return Err(Error::Unavailable { why: why.to_owned() });
        }
        Ok(Arc::new(Self { shared: Arc::new(shared), tasks: tasks.clone() }))
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.tasks.cancel();
        self.shared.feed.close();
    }
}

impl Shared {
    async fn current(&self) -> Result<Revision, Error> {
        let freshness = Freshness::AtLeast(self.members.revisions.known());
        let timeout = self.members.limits.timeout_request;
        let request = self.fence.request();
        let answer = self.members.read(methods::RANGE, &request, freshness, timeout).await;
        let answer = answer.map_err(|it| unanswered(it, "asking etcd for its revision"))?;
        self.fence.adopt(answer.kvs.first().map_or(0, |it| it.mod_revision));
        Ok(convert::revision(answer.header.map_or(0, |it| it.revision)))
    }

    async fn range(&self, request: &RangeRequest) -> Result<RangeResponse, Error> {
        let freshness = Freshness::AtLeast(self.members.revisions.known());
        let timeout = self.members.limits.timeout_request * RANGE_FACTOR;
        let asked = convert::range(request);
        match self.members.read(methods::RANGE, &asked, freshness, timeout).await {
            Ok(answer) => Ok(convert::range_response(request, answer, Revision(0))),
            Err(Unanswered::Unavailable { why }) => Err(Error::Unavailable { why }),
            Err(Unanswered::Refused(refusal)) => {
                let requested = request.at.unwrap_or(Revision(0));
                Err(self.refuse_revision(refusal, requested).await)
            }
        }
    }

    /// What to say of a revision that cannot be read.
    async fn refuse_revision(&self, refusal: Refusal, requested: Revision) -> Error {
        match refusal {
            Refusal::Compacted if requested < self.feed.oldest() => {
                Error::Compacted { requested, oldest: self.feed.oldest() }
            }
            Refusal::Compacted => match self.find_oldest().await {
                Ok(oldest) => Error::Compacted { requested, oldest },
                Err(err) => err,
            },
            Refusal::Future => match self.current().await {
                Ok(current) => Error::Future { requested, current },
                Err(err) => err,
            },
            refusal => unanswered(Unanswered::Refused(refusal), "reading from etcd"),
        }
    }

    async fn watch(self: &Arc<Self>, request: WatchRequest) -> Result<EtcdWatch, Error> {
        let after = match request.after {
            Some(after) => after,
            None => self.current().await?,
        };
        let place = self.feed.watch(request, after)?;
        Ok(EtcdWatch::new(self.clone(), place))
    }
}

/// For requests that have no refusal of their own.
fn unanswered(unanswered: Unanswered, doing: &'static str) -> Error {
    match unanswered {
        Unanswered::Unavailable { why } => Error::Unavailable { why },
        Unanswered::Refused(Refusal::ReadOnly { why }) => Error::ReadOnly { why },
        Unanswered::Refused(refusal) => {
            let source = std::io::Error::other(errors::Failure::Refused(refusal).why());
            Error::Io { doing, source: Arc::new(source) }
        }
    }
}

impl Store for Etcd {
    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangeResponse, Error>> {
        Box::pin(async move { self.shared.range(&request).await })
    }

    fn txn(&self, txn: Txn) -> BoxFuture<'_, Result<TxnResponse, Error>> {
        Box::pin(async move { self.shared.txn(&txn).await })
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'_, Result<Box<dyn Watch>, Error>> {
        Box::pin(async move { Ok(Box::new(self.shared.watch(request).await?) as Box<dyn Watch>) })
    }

    fn watches(&self) -> Box<dyn Watches> {
        Box::new(EtcdWatches::new(self.shared.clone()))
    }

    fn compact(&self, through: Revision) -> BoxFuture<'_, Result<(), Error>> {
        Box::pin(self.shared.compact(through))
    }

    fn current(&self) -> BoxFuture<'_, Result<Revision, Error>> {
        Box::pin(self.shared.current())
    }

    fn revision(&self) -> Revision {
        self.shared.members.revisions.known()
    }

    fn oldest(&self) -> Revision {
        self.shared.feed.oldest()
    }

    fn status(&self) -> BoxFuture<'_, Result<Status, Error>> {
        Box::pin(self.shared.status())
    }

    fn lease_grant(
        &self,
        id: Option<LeaseId>,
        ttl: Duration,
    ) -> BoxFuture<'_, Result<LeaseId, Error>> {
        Box::pin(self.shared.lease_grant(id, ttl))
    }

    fn lease_revoke(&self, id: LeaseId) -> BoxFuture<'_, Result<Revision, Error>> {
        Box::pin(self.shared.lease_revoke(id))
    }

    fn lease_keep_alive(&self, id: LeaseId) -> BoxFuture<'_, Result<Duration, Error>> {
        Box::pin(self.shared.lease_keep_alive(id))
    }

    fn lease(&self, id: LeaseId) -> BoxFuture<'_, Result<LeaseStatus, Error>> {
        Box::pin(self.shared.lease(id))
    }

    fn leases(&self) -> BoxFuture<'_, Result<Vec<LeaseId>, Error>> {
        Box::pin(self.shared.leases())
    }
}
