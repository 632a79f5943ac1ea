//! WATCH: first the state if it was asked for, then every change, with bookmarks in between.

use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use api::{Kind, Stored};
use apimachinery::{ApiError, FieldErrors, Path};
use client::{ListOptions, WatchEventKind};
use telemetry::Counter;
use tokio::time::{Instant, Sleep};

use super::core::Core;
use super::list::{options_error, select};
use super::read::parse_version;
use super::{Request, converted};
use crate::cache::{Cache, Event, Past, Seen, Selected, Selection, Subscription, TooOld, refusal};
use crate::registry::Family;

const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// A last bookmark this long before the end lets the client resume without a replay.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
const TIMEOUT_MIN: u64 = 1_800;
/// Nobody watches longer; further ahead there is no time to end at.
const TIMEOUT_MAX: u64 = 30 * 24 * 3_600;

/// Holding all objects against more requirements than this takes a while.
const TERMS_LIGHT: usize = 4;

pub enum WatchItem {
    /// One object of the state that the watch started from.
    Object(WatchEventKind, Arc<Stored>),
    Event(Arc<Seen>),
    Bookmark {
        revision: u64,
        is_initial_end: bool,
    },
}

/// A watch in progress. Ends with `None`, from where the client resumes, or with one error that
/// tells it to list again.
pub struct Watching {
    pub kind: Arc<dyn Kind>,
    family: Arc<Family>,
    /// Whether objects are sent as they are stored, which is how nearly all are.
    is_stored_form: bool,
    /// What the cache tells of.
    selection: Selection,
    /// What is sent of that, where objects have to be converted before they can be selected.
    by_content: Option<Selection>,
    source: Source,
    /// Came, and is not sent yet: a conversion may have to be waited for.
    pending: Option<Event>,
    /// What the client knows at least: it asked for what comes after.
    since: u64,
    has_bookmarks: bool,
    bookmark_at: Instant,
    ends_at: Instant,
    /// One for all waits, which most events end before it does.
    timer: Pin<Box<Sleep>>,
    cache: Arc<Cache>,
    sent: Arc<Counter>,
    /// Noticed where it could not be told; the next thing that is.
    failure: Option<ApiError>,
    is_over: bool,
}

/// What to send, or the end; or that something came which is not sent.
type Step = ControlFlow<Option<Result<WatchItem, ApiError>>>;

/// Where the next item comes from.
enum Source {
    Initial(Initial),
    /// What is older than the cache remembers.
    Past(Past),
    Events(Subscription),
    /// Why the watch has nothing to start from: told in the stream, as upstream tells whatever is
    /// found out after the request was understood.
    Nothing(Option<ApiError>),
}

/// The state that the watch starts from, while it is sent.
struct Initial {
    objects: std::vec::IntoIter<Arc<Stored>>,
    /// Whether they are in the version of the watch already.
    is_served: bool,
    from: Selected,
    is_announced: bool,
}

enum Start {
    /// Events after this revision.
    After(u64),
    /// The state, then events; with the end of the state announced or not.
    State { is_announced: bool },
}

pub(super) async fn watch(core: &Arc<Core>, request: &Request) -> Result<Watching, ApiError> {
    let (selection, by_content) = selections(request)?;
    let start = plan(core, request).await?;
    let kind = request.kind.clone();
    let list = &request.call.list;
    let weight = if selection.n_terms() > TERMS_LIGHT { usize::MAX } else { 0 };
    let open = || match &start {
        Ok(start) => {
            open(&core.cache, kind.as_ref(), &selection, start, list.allow_watch_bookmarks)
        }
        Err(error) => Source::Nothing(Some(error.clone())),
    };
    let mut source = match &start {
        Ok(Start::After(since)) if list.is_beyond_horizon => {
            past(core, &kind, &selection, *since).await
        }
        _ => core.heavy.run(weight, open).await,
    };
    let family = request.family.clone();
    if let Source::Initial(initial) = &mut source
        && family.is_slow()
    {
        // Many at once: one by one would take that many times as long.
        let objects: Vec<_> = std::mem::take(&mut initial.objects).collect();
        let all = (&objects[..], by_content.as_ref().unwrap_or(&selection));
        let found = converted::find(core, request, all, usize::MAX).await?;
        initial.objects = found.items.into_iter();
        initial.is_served = true;
    }
    let since = match start {
        Ok(Start::After(since)) => since,
        Ok(Start::State { .. }) | Err(_) => 0,
    };
    let seconds = list
        .timeout_seconds
        .filter(|it| *it > 0)
        .unwrap_or_else(|| TIMEOUT_MIN + core.world.random.below(TIMEOUT_MIN));
    let ends_at = Instant::now() + Duration::from_secs(seconds.min(TIMEOUT_MAX));
    let mut watching = Watching {
        sent: core.metrics.watches.events(kind.as_ref()),
        is_stored_form: family.is_stored_as(kind.as_ref()),
        family,
        pending: None,
        kind,
        selection,
        by_content,
        source,
        since,
        has_bookmarks: list.allow_watch_bookmarks,
        bookmark_at: ends_at,
        ends_at,
        timer: Box::pin(tokio::time::sleep_until(ends_at)),
        cache: core.cache.clone(),
        failure: None,
        is_over: false,
    };
    watching.plan_bookmark();
    Ok(watching)
}

