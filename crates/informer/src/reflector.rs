//! Follows one resource of the API: everything that is there, then every change, for as long as it
//! runs.
//!
//! The first list is streamed (KEP-3157); a server that cannot do that is listed in pages. A watch
//! that closes is resumed from the last version seen; a version that the server no longer has leads
//! to a new list.

use std::sync::Arc;
use std::time::Duration;

use api::Stored;
use apimachinery::{ApiError, Reason};
use client::{DynamicApi, ListOptions, WatchEvent, WatchEventKind, WatchStream};
use futures_util::StreamExt as _;
use lifecycle::Shutdown;
use stdx::{Backoff, Random};
use tokio::time::Instant;

use crate::factory::Selection;
use crate::shared::Sink;

const PAGE: u64 = 500;
const DELAY_FIRST: Duration = Duration::from_millis(800);
const DELAY_MAX: Duration = Duration::from_secs(30);
/// A quiet time this long ends a row of failures.
const CALM: Duration = Duration::from_secs(120);
/// A watch that closes sooner than this, without an event, counts as a failure: else a server that
/// refuses watches this way would be asked without pause.
const WATCH_MIN: Duration = Duration::from_secs(1);
/// Asked of the server, and stretched up to twofold, so that watches do not end all at once.
const WATCH_TIMEOUT: Duration = Duration::from_secs(300);

/// For resources that may end: called when the server says that it does not have this one.
pub(crate) type OnMissing = Arc<dyn Fn() + Send + Sync>;

pub(crate) struct Reflector {
    api: DynamicApi,
    selection: Selection,
    random: Random,
    sink: Arc<dyn Sink>,
    /// The last version seen; `None` asks for a new list.
    version: Option<String>,
    is_streaming_refused: bool,
    on_missing: Option<OnMissing>,
}

