//! A transport that fails now and then: calls that never arrive, and calls whose answer is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use apimachinery::{ApiError, Reason};
use bytes::Bytes;
use client::{Client, Discovered, Reply, Request, Transport, WatchStream};
use futures_util::future::BoxFuture;
use stdx::Random;

/// How often calls fail, shared by every faulty client; it can be changed while they are used.
#[derive(Clone)]
pub struct Faults {
    /// In thousandths.
    rate: Arc<AtomicU64>,
    random: Random,
}

impl Faults {
    pub fn new(random: Random) -> Self {
        Self { rate: Arc::default(), random }
    }

    /// `per_thousand` calls of a thousand fail from now on.
    pub fn set_rate(&self, per_thousand: u64) {
        self.rate.store(per_thousand, Ordering::Relaxed);
    }

    fn strikes(&self) -> bool {
        let rate = self.rate.load(Ordering::Relaxed);
        rate > 0 && self.random.below(1000) < rate
    }

    /// The same client over a transport that fails at this rate.
    pub fn wrap(&self, client: &Client) -> Client {
        let faults = self.clone();
        client.map_transport(|inner| Arc::new(Faulty { inner, faults }))
    }
}

struct Faulty {
    inner: Arc<dyn Transport>,
    faults: Faults,
}

fn unreachable() -> ApiError {
    ApiError::new(Reason::ServiceUnavailable, "simulated fault: the server could not be reached")
}

impl Transport for Faulty {
    fn call(&self, request: Request) -> BoxFuture<'_, Result<Reply, ApiError>> {
        Box::pin(async move {
            if self.faults.strikes() {
                return Err(unreachable());
            }
            let reply = self.inner.call(request).await;
            // The write happened, but nobody hears of it.
            if self.faults.strikes() { Err(unreachable()) } else { reply }
        })
    }

    fn watch(&self, request: Request) -> BoxFuture<'_, Result<WatchStream, ApiError>> {
        Box::pin(async move {
            if self.faults.strikes() { Err(unreachable()) } else { self.inner.watch(request).await }
        })
    }

    fn get_path(&self, path: String) -> BoxFuture<'_, Result<Bytes, ApiError>> {
        self.inner.get_path(path)
    }

    fn discover(&self) -> BoxFuture<'_, Result<Vec<Discovered>, ApiError>> {
        Box::pin(async move {
            if self.faults.strikes() { Err(unreachable()) } else { self.inner.discover().await }
        })
    }
}