/// What the cache is asked for, and what of that is sent if the cache cannot tell.
fn selections(request: &Request) -> Result<(Selection, Option<Selection>), ApiError> {
    let selection = select(request)?;
    Ok(match converted::is_first(request, &selection) {
        true => (selection.by_place(), Some(selection)),
        false => (selection, None),
    })
}

fn open(
    cache: &Cache,
    kind: &dyn Kind,
    selection: &Selection,
    start: &Start,
    has_bookmarks: bool,
) -> Source {
    match start {
        Start::After(since) => match cache.subscribe(kind, selection.clone(), *since) {
            Ok(subscription) => Source::Events(subscription),
            Err(why) => Source::Nothing(Some(too_old(*since, &why))),
        },
        Start::State { is_announced } => {
            let mut from = cache.select(kind, selection);
            let objects = std::mem::take(&mut from.objects).into_iter();
            let is_announced = *is_announced && has_bookmarks;
            Source::Initial(Initial { objects, is_served: false, from, is_announced })
        }
    }
}

/// What the store remembers, then what the cache does.
async fn past(core: &Core, kind: &Arc<dyn Kind>, selection: &Selection, since: u64) -> Source {
    match core.cache.past(kind.clone(), selection.clone(), since).await {
        Ok(past) => Source::Past(past),
        Err(err) => Source::Nothing(Some(not_told(since, &err))),
    }
}

fn not_told(since: u64, err: &kvstore::Error) -> ApiError {
    match err {
        kvstore::Error::Compacted { oldest, .. } => too_old(since, &TooOld { oldest: oldest.0 }),
        err => refusal(err),
    }
}

fn too_old(since: u64, why: &TooOld) -> ApiError {
    ApiError::expired(format!("too old resource version: {since} ({})", why.oldest))
}

/// The table of resourceVersion, sendInitialEvents and resourceVersionMatch. What is wrong with the
/// request is the outer error, and what cannot be done about it the inner one.
async fn plan(core: &Core, request: &Request) -> Result<Result<Start, ApiError>, ApiError> {
    let list = &request.call.list;
    validate_options(list)?;
    let version = list.resource_version.as_deref().unwrap_or_default();
    // Who asks for no version is sent the state, and told of its end like everybody.
    let sends = list.send_initial_events.or_else(|| matches!(version, "" | "0").then_some(true));
    let announced = Start::State { is_announced: true };
    Ok(match (version, sends) {
        ("", sends) => match core.cache.wait_current().await {
            Ok(current) if sends == Some(false) => Ok(Start::After(current)),
            current => current.map(|_| announced),
        },
        ("0", Some(false)) => Ok(Start::After(core.cache.revision())),
        ("0", _) => Ok(announced),
        (version, Some(true)) => {
            let version = parse_version(version)?;
            core.cache.wait_for(version).await.map(|()| announced)
        }
        (version, _) => Ok(Start::After(parse_version(version)?)),
    })
}

