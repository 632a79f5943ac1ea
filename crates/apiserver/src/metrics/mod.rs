//! What the API server counts, under upstream's names: one file for each thing that is counted.

mod elsewhere;
mod in_flight;
mod legacy_tokens;
mod requests;
mod storage;
mod watches;

use std::sync::Arc;

use telemetry::Registry;

pub(crate) use elsewhere::{By, Elsewhere, Subject};
pub(crate) use requests::{About, Recording};
pub(crate) use storage::Operation;

use legacy_tokens::LegacyTokens;
use requests::Requests;
use storage::Storage;
use watches::Watches;

use crate::cache::Cache;

pub(crate) struct Metrics {
    registry: Registry,
    /// One page is made at a time: some numbers are taken away before they are set anew.
    writing: tokio::sync::Mutex<()>,
    pub(crate) elsewhere: Elsewhere,
    pub(crate) legacy_tokens: LegacyTokens,
    pub(crate) requests: Arc<Requests>,
    pub(crate) storage: Storage,
    pub(crate) watches: Watches,
}

impl Metrics {
    pub(crate) fn new(registry: Registry) -> Self {
        Self {
            elsewhere: Elsewhere::new(&registry),
            legacy_tokens: LegacyTokens::new(&registry),
            requests: Arc::new(Requests::new(&registry)),
            storage: Storage::new(&registry),
            watches: Watches::new(&registry),
            writing: tokio::sync::Mutex::default(),
            registry,
        }
    }

    /// The page of `/metrics`.
    pub(crate) async fn render(&self, cache: &Cache) -> String {
        let _writing = self.writing.lock().await;
        self.storage.read(cache).await;
        self.requests.show_in_flight();
        self.registry.render()
    }
}
