//! The objects of one resource, what happened to them lately, and who is watching.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api::Stored;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::change::{Change, Event};
use super::selection::Selection;

/// Events kept for watches that resume. Clients are promised 75 s.
const HISTORY_AGE: Duration = Duration::from_secs(300);
const HISTORY_MAX: usize = 16_384;
/// Of one resource. In a burst this is reached first: old versions of 10,000 pods would be 100 MiB.
const HISTORY_BYTES_MAX: usize = 32 << 20;
/// A watcher that is this many events behind is cut off; it resumes or lists again.
const QUEUE_MAX: usize = 1_000;

pub(crate) struct Resource {
    /// `namespace/name` or `name`, in byte order, as the store sorts them.
    objects: BTreeMap<String, Arc<Stored>>,
    /// Every change after `forgotten`, in order.
    history: VecDeque<(Instant, Arc<Change>)>,
    /// The sum of `size_of_change` over `history`.
    history_bytes: usize,
    /// The newest revision whose changes are no longer (or never were) in `history`.
    forgotten: u64,
    /// The revision of the last change of any object.
    changed: u64,
    watchers: BTreeMap<u64, Watcher>,
    next_watcher: u64,
}

/// What keeping a change costs: the version of the object that it brought, or took away.
fn size_of_change(change: &Change) -> usize {
    change.object.as_ref().or(change.previous.as_ref()).map_or(0, |it| it.bytes.len())
}

struct Watcher {
    selection: Selection,
    /// Another server may have told the client of more than this one knows yet: that is not told again.
    since: u64,
    queue: mpsc::Sender<Event>,
    is_cut_off: Arc<AtomicBool>,
}

/// The receiving end of a watch on one resource.
pub struct Subscription {
    /// What happened between the requested revision and now.
    pub backlog: VecDeque<Event>,
    /// The requested revision.
    pub since: u64,
    pub queue: mpsc::Receiver<Event>,
    is_cut_off: Arc<AtomicBool>,
}

impl Subscription {
    /// Whether the queue ended because this watcher was too slow.
    pub fn is_cut_off(&self) -> bool {
        self.is_cut_off.load(Ordering::Relaxed)
    }
}

/// What an object is now, and what it was before.
pub(crate) type Difference = (Option<Arc<Stored>>, Option<Arc<Stored>>);

/// The requested revision is older than the history.
#[derive(Debug)]
pub struct TooOld {
    pub oldest: u64,
}

impl Resource {
    pub(crate) fn new(forgotten: u64) -> Self {
        Self {
            objects: BTreeMap::new(),
            history: VecDeque::new(),
            history_bytes: 0,
            forgotten,
            changed: forgotten,
            watchers: BTreeMap::new(),
            next_watcher: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }

    pub(crate) fn get(&self, path: &str) -> Option<&Arc<Stored>> {
        self.objects.get(path)
    }

    pub(crate) fn changed(&self) -> u64 {
        self.changed
    }

    /// Objects whose path is in `from..`, inside one namespace if given, in order.
    pub(crate) fn range<'a>(
        &'a self,
        namespace: Option<&str>,
        from: &str,
    ) -> impl Iterator<Item = (&'a String, &'a Arc<Stored>)> {
        let prefix = namespace.map(|it| format!("{it}/")).unwrap_or_default();
        let start = if from > prefix.as_str() { from.to_owned() } else { prefix.clone() };
        self.objects.range(start..).take_while(move |(path, _)| path.starts_with(&prefix))
    }

    pub(crate) fn apply(
        &mut self,
        path: &str,
        object: Option<Arc<Stored>>,
        revision: u64,
    ) -> Option<Arc<Change>> {
        let previous = match &object {
            Some(object) => self.objects.insert(path.to_owned(), object.clone()),
            None => self.objects.remove(path),
        };
        if object.is_none() && previous.is_none() {
            return None;
        }
        let change = Arc::new(Change::new(object, previous, revision));
        self.changed = revision;
        self.remember(change.clone());
        self.watchers.retain(|_, watcher| watcher.offer(&change));
        Some(change)
    }

    /// Takes over a state that was read anew; returns what is different: now, and before. Watchers cannot be told what
    /// happened in between, so they are cut off.
    pub(crate) fn replace(
        &mut self,
        objects: BTreeMap<String, Arc<Stored>>,
        revision: u64,
    ) -> Vec<Difference> {
        for watcher in std::mem::take(&mut self.watchers).into_values() {
            watcher.is_cut_off.store(true, Ordering::Relaxed);
        }
        self.history.clear();
        self.history_bytes = 0;
        self.forgotten = revision;
        self.changed = revision;
        let old = std::mem::replace(&mut self.objects, objects);
        let gone = old.iter().filter(|(path, _)| !self.objects.contains_key(*path));
        let gone = gone.map(|(_, it)| (None, Some(it.clone())));
        let new = self.objects.iter().filter_map(|(path, object)| {
            let before = old.get(path);
            let is_same = before.is_some_and(|it| Arc::ptr_eq(it, object));
            (!is_same).then(|| (Some(object.clone()), before.cloned()))
        });
        gone.chain(new).collect()
    }

    /// Everything after `revision` is about to be remembered: used while loading, when there is no history yet.
    pub(crate) fn forget_through(&mut self, revision: u64) {
        self.forgotten = revision;
    }

    pub(crate) fn remember(&mut self, change: Arc<Change>) {
        let now = Instant::now();
        self.history_bytes += size_of_change(&change);
        self.history.push_back((now, change));
        while self.history.len() > HISTORY_MAX
            || self.history_bytes > HISTORY_BYTES_MAX
            || self.history.front().is_some_and(|(at, _)| now - *at > HISTORY_AGE)
        {
            let Some((_, dropped)) = self.history.pop_front() else { break };
            self.forgotten = dropped.revision;
            self.history_bytes -= size_of_change(&dropped);
        }
    }

    /// Events after `since`. Never misses or repeats one, as it happens under the cache's lock.
    pub(crate) fn subscribe(
        &mut self,
        selection: Selection,
        since: u64,
    ) -> Result<Subscription, TooOld> {
        if since < self.forgotten {
            return Err(TooOld { oldest: self.forgotten });
        }
        let first = self.history.partition_point(|(_, it)| it.revision <= since);
        let backlog =
            self.history.range(first..).filter_map(|(_, it)| it.seen_by(&selection)).collect();
        let (queue, receiver) = mpsc::channel(QUEUE_MAX);
        let is_cut_off = Arc::new(AtomicBool::new(false));
        self.watchers.retain(|_, it| !it.queue.is_closed());
        self.watchers.insert(
            self.next_watcher,
            Watcher { selection, since, queue, is_cut_off: is_cut_off.clone() },
        );
        self.next_watcher += 1;
        Ok(Subscription { backlog, since, queue: receiver, is_cut_off })
    }

    /// Ends every watch cleanly: the kind is no longer served, or the server stops.
    pub(crate) fn end_watches(&mut self) {
        self.watchers.clear();
    }
}

impl Watcher {
    /// Whether the watcher stays.
    fn offer(&self, change: &Arc<Change>) -> bool {
        let event = change.seen_by(&self.selection).filter(|_| change.revision > self.since);
        let Some(event) = event else {
            return !self.queue.is_closed();
        };
        match self.queue.try_send(event) {
            Ok(()) => true,
            Err(mpsc::error::TrySendError::Full(_)) => {
                self.is_cut_off.store(true, Ordering::Relaxed);
                false
            }
            Err(mpsc::error::TrySendError::Closed(_)) => false,
        }
    }
}
