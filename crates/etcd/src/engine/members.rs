//! The members: one connection to each that is used, whom to ask next, and the token that they all
//! know.
//!
//! A member that fails or is silent is suspect for a growing while and asked only when all are.
//! Reads may be asked again and of two members at once; whether anything else may is for the caller
//! to decide.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use lifecycle::Tasks;
use prost::Message;
use stdx::Backoff;
use tokio::time::{Instant, sleep, sleep_until};

use super::config::{Credentials, Limits};
use super::errors::{Failure, Refusal};
use super::revisions::{Freshness, Revisions};
use crate::wire::channel::{Channel, Endpoint};
use crate::wire::messages::{AuthenticateRequest, ResponseHeader};
use crate::wire::methods::{self, Method};

const SUSPECT_MIN: Duration = Duration::from_millis(500);
const SUSPECT_MAX: Duration = Duration::from_secs(8);
/// Between attempts, once every member has failed.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

pub(super) struct Members {
    links: Vec<Link>,
    preferred: AtomicUsize,
    credentials: Option<Credentials>,
    token: tokio::sync::Mutex<Token>,
    tasks: Tasks,
    pub(super) limits: Limits,
    pub(super) revisions: Revisions,
}

struct Link {
    endpoint: Endpoint,
    channel: tokio::sync::Mutex<Option<Channel>>,
    suspicion: Mutex<Suspicion>,
}

struct Suspicion {
    until: Option<Instant>,
    backoff: Backoff,
}

#[derive(Clone, PartialEq, Eq)]
enum Token {
    Unasked,
    /// The cluster has no authentication turned on.
    Unneeded,
    Given(String),
}

/// Why there is no answer to a read.
#[derive(Debug)]
pub(super) enum Unanswered {
    Refused(Refusal),
    Unavailable { why: String },
}

/// An answer whose header says when it was.
pub(super) trait Answer: Message + Default {
    fn header(&self) -> Option<&ResponseHeader>;
}

macro_rules! answers {
    ($($name:ident)*) => {
        $(impl Answer for crate::wire::messages::$name {
            fn header(&self) -> Option<&ResponseHeader> {
                self.header.as_ref()
            }
        })*
    };
}

answers! {
    RangeResponse TxnResponse PutResponse CompactionResponse StatusResponse AlarmResponse
    LeaseGrantResponse LeaseRevokeResponse LeaseTimeToLiveResponse LeaseLeasesResponse
    LeaseKeepAliveResponse
}

impl Members {
    pub(super) fn new(
        endpoints: Vec<Endpoint>,
        credentials: Option<Credentials>,
        limits: Limits,
        tasks: Tasks,
    ) -> Self {
        let link = |endpoint| Link {
            endpoint,
            channel: tokio::sync::Mutex::new(None),
            suspicion: Mutex::new(Suspicion {
                until: None,
                backoff: Backoff::new(SUSPECT_MIN, SUSPECT_MAX),
            }),
        };
        Self {
            links: endpoints.into_iter().map(link).collect(),
            preferred: AtomicUsize::new(0),
            credentials,
            token: tokio::sync::Mutex::new(Token::Unasked),
            tasks,
            limits,
            revisions: Revisions::new(),
        }
    }

    /// The member to ask: the one that answered last, unless it is suspect or already being asked.
    pub(super) fn pick(&self, asked: &[usize]) -> usize {
        let first = self.preferred.load(Ordering::Relaxed);
        let order = (0..self.links.len()).map(|it| (first + it) % self.links.len());
        // Among equals the first, so the order is kept.
        let pick = order.min_by_key(|it| (asked.contains(it), self.links[*it].suspect_until()));
        pick.unwrap_or(first)
    }

