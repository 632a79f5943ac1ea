//! The objects of one resource, what happened to them lately, and who is watching: each with a lock
//! that nobody holds for longer than it takes to put something in or to take a pointer out.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::Stored;
use tokio::sync::mpsc;

use super::change::{Change, Event};
use super::history::{History, TooOld};
use super::selection::Selection;
use super::tree::Tree;
use super::watchers::{Ticket, Watcher, Watchers};

/// A watcher that is this many events behind is let go; it resumes from the last one.
const QUEUE_MAX: usize = 1_000;

pub(crate) struct Collection {
    /// Taken after `audience` where both are held.
    contents: Mutex<Contents>,
    /// The feed alone offers; it does so after `contents` has the change, with no other lock held.
    audience: Mutex<Audience>,
}

struct Contents {
    objects: Tree,
    history: History,
    /// The revision of the last change of any object: `objects` is the state of that revision, as
    /// all changes of one revision are made under one lock.
    changed: u64,
}

#[derive(Default)]
struct Audience {
    watchers: Watchers,
    /// How often all watches were ended.
    n_ends: u64,
    /// Whether the last end was because the history was lost.
    is_history_lost: Arc<AtomicBool>,
}

/// The objects at one revision. Others go on changing.
pub(crate) struct State {
    pub(crate) objects: Tree,
    /// The revision of the last change.
    pub(crate) changed: u64,
    /// A watch that goes on from here must not outlive an end of all watches meanwhile.
    pub(crate) n_ends: u64,
}

/// The receiving end of a watch on one resource. Leaves the watchers when it is dropped.
pub struct Subscription {
    /// What happened between the requested revision and now. `None` when nothing is left of it.
    missed: Option<std::vec::IntoIter<Event>>,
    pub queue: mpsc::Receiver<Event>,
    is_history_lost: Arc<AtomicBool>,
    resource: Arc<Collection>,
    ticket: Ticket,
}

impl Subscription {
    /// The next event from before now; these come before those of the queue.
    pub fn next_missed(&mut self) -> Option<Event> {
        let event = self.missed.as_mut()?.next();
        if event.is_none() {
            self.missed = None;
        }
        event
    }

    /// Whether the queue ended because nobody knows what happened: there is nothing to resume from.
    pub fn is_history_lost(&self) -> bool {
        self.is_history_lost.load(Ordering::Relaxed)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.resource.audience().watchers.remove(&self.ticket);
    }
}

/// What an object is now, and what it was before.
pub(crate) type Difference = (Option<Arc<Stored>>, Option<Arc<Stored>>);

impl Collection {
    pub(crate) fn new(forgotten: u64) -> Self {
        let history = History::new(forgotten);
        let contents = Contents { objects: Tree::default(), history, changed: forgotten };
        Self { contents: Mutex::new(contents), audience: Mutex::default() }
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn len(&self) -> usize {
        self.contents().objects.len()
    }

    fn audience(&self) -> MutexGuard<'_, Audience> {
        self.audience.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, path: &str) -> Option<Arc<Stored>> {
        self.contents().objects.get(path).cloned()
    }

    pub(crate) fn state(&self) -> State {
        // First: an end after this is noticed, and one before it has nothing to do with what
        // follows.
        let n_ends = self.audience().n_ends;
        let contents = self.contents();
        State { objects: contents.objects.clone(), changed: contents.changed, n_ends }
    }

    /// All that one revision changed, at once. `offer` must follow.
    pub(crate) fn apply(
        &self,
        objects: Vec<(&str, Option<Arc<Stored>>)>,
        revision: u64,
    ) -> Vec<Arc<Change>> {
        let mut contents = self.contents();
        let mut changes = Vec::with_capacity(objects.len());
        for (path, object) in objects {
            let previous = match &object {
                Some(object) => contents.objects.insert(object.clone()),
                None => contents.objects.remove(path),
            };
            if object.is_none() && previous.is_none() {
                continue;
            }
            let change = Arc::new(Change::new(object, previous, revision));
            contents.changed = revision;
            contents.history.push(change.clone());
            changes.push(change);
        }
        changes
    }

