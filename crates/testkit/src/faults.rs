//! A transport that fails now and then: calls that never arrive, and calls whose answer is lost. It
//! counts what is asked for.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use apimachinery::{ApiError, GroupResource, Reason};
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
    asked: Arc<Mutex<BTreeMap<GroupResource, usize>>>,
}

impl Faults {
    pub fn new(random: Random) -> Self {
        Self { rate: Arc::default(), random, asked: Arc::default() }
    }

    /// `per_thousand` calls of a thousand fail from now on.
    pub fn set_rate(&self, per_thousand: u64) {
        self.rate.store(per_thousand, Ordering::Relaxed);
    }

    /// How often a resource was asked for by all of them, watches included.
    pub fn n_asked(&self, resource: &GroupResource) -> usize {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.get(resource).copied().unwrap_or_default()
    }

    fn count(&self, request: &Request) {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        *asked.entry(request.resource.group_resource()).or_default() += 1;
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
        self.faults.count(&request);
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
        self.faults.count(&request);
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