fn validate_options(list: &ListOptions) -> Result<(), ApiError> {
    let wanted = list.resource_version_match.as_deref().unwrap_or_default();
    let mut errors = FieldErrors::new();
    let path = Path::new("resourceVersionMatch");
    if list.send_initial_events.is_some() && wanted != "NotOlderThan" {
        let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        errors.forbidden(&path, why);
    }
    if !wanted.is_empty() {
        if list.send_initial_events.is_none() {
            let why =
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            errors.forbidden(&path, why);
        }
        if wanted != "NotOlderThan" {
            errors.not_supported(&path, wanted, &["NotOlderThan"]);
        }
        if list.continue_token.as_deref().is_some_and(|it| !it.is_empty()) {
            errors.forbidden(&path, "resourceVersionMatch is forbidden when continue is provided");
        }
    }
    options_error(&errors)
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
        let item = self.wait().await;
        if let Some(Ok(_)) = &item {
            self.sent.increment();
        }
        item
    }

    async fn wait(&mut self) -> Option<Result<WatchItem, ApiError>> {
        loop {
            if let ControlFlow::Break(item) = self.step().await {
                return item;
            }
        }
    }

    async fn step(&mut self) -> Step {
        self.read_past().await?;
        if let Source::Nothing(why) = &mut self.source {
            self.is_over = true;
            return ControlFlow::Break(why.take().map(Err));
        }
        if self.is_over {
            return ControlFlow::Break(self.failure.take().map(Err));
        }
        match self.take_ready() {
            Ok(None) => {}
            Ok(Some(item)) => return ControlFlow::Break(Some(Ok(item))),
            Err(err) => {
                self.is_over = true;
                return ControlFlow::Break(Some(Err(err)));
            }
        }
        if self.pending.is_some() {
            return self.wait_for_pending().await;
        }
        let wakes_at =
            if self.has_bookmarks { self.bookmark_at.min(self.ends_at) } else { self.ends_at };
        if self.timer.deadline() != wakes_at {
            self.timer.as_mut().reset(wakes_at);
        }
        let event = match &mut self.source {
            Source::Events(subscription) => tokio::select! {
                biased;
                event = subscription.queue.recv() => event,
                () = self.timer.as_mut() => return ControlFlow::Break(self.at_deadline().await),
            },
            // All that was read of it concerned nobody; or nothing is left.
            Source::Past(_) => return ControlFlow::Continue(()),
            Source::Initial(_) | Source::Nothing(_) => return ControlFlow::Break(None),
        };
        if event.is_none() {
            return ControlFlow::Break(self.end());
        }
        self.pending = event;
        ControlFlow::Continue(())
    }

    async fn read_past(&mut self) -> Step {
        let Source::Past(past) = &mut self.source else { return ControlFlow::Continue(()) };
        let wakes_at = self.ends_at;
        self.timer.as_mut().reset(wakes_at);
        tokio::select! {
            biased;
            read = past.read() => match read {
                Ok(()) if past.is_over() => self.source = self.present(),
                Ok(()) => {}
                Err(err) => self.source = Source::Nothing(Some(not_told(self.since, &err))),
            },
            () = self.timer.as_mut() => return ControlFlow::Break(self.at_deadline().await),
        }
        ControlFlow::Continue(())
    }

    /// Nothing more will come.
    fn end(&mut self) -> Option<Result<WatchItem, ApiError>> {
        self.is_over = true;
        let Source::Events(subscription) = &self.source else { return None };
        let why = "the history of the resource was lost; list again";
        subscription.is_history_lost().then(|| Err(ApiError::expired(why)))
    }

    /// What goes on where the past ended.
    fn present(&self) -> Source {
        let Source::Past(past) = &self.source else { return Source::Nothing(None) };
        let until = past.until();
        match self.cache.subscribe(self.kind.as_ref(), self.selection.clone(), until) {
            Ok(subscription) => Source::Events(subscription),
            Err(why) => Source::Nothing(Some(too_old(until, &why))),
        }
    }

    /// Dropped while it waits, what came is still pending.
    async fn wait_for_pending(&mut self) -> Step {
        let Some(event) = &self.pending else { return ControlFlow::Continue(()) };
        let to = (&self.kind, self.family.as_ref());
        let seen = match &self.by_content {
            None => event.seen_as(to).await.map(Some),
            Some(selection) => event.change.selected_as(selection, to).await,
        };
        match self.sent_as(seen) {
            Ok(None) => ControlFlow::Continue(()),
            sent => ControlFlow::Break(sent.transpose()),
        }
    }

    /// What was pending goes out, if it is sent at all; a conversion that failed is the end of the
    /// watch.
    fn sent_as(
        &mut self,
        seen: Result<Option<Arc<Seen>>, ApiError>,
    ) -> Result<Option<WatchItem>, ApiError> {
        self.pending = None;
        self.is_over = seen.is_err();
        seen.map(|it| it.map(WatchItem::Event))
    }

    /// The end, or a bookmark.
    async fn at_deadline(&mut self) -> Option<Result<WatchItem, ApiError>> {
        // The past has no bookmarks: its end is near.
        if Instant::now() >= self.ends_at || matches!(self.source, Source::Past(_)) {
            self.is_over = true;
            return None;
        }
        self.plan_bookmark();
        // Read before the queue: everything up to it has been queued.
        let revision = self.cache.revision().max(self.since);
        // A bookmark says that everything before it was sent.
        loop {
            if let Some(event) = self.ready() {
                return Some(Ok(event));
            }
            if self.is_over {
                return self.failure.take().map(Err);
            }
            if self.pending.is_none() {
                return Some(Ok(WatchItem::Bookmark { revision, is_initial_end: false }));
            }
            if let ControlFlow::Break(item) = self.wait_for_pending().await {
                return item;
            }
        }
    }

    /// What can be sent without waiting: lets a writer fill its buffer before it flushes.
    pub fn next_ready(&mut self) -> Option<WatchItem> {
        self.ready().inspect(|_| self.sent.increment())
    }

    fn ready(&mut self) -> Option<WatchItem> {
        match &mut self.source {
            // What may fail is left to `next`.
            Source::Nothing(_) => None,
            Source::Initial(initial) if initial.objects.len() == 0 => None,
            _ if self.is_over => None,
            _ => self.take_ready().unwrap_or_else(|err| {
                self.is_over = true;
                self.failure = Some(err);
                None
            }),
        }
    }

    fn take_ready(&mut self) -> Result<Option<WatchItem>, ApiError> {
        if let Source::Initial(initial) = &mut self.source {
            if let Some(object) = initial.objects.next() {
                let served = match self.is_stored_form || initial.is_served {
                    true => None,
                    false => self.family.serve_now(self.kind.as_ref(), &object).transpose()?,
                };
                let object = served.unwrap_or(object);
                return Ok(Some(WatchItem::Object(WatchEventKind::Added, object)));
            }
            let revision = initial.from.revision;
            let is_announced = initial.is_announced;
            // Only now: until here the client may take its time, and what happens meanwhile is in
            // the history.
            let events =
                self.cache.go_on(self.kind.as_ref(), self.selection.clone(), &initial.from);
            self.source = Source::Events(events.map_err(|it| too_old(revision, &it))?);
            if is_announced {
                return Ok(Some(WatchItem::Bookmark { revision, is_initial_end: true }));
            }
        }
        loop {
            if self.pending.is_none() {
                self.pending = self.take_event();
            }
            let Some(event) = &self.pending else { return Ok(None) };
            let Some(seen) = self.seen_now(event) else { return Ok(None) };
            if let Some(item) = self.sent_as(seen)? {
                return Ok(Some(item));
            }
        }
    }

    /// What came and was not looked at yet.
    fn take_event(&mut self) -> Option<Event> {
        match &mut self.source {
            Source::Past(past) => past.next(),
            Source::Events(events) => events.next_missed().or_else(|| events.queue.try_recv().ok()),
            Source::Initial(_) | Source::Nothing(_) => None,
        }
    }

    /// What is sent of an event, if anything: the object and its frames are shared by all watchers
    /// of the kind. Nothing if they have to be waited for.
    fn seen_now(&self, event: &Event) -> Option<Result<Option<Arc<Seen>>, ApiError>> {
        if self.is_stored_form {
            return Some(Ok(Some(event.seen().clone())));
        }
        let to = (&self.kind, self.family.as_ref());
        match &self.by_content {
            None => event.seen_now(to).map(|it| it.map(Some)),
            Some(selection) => event.change.selected_now(selection, to),
        }
    }
}