    /// Tells those who watch.
    pub(crate) fn offer(&self, changes: &[Arc<Change>]) {
        let mut audience = self.audience();
        for change in changes {
            audience.watchers.offer(change);
        }
    }

    /// Takes over a state that was read anew; returns what is different: now, and before. Watchers
    /// cannot be told what happened in between, so they are let go.
    pub(crate) fn replace(&self, objects: Tree, revision: u64) -> Vec<Difference> {
        let old = {
            let mut contents = self.contents();
            contents.history = History::new(revision);
            contents.changed = revision;
            std::mem::replace(&mut contents.objects, objects.clone())
        };
        self.end(true);
        let path = |it: &Arc<Stored>| it.meta.key.to_string();
        let gone = old.range(None, "").filter(|it| objects.get(&path(it)).is_none());
        let gone = gone.map(|it| (None, Some(it.clone())));
        let new = objects.range(None, "").filter_map(|object| {
            let before = old.get(&path(object));
            let is_same = before.is_some_and(|it| Arc::ptr_eq(it, object));
            (!is_same).then(|| (Some(object.clone()), before.cloned()))
        });
        gone.chain(new).collect()
    }

    /// Objects as `read` has them now, where that is not how they are, and so in what happened
    /// lately. For the feed, which alone changes anything: it takes time.
    pub(super) fn reread(&self, read: impl Fn(&Arc<Stored>) -> Option<Arc<Stored>>) {
        let (mut objects, changes) = {
            let contents = self.contents();
            (contents.objects.clone(), contents.history.all())
        };
        let different: Vec<_> = objects.range(None, "").filter_map(&read).collect();
        for object in different {
            objects.insert(object);
        }
        let anew = |it: &Arc<Stored>| read(it).unwrap_or_else(|| it.clone());
        let changes = changes.iter().map(|it| {
            let states = (it.object.as_ref().map(anew), it.previous.as_ref().map(anew));
            Arc::new(Change::new(states.0, states.1, it.revision))
        });
        let changes = changes.collect();
        let mut contents = self.contents();
        contents.objects = objects;
        contents.history.exchange(changes);
    }

    /// Everything after `revision` is about to be remembered: used while loading, when there is no
    /// history yet.
    pub(crate) fn forget_through(&self, revision: u64) {
        self.contents().history.forget_through(revision);
    }

    pub(crate) fn remember(&self, change: Arc<Change>) {
        self.contents().history.push(change);
    }

    /// Events after `since`. Never misses or repeats one: what happened until the watcher was added
    /// is what it missed, and what it is offered later is from after that.
    pub(crate) fn subscribe(
        self: &Arc<Self>,
        selection: Selection,
        since: u64,
        n_ends: Option<u64>,
    ) -> Result<Subscription, TooOld> {
        let (sender, queue) = mpsc::channel(QUEUE_MAX);
        let (missed, is_history_lost, ticket) = {
            let mut audience = self.audience();
            let contents = self.contents();
            let missed = contents.history.after(since)?;
            // Another server may have told the client of more than this one knows yet: that is not
            // told again.
            let since = contents.changed.max(since);
            drop(contents);
            let watcher = Watcher { selection: selection.clone(), since, queue: sender };
            let ticket = audience.watchers.add(watcher);
            if n_ends.is_some_and(|it| it != audience.n_ends) {
                audience.watchers.remove(&ticket);
            }
            (missed, audience.is_history_lost.clone(), ticket)
        };
        let missed: Vec<_> = missed.iter().filter_map(|it| it.seen_by(&selection)).collect();
        let missed = Some(missed.into_iter());
        Ok(Subscription { missed, queue, is_history_lost, resource: self.clone(), ticket })
    }

    /// Ends every watch cleanly: the kind is no longer served, or the server stops.
    pub(crate) fn end_watches(&self) {
        self.end(false);
    }

    fn end(&self, is_history_lost: bool) {
        let mut audience = self.audience();
        audience.n_ends += 1;
        audience.is_history_lost.store(is_history_lost, Ordering::Relaxed);
        // Those who come later have an end of their own.
        audience.is_history_lost = Arc::default();
        audience.watchers.clear();
    }
}
