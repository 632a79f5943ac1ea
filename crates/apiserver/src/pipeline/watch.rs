//! WATCH: first the state if it was asked for, then every change, with bookmarks in between.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use api::{Kind, Stored};
use apimachinery::{ApiError, FieldErrors, Path};
use client::WatchEventKind;
use telemetry::Counter;
use tokio::time::Instant;

use super::list::{options_error, select};
use super::read::parse_version;
use super::{Request, versions};
use crate::cache::{Cache, Event, Selection, Subscription};
use crate::server::Core;

const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// A last bookmark this long before the end lets the client resume without a replay.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
const TIMEOUT_MIN: u64 = 1_800;
/// Nobody watches longer; further ahead there is no time to end at.
const TIMEOUT_MAX: u64 = 30 * 24 * 3_600;

/// Holding all objects against more requirements than this takes a while.
const TERMS_LIGHT: usize = 4;

pub enum WatchItem {
    /// One object of the state that the watch started from, or one that is not served as it is stored.
    Object(WatchEventKind, Arc<Stored>),
    Event(Event),
    Bookmark {
        revision: u64,
        is_initial_end: bool,
    },
}

/// A watch in progress. Ends with `None`, or with one error that tells the client to list again.
pub struct Watching {
    pub kind: Arc<dyn Kind>,
    pub warnings: Vec<String>,
    initial: VecDeque<Arc<Stored>>,
    /// The revision of the initial state, until its end was announced.
    initial_end: Option<u64>,
    subscription: Subscription,
    has_bookmarks: bool,
    bookmark_at: Instant,
    ends_at: Instant,
    cache: Arc<Cache>,
    sent: Arc<Counter>,
    is_over: bool,
}

enum Start {
    /// Events after this revision.
    After(u64),
    /// The state, then events; with the end of the state announced or not.
    State { is_announced: bool },
}

pub(super) async fn watch(core: &Arc<Core>, request: &Request) -> Result<Watching, ApiError> {
    let selection = select(request)?;
    let start = plan(core, request).await?;
    let kind = request.kind.clone();
    let weight = if selection.n_terms() > TERMS_LIGHT { usize::MAX } else { 0 };
    let opened = core.heavy.run(weight, || open(core, kind.as_ref(), selection, &start)).await;
    let (initial, initial_end, subscription) = opened?;
    let list = &request.call.list;
    let seconds = list
        .timeout_seconds
        .filter(|it| *it > 0)
        .unwrap_or_else(|| TIMEOUT_MIN + core.world.random.below(TIMEOUT_MIN));
    let ends_at = Instant::now() + Duration::from_secs(seconds.min(TIMEOUT_MAX));
    let mut watching = Watching {
        sent: core.metrics.watches.events(kind.as_ref()),
        kind,
        warnings: request.warnings.clone(),
        initial,
        initial_end: initial_end.filter(|_| list.allow_watch_bookmarks),
        subscription,
        has_bookmarks: list.allow_watch_bookmarks,
        bookmark_at: ends_at,
        ends_at,
        cache: core.cache.clone(),
        is_over: false,
    };
    watching.plan_bookmark();
    Ok(watching)
}

type Opened = (VecDeque<Arc<Stored>>, Option<u64>, Subscription);

fn open(
    core: &Core,
    kind: &dyn Kind,
    selection: Selection,
    start: &Start,
) -> Result<Opened, ApiError> {
    match start {
        Start::After(since) => {
            let subscription = core.cache.subscribe(kind, selection, *since).map_err(|it| {
                ApiError::expired(format!("too old resource version: {since} ({})", it.oldest))
            })?;
            Ok((VecDeque::new(), None, subscription))
        }
        Start::State { is_announced } => {
            let (objects, revision, subscription) =
                core.cache.snapshot_and_subscribe(kind, selection);
            Ok((objects.into(), is_announced.then_some(revision), subscription))
        }
    }
}