    pub(super) fn suspect(&self, member: usize) {
        self.links[member].suspect();
        let next = (member + 1) % self.links.len();
        let _ = self.preferred.compare_exchange(member, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    pub(super) fn trust(&self, member: usize) {
        self.links[member].trust();
    }

    pub(super) fn name(&self, member: usize) -> String {
        let Endpoint { host, port, .. } = &self.links[member].endpoint;
        format!("{host}:{port}")
    }

    /// A connection with the token, made if there is none. Nothing has been asked when it fails.
    pub(super) async fn channel(&self, member: usize) -> Result<Channel, Failure> {
        let bare = self.connect(member).await?;
        self.authorize(bare, None).await
    }

    /// The same with a new token, after the one that is known was refused.
    pub(super) async fn renew(&self, member: usize) -> Result<Channel, Failure> {
        if self.credentials.is_none() {
            let why = "etcd asks for a user and a password, and none is set".to_owned();
            return Err(Failure::Again { why });
        }
        // A new token cannot be asked for with an old one.
        let bare = self.connect(member).await?;
        let rejected = self.token.lock().await.clone();
        self.authorize(bare, Some(&rejected)).await
    }

    async fn connect(&self, member: usize) -> Result<Channel, Failure> {
        let link = &self.links[member];
        let mut channel = link.channel.lock().await;
        if let Some(it) = channel.as_ref().filter(|it| !it.is_closed()) {
            return Ok(it.clone());
        }
        let made = Channel::connect(&link.endpoint, self.limits.timing, &self.tasks).await;
        let made =
            made.map_err(|err| Failure::Again { why: stdx::error_chain(&err).to_string() })?;
        Ok(channel.insert(made).clone())
    }

    /// Adds the token. One that was rejected is asked for anew, unless somebody has done so
    /// already.
    async fn authorize(
        &self,
        channel: Channel,
        rejected: Option<&Token>,
    ) -> Result<Channel, Failure> {
        let Some(credentials) = &self.credentials else { return Ok(channel) };
        let mut token = self.token.lock().await;
        if *token == Token::Unasked || rejected == Some(&*token) {
            *token = self.authenticate(&channel, credentials).await?;
        }
        match &*token {
            Token::Given(it) => Ok(channel.with_token(it).unwrap_or(channel)),
            Token::Unasked | Token::Unneeded => Ok(channel),
        }
    }

    async fn authenticate(
        &self,
        channel: &Channel,
        credentials: &Credentials,
    ) -> Result<Token, Failure> {
        let Credentials { user, password } = credentials.clone();
        let request = AuthenticateRequest { name: user, password };
        let call = channel.unary(methods::AUTHENTICATE, &request);
        match tokio::time::timeout(self.limits.timeout_attempt, call).await {
            Ok(Ok(answer)) => Ok(Token::Given(answer.token)),
            Err(_) => Err(Failure::Again { why: "no answer to a password".to_owned() }),
            Ok(Err(err)) => match Failure::of(err) {
                Failure::Refused(Refusal::Other(it))
                    if it.message == "etcdserver: authentication is not enabled" =>
                {
                    Ok(Token::Unneeded)
                }
                // Asking for a token changes nothing.
                Failure::Unknown { why } => Err(Failure::Again { why }),
                failure => Err(failure),
            },
        }
    }

    /// One call to one member. A token that has run out is renewed once.
    pub(super) async fn call<Q, A>(
        &self,
        member: usize,
        method: Method<Q, A>,
        request: &Q,
        freshness: Freshness,
    ) -> Result<A, Failure>
    where
        Q: Message,
        A: Answer,
    {
        let channel = self.channel(member).await?;
        let result = match channel.unary(method, request).await.map_err(Failure::of) {
            Err(Failure::Token) => {
                let channel = self.renew(member).await?;
                channel.unary(method, request).await.map_err(Failure::of)
            }
            result => result,
        };
        let answer = match result {
            Err(Failure::Token) => Err(Failure::Again { why: "the token is refused".to_owned() }),
            result => result,
        }?;
        self.revisions.admit(answer.header(), freshness)?;
        Ok(answer)
    }

    /// Asks until somebody answers: the next member when one fails, a second one when the first is
    /// silent.
    pub(super) async fn read<Q, A>(
        &self,
        method: Method<Q, A>,
        request: &Q,
        freshness: Freshness,
        timeout: Duration,
    ) -> Result<A, Unanswered>
    where
        Q: Message,
        A: Answer,
    {
        let deadline = Instant::now() + timeout;
        let attempt = async |member| (member, self.call(member, method, request, freshness).await);
        let mut attempts = FuturesUnordered::new();
        let mut asked = vec![self.pick(&[])];
        attempts.push(attempt(asked[0]));
        let mut pause = Backoff::new(PAUSE_MIN, PAUSE_MAX);
        let mut last = format!("no answer within {timeout:?}");
        loop {
            tokio::select! {
                biased;
                Some((member, result)) = attempts.next() => {
                    asked.retain(|it| *it != member);
                    match result {
                        Ok(answer) => {
                            self.trust(member);
                            return Ok(answer);
                        }
                        Err(Failure::Refused(refusal)) => return Err(Unanswered::Refused(refusal)),
                        Err(failure) => {
                            self.suspect(member);
                            last = format!("{}: {}", self.name(member), failure.why());
                        }
                    }
                    if attempts.is_empty() {
                        let wait = Instant::now() + pause.step();
                        sleep_until(wait.min(deadline)).await;
                        asked.push(self.pick(&asked));
                        attempts.push(attempt(asked[0]));
                    }
                }
                () = sleep_until(deadline) => return Err(Unanswered::Unavailable { why: last }),
                () = sleep(self.limits.timeout_attempt) => {
                    asked.iter().for_each(|it| self.suspect(*it));
                    if asked.len() < self.links.len() {
                        asked.push(self.pick(&asked));
                        attempts.push(attempt(asked[asked.len() - 1]));
                    }
                }
            }
        }
    }
}

impl Link {
    fn suspicion(&self) -> std::sync::MutexGuard<'_, Suspicion> {
        self.suspicion.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None` when it is not suspect, which sorts first.
    fn suspect_until(&self) -> Option<Instant> {
        self.suspicion().until.filter(|it| *it > Instant::now())
    }

    fn suspect(&self) {
        let mut suspicion = self.suspicion();
        // Many calls fail together; that is one failure.
        if suspicion.until.is_none_or(|it| it <= Instant::now()) {
            let delay = suspicion.backoff.step();
            suspicion.until = Some(Instant::now() + delay);
        }
    }

    fn trust(&self) {
        let mut suspicion = self.suspicion();
        suspicion.until = None;
        suspicion.backoff.reset();
    }
}