/// Why following stopped.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("listing")]
    List(#[source] ApiError),
    #[error("watching")]
    Watch(#[source] ApiError),
    /// In the stream that should have begun with them.
    #[error("reading the initial events")]
    Initial(#[source] ApiError),
    #[error("the server closed the watch before the initial events were complete")]
    Incomplete,
    #[error("the server closed the watch at once")]
    Short,
}

impl Error {
    fn is_expired(&self) -> bool {
        match self {
            Self::List(err) | Self::Watch(err) | Self::Initial(err) => err.is_expired(),
            Self::Incomplete | Self::Short => false,
        }
    }

    fn is_not_found(&self) -> bool {
        match self {
            Self::List(err) | Self::Watch(err) | Self::Initial(err) => err.is_not_found(),
            Self::Incomplete | Self::Short => false,
        }
    }
}

impl Reflector {
    pub(crate) fn new(
        api: DynamicApi,
        selection: Selection,
        random: Random,
        sink: Arc<dyn Sink>,
        on_missing: Option<OnMissing>,
    ) -> Self {
        let (version, is_streaming_refused) = (None, false);
        Self { api, selection, random, sink, version, is_streaming_refused, on_missing }
    }

    pub(crate) async fn run(mut self, shutdown: Shutdown) {
        let mut backoff = Backoff::new(DELAY_FIRST, DELAY_MAX);
        let mut failed_at = Instant::now();
        loop {
            let err = tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                err = self.follow() => err,
            };
            if err.is_expired() {
                self.version = None;
            }
            if failed_at.elapsed() > CALM {
                backoff.reset();
            }
            failed_at = Instant::now();
            let delay = self.random.jitter(backoff.step(), 1.0);
            let resource = self.api.resource().group_resource();
            let error = stdx::error_chain(&err);
            let on_missing = self.on_missing.as_ref().filter(|_| err.is_not_found());
            if err.is_expired() {
                tracing::debug!(%resource, error, ?delay, "version expired; listing again");
            } else if let Some(on_missing) = on_missing {
                tracing::debug!(%resource, error, ?delay, "there is no such resource; asking why");
                on_missing();
            } else {
                tracing::warn!(%resource, error, ?delay, "following failed; trying again");
            }
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(delay) => {}
            }
        }
    }

    /// Lists when needed, then watches until something fails.
    async fn follow(&mut self) -> Error {
        let mut open = None;
        if self.version.is_none() {
            match self.list_all().await {
                Ok(stream) => open = stream,
                Err(err) => return err,
            }
        }
        loop {
            let started = Instant::now();
            let stream = match open.take() {
                Some(stream) => stream,
                None => match self.watch().await {
                    Ok(stream) => stream,
                    Err(err) => return Error::Watch(err),
                },
            };
            match self.drain(stream).await {
                Err(err) => return Error::Watch(err),
                Ok(0) if started.elapsed() < WATCH_MIN => return Error::Short,
                Ok(_) => {}
            }
        }
    }

    /// Replaces the cache. A streamed list gives its stream back: it goes on as the watch.
    async fn list_all(&mut self) -> Result<Option<WatchStream>, Error> {
        if !self.is_streaming_refused {
            match self.list_streamed().await {
                Err(Error::Watch(err) | Error::Initial(err)) if is_refusal(&err) => {
                    self.is_streaming_refused = true;
                }
                // Upstream's server over an old etcd says with 500 that it cannot, and relies on
                // clients that list after any error (client-go's reflector).
                Err(Error::Initial(err)) if !err.is_expired() => {
                    tracing::debug!(error = %err, "no streamed list; listing in pages");
                }
                other => return other.map(Some),
            }
        }
        self.list_paged().await.map(|()| None)
    }

    async fn list_streamed(&mut self) -> Result<WatchStream, Error> {
        let options = ListOptions {
            send_initial_events: Some(true),
            resource_version_match: Some("NotOlderThan".to_owned()),
            ..self.watch_options()
        };
        let mut stream =
            self.api.watch(&self.selection.namespace, options).await.map_err(Error::Watch)?;
        let mut items = std::collections::BTreeMap::new();
        while let Some(event) = stream.next().await {
            let WatchEvent { kind, object, is_initial_end } = event.map_err(Error::Initial)?;
            match kind {
                WatchEventKind::Added | WatchEventKind::Modified => {
                    items.insert(object.meta.key.clone(), object);
                }
                WatchEventKind::Deleted => {
                    items.remove(&object.meta.key);
                }
                WatchEventKind::Bookmark if is_initial_end => {
                    let items: Vec<Arc<Stored>> = items.into_values().collect();
                    self.sink.replace(&items);
                    self.version = Some(object.meta.resource_version.to_string());
                    return Ok(stream);
                }
                WatchEventKind::Bookmark => {}
            }
        }
        Err(Error::Incomplete)
    }

    async fn list_paged(&mut self) -> Result<(), Error> {
        let mut items = Vec::new();
        let mut continue_token = None;
        loop {
            let options = ListOptions {
                limit: Some(PAGE),
                continue_token,
                field_selector: self.field_selector(),
                ..ListOptions::default()
            };
            let page =
                self.api.list(&self.selection.namespace, options).await.map_err(Error::List)?;
            items.extend(page.items);
            continue_token = page.continue_token;
            if continue_token.is_none() {
                self.sink.replace(&items);
                self.version = Some(page.resource_version);
                return Ok(());
            }
        }
    }

    async fn watch(&self) -> Result<WatchStream, ApiError> {
        self.api.watch(&self.selection.namespace, self.watch_options()).await
    }

    fn field_selector(&self) -> Option<String> {
        Some(self.selection.field_selector.clone()).filter(|it| !it.is_empty())
    }

    fn watch_options(&self) -> ListOptions {
        ListOptions {
            field_selector: self.field_selector(),
            resource_version: self.version.clone(),
            allow_watch_bookmarks: true,
            timeout_seconds: Some(self.random.jitter(WATCH_TIMEOUT, 1.0).as_secs()),
            ..ListOptions::default()
        }
    }

    /// Applies events until the stream ends; returns how many there were.
    async fn drain(&mut self, mut stream: WatchStream) -> Result<usize, ApiError> {
        let mut n_events = 0;
        while let Some(event) = stream.next().await {
            let event = event?;
            self.sink.apply(&event);
            self.version = Some(event.object.meta.resource_version.to_string());
            n_events += 1;
        }
        Ok(n_events)
    }
}

/// The server does not know `sendInitialEvents`, or has it switched off.
fn is_refusal(err: &ApiError) -> bool {
    matches!(err.reason(), Reason::Invalid | Reason::BadRequest)
}