/// The table of resourceVersion, sendInitialEvents and resourceVersionMatch.
async fn plan(core: &Core, request: &Request) -> Result<Start, ApiError> {
    let list = &request.call.list;
    let version = list.resource_version.as_deref().unwrap_or_default();
    let wanted = list.resource_version_match.as_deref().unwrap_or_default();
    let mut errors = FieldErrors::new();
    let path = Path::new("resourceVersionMatch");
    match list.send_initial_events {
        None if !wanted.is_empty() => errors.forbidden(
            &path,
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        ),
        Some(_) if wanted.is_empty() => errors.forbidden(
            &path,
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ),
        Some(_) if wanted != "NotOlderThan" => {
            errors.not_supported(&path, wanted, &["NotOlderThan"]);
        }
        _ => {}
    }
    options_error(&errors)?;
    match (version, list.send_initial_events) {
        ("", sends) => {
            let current = core.cache.wait_current().await?;
            Ok(if sends == Some(false) {
                Start::After(current)
            } else {
                Start::State { is_announced: sends == Some(true) }
            })
        }
        ("0", Some(false)) => Ok(Start::After(core.cache.revision())),
        ("0", sends) => Ok(Start::State { is_announced: sends == Some(true) }),
        (version, Some(true)) => {
            core.cache.wait_for(parse_version(version)?).await?;
            Ok(Start::State { is_announced: true })
        }
        (version, _) => Ok(Start::After(parse_version(version)?)),
    }
}

impl Watching {
    fn plan_bookmark(&mut self) {
        if !self.has_bookmarks {
            return;
        }
        let now = Instant::now();
        let last = self.ends_at.checked_sub(BOOKMARK_BEFORE_END).unwrap_or(now);
        let next = now + BOOKMARK_EVERY;
        self.bookmark_at = if now < last && last < next { last } else { next };
    }

    /// What to send next; cancel-safe.
    pub async fn next(&mut self) -> Option<Result<WatchItem, ApiError>> {
        if self.is_over {
            return None;
        }
        if let Some(item) = self.next_ready() {
            return Some(Ok(item));
        }
        let wakes_at =
            if self.has_bookmarks { self.bookmark_at.min(self.ends_at) } else { self.ends_at };
        let event = tokio::select! {
            biased;
            event = self.subscription.queue.recv() => event,
            () = tokio::time::sleep_until(wakes_at) => {
                if Instant::now() >= self.ends_at {
                    self.is_over = true;
                    return None;
                }
                self.plan_bookmark();
                // Read before the queue: everything up to it has been queued.
                let revision = self.cache.revision().max(self.subscription.since);
                match self.subscription.queue.try_recv() {
                    Ok(event) => Some(event),
                    Err(_) => {
                        self.sent.increment();
                        let bookmark = WatchItem::Bookmark { revision, is_initial_end: false };
                        return Some(Ok(bookmark));
                    }
                }
            }
        };
        let Some(event) = event else {
            self.is_over = true;
            return self.subscription.is_cut_off().then(|| {
                Err(ApiError::expired("the watch was too slow and missed events; list again"))
            });
        };
        Some(Ok(self.item(event)))
    }

    /// What can be sent without waiting: lets a writer fill its buffer before it flushes.
    pub fn next_ready(&mut self) -> Option<WatchItem> {
        if let Some(object) = self.initial.pop_front() {
            self.sent.increment();
            let object = versions::served(self.kind.as_ref(), object);
            return Some(WatchItem::Object(WatchEventKind::Added, object));
        }
        if let Some(revision) = self.initial_end.take() {
            self.sent.increment();
            return Some(WatchItem::Bookmark { revision, is_initial_end: true });
        }
        if let Some(event) = self.subscription.backlog.pop_front() {
            return Some(self.item(event));
        }
        let event = self.subscription.queue.try_recv().ok()?;
        Some(self.item(event))
    }

    /// Events carry frames that all watchers share, unless the object has to be changed first.
    fn item(&self, event: Event) -> WatchItem {
        self.sent.increment();
        if !self.kind.is_custom() {
            return WatchItem::Event(event);
        }
        let object = versions::served(self.kind.as_ref(), event.object().clone());
        if Arc::ptr_eq(&object, event.object()) {
            return WatchItem::Event(event);
        }
        WatchItem::Object(event.kind, object)
    }
}
