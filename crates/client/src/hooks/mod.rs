//! Questions that the cluster asks others: one caller for every review that goes out (admission,
//! conversion). HTTPS over HTTP/1.1 connections that are kept for the next question.
//!
//! Promises: an answer within the deadline or the reason why there is none, in upstream's words; an
//! answer is bounded; nobody but who has the name, signed by the authority that was named, is
//! talked to; a redirect is not followed. Must not log what is asked or answered.

mod connection;
mod credentials;
mod failure;
mod identity;
mod target;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use lifecycle::Tasks;
use stdx::Random;
use telemetry::Registry;
use tokio::time::Instant;

use crate::deprecated::Deprecated;
use connection::{Connection, Way};

pub use credentials::Credentials;
pub use failure::{Failure, Unanswered};
pub use identity::{Error as IdentityError, Identity};
pub use target::{Place, Target};

/// Of an answer: an object as large as there may be, as a patch in base64, and what goes with it.
pub const ANSWER_MAX: usize = 8 << 20;
/// How many ways to a Service are tried before its own address.
const ENDPOINTS_MAX: usize = 3;

/// Where a Service is at this moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ways {
    /// Those that are ready.
    pub endpoints: Vec<SocketAddr>,
    /// For whoever has no route to the endpoints.
    pub cluster_address: Option<SocketAddr>,
    /// Another name that the Service stands for, with the port; then there is nothing else.
    pub external: Option<(String, u16)>,
}

/// Knows Services. Reads what is in memory; never waits.
pub trait Resolve: Send + Sync {
    /// The ways to one port of a Service, or why there is none: what is wrong, and what to do.
    fn resolve(&self, namespace: &str, name: &str, port: u16) -> Result<Ways, String>;
}

/// When an answer is late, and how many bytes it may have.
pub type Bounds = (Instant, usize);

/// How a question gets to whoever answers it: over the network, or not, in a simulation.
pub trait Carry: Send + Sync {
    fn carry<'a>(
        &'a self,
        target: &'a Target,
        url: &'a str,
        body: Bytes,
        bounds: Bounds,
    ) -> BoxFuture<'a, Result<Bytes, Failure>>;
}

/// Cheap to clone.
#[derive(Clone)]
pub struct Caller(Arc<dyn Carry>);

struct Network {
    tasks: Tasks,
    random: Random,
    resolve: Arc<dyn Resolve>,
    deprecated: Arc<Deprecated>,
}

impl Caller {
    pub fn new(
        tasks: &Tasks,
        random: &Random,
        resolve: Arc<dyn Resolve>,
        metrics: &Registry,
    ) -> Self {
        let (tasks, random) = (tasks.child("webhooks"), random.clone());
        let deprecated = Deprecated::of_webhooks(metrics);
        Self::over(Network { tasks, random, resolve, deprecated })
    }

    pub fn over(carrier: impl Carry + 'static) -> Self {
        Self(Arc::new(carrier))
    }

    /// Asks, and returns the body of an answer of success.
    pub async fn post(
        &self,
        target: &Target,
        body: Bytes,
        timeout: Duration,
        answer_max: usize,
    ) -> Result<Bytes, Failure> {
        let url = target.url(timeout);
        let within = |failure: Failure| failure.of_post(&url);
        let deadline = Instant::now() + timeout;
        let asking = self.0.carry(target, &url, body, (deadline, answer_max));
        match tokio::time::timeout_at(deadline, asking).await {
            Ok(answer) => answer.map_err(within),
            Err(_) => Err(within(Failure::late())),
        }
    }
}

impl Carry for Network {
    fn carry<'a>(
        &'a self,
        target: &'a Target,
        url: &'a str,
        body: Bytes,
        bounds: Bounds,
    ) -> BoxFuture<'a, Result<Bytes, Failure>> {
        Box::pin(self.ask(target, url, body, bounds))
    }
}

impl Network {
    async fn ask(
        &self,
        target: &Target,
        url: &str,
        body: Bytes,
        (deadline, answer_max): Bounds,
    ) -> Result<Bytes, Failure> {
        // Also where a connection is kept: what is not ready any more is not asked.
        let ways = match target.place() {
            Place::Url { .. } => vec![Way::Name(target.host().to_owned(), target.port())],
            Place::Service { namespace, name, port, .. } => {
                self.ways(namespace, name, *port).map_err(Failure::new)?
            }
        };
        let (shown, authorization) = target.identify();
        let request = || target.request(url, body.clone(), authorization.as_ref());
        if let Some(mut kept) = target.take_idle(&ways, shown) {
            match kept.exchange(request()?, answer_max).await {
                // Whoever closes a connection that nobody uses does so at any time, also at this.
                Err(failure) if failure.is_of_idle_connection() => {}
                answer => {
                    target.keep(kept);
                    return answer;
                }
            }
        }
        let mut fresh = self.connect(target, (ways, shown), deadline).await?;
        let answer = fresh.exchange(request()?, answer_max).await;
        target.keep(fresh);
        answer
    }

    async fn connect(
        &self,
        target: &Target,
        (ways, shown): (Vec<Way>, u64),
        deadline: Instant,
    ) -> Result<Connection, Failure> {
        let tls = target.tls(&self.deprecated)?;
        let n_ways = ways.len();
        let mut failed = None;
        for (index, way) in ways.into_iter().enumerate() {
            // A way that swallows everything must leave time for the next one.
            let left = deadline.saturating_duration_since(Instant::now());
            let share = left / u32::try_from(n_ways - index).unwrap_or(1);
            match tokio::time::timeout(share, way.dial()).await {
                Ok(Ok(stream)) => {
                    let to = (way, shown, &self.deprecated);
                    return Connection::start(&self.tasks, to, stream, tls).await;
                }
                Ok(Err(err)) => {
                    failed = Some(Failure::new(format!("dial tcp {way}: {}", dialed(&err))));
                }
                // Of the last way nobody is told this: the deadline is over.
                Err(_) => failed = Some(Failure::new(format!("dial tcp {way}: i/o timeout"))),
            }
        }
        Err(failed.unwrap_or_else(|| Failure::new("there is no way to it".to_owned())))
    }

    /// Ready endpoints by chance, then the address of the Service.
    fn ways(&self, namespace: &str, name: &str, port: u16) -> Result<Vec<Way>, String> {
        let Ways { mut endpoints, cluster_address, external } =
            self.resolve.resolve(namespace, name, port)?;
        if let Some((host, port)) = external {
            return Ok(vec![Way::Name(host, port)]);
        }
        if endpoints.is_empty() {
            return Err(format!(
                "no endpoints available for service {name:?} (see why no pod behind it is ready: \
                 kubectl --namespace {namespace} get endpointslices,pods)"
            ));
        }
        let start = self.random.below(endpoints.len() as u64) as usize;
        endpoints.rotate_left(start);
        endpoints.truncate(ENDPOINTS_MAX);
        Ok(endpoints.into_iter().chain(cluster_address).map(Way::Address).collect())
    }
}

/// As Go says it.
fn dialed(err: &std::io::Error) -> String {
    match err.kind() {
        std::io::ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
        std::io::ErrorKind::HostUnreachable => "connect: no route to host".to_owned(),
        std::io::ErrorKind::NetworkUnreachable => "connect: network is unreachable".to_owned(),
        _ => err.to_string(),
    }
}
