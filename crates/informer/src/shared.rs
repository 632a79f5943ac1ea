//! One kind's cache and its handlers: takes what the reflector sees, changes the cache, then tells
//! the handlers.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::Stored;
use apimachinery::ObjectKey;
use client::{WatchEvent, WatchEventKind};
use lifecycle::Latch;

use crate::indexer::{Entry, Indexer};

/// Handlers run in order of registration, one event at a time, and must not wait: they put a key in
/// a queue. They may read any cache; they must not add handlers to the informer that calls them.
pub trait EventHandler<T>: Send + Sync {
    /// `is_initial`: the object was there when the handler started to follow.
    fn on_add(&self, object: &Arc<T>, is_initial: bool);
    fn on_update(&self, old: &Arc<T>, new: &Arc<T>);
    /// `last` is the last known state.
    fn on_delete(&self, last: &Arc<T>);
}

/// Where a reflector puts what it sees.
pub(crate) trait Sink: Send + Sync {
    fn replace(&self, items: &[Arc<Stored>]);
    fn apply(&self, event: &WatchEvent);
    /// Is set when the first list is delivered to all handlers, or when this is dropped: then
    /// nobody need wait.
    fn synced(&self) -> Latch;
}

pub(crate) type ReadFn<T> = fn(&Arc<Stored>) -> Result<Arc<T>, serde_json::Error>;

pub(crate) struct Shared<T> {
    pub(crate) indexer: Indexer<T>,
    read: ReadFn<T>,
    /// Held while a change, or a whole list, goes into the cache and to the handlers, so that a
    /// handler that is added in between misses nothing and sees nothing twice. There is no queue:
    /// handlers do not wait.
    handlers: Mutex<Handlers<T>>,
    synced: Latch,
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        self.synced.set();
    }
}

/// In order of registration.
type Handlers<T> = Vec<Arc<dyn EventHandler<T>>>;

impl<T: Send + Sync + 'static> Shared<T> {
    pub(crate) fn new(read: ReadFn<T>) -> Self {
        Self {
            indexer: Indexer::default(),
            read,
            handlers: Mutex::default(),
            synced: Latch::default(),
        }
    }

    pub(crate) fn has_synced(&self) -> bool {
        self.synced.is_set()
    }

    fn handlers(&self) -> MutexGuard<'_, Handlers<T>> {
        self.handlers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add_handler(&self, handler: Arc<dyn EventHandler<T>>) {
        let mut handlers = self.handlers();
        for (_, entry) in self.indexer.entries() {
            handler.on_add(&entry.object, true);
        }
        handlers.push(handler);
    }

    /// Gives one handler every object again, as an update of itself.
    pub(crate) fn resync(&self, handler: &Arc<dyn EventHandler<T>>) {
        let _held = self.handlers();
        for (_, entry) in self.indexer.entries() {
            handler.on_update(&entry.object, &entry.object);
        }
    }

    /// An object that cannot be decoded is left out: nobody could work with it.
    fn entry(&self, stored: &Arc<Stored>) -> Option<(ObjectKey, Entry<T>)> {
        let (key, version) = (stored.meta.key.clone(), stored.meta.resource_version);
        match (self.read)(stored) {
            Ok(object) => Some((key, Entry { version, object })),
            Err(err) => {
                tracing::error!(%key, version, error = %err, "object in the API cannot be decoded");
                None
            }
        }
    }

    fn put(
        &self,
        handlers: &[Arc<dyn EventHandler<T>>],
        key: &ObjectKey,
        entry: Entry<T>,
        is_initial: bool,
    ) {
        let old = self.indexer.entry(key);
        self.indexer.insert(key, entry.clone());
        match old {
            None => handlers.iter().for_each(|it| it.on_add(&entry.object, is_initial)),
            Some(old) => handlers.iter().for_each(|it| it.on_update(&old.object, &entry.object)),
        }
    }

    /// `last` is the last state that is known.
    fn delete(&self, handlers: &[Arc<dyn EventHandler<T>>], key: &ObjectKey, last: &Arc<T>) {
        self.indexer.remove(key);
        handlers.iter().for_each(|it| it.on_delete(last));
    }

    fn version_of(&self, key: &ObjectKey) -> Option<u64> {
        self.indexer.entry(key).map(|it| it.version)
    }
}

impl<T: Send + Sync + 'static> Sink for Shared<T> {
    /// A whole list: what is different is delivered, and what is known besides is deleted in its
    /// last known state.
    fn replace(&self, items: &[Arc<Stored>]) {
        let items: Vec<_> = items.iter().filter_map(|it| self.entry(it)).collect();
        let handlers = self.handlers();
        let is_initial = !self.has_synced();
        let known = self.indexer.entries();
        let listed: BTreeSet<ObjectKey> = items.iter().map(|(key, _)| key.clone()).collect();
        for (key, entry) in items {
            if self.version_of(&key) != Some(entry.version) {
                self.put(&handlers, &key, entry, is_initial);
            }
        }
        for (key, entry) in known.iter().filter(|(key, _)| !listed.contains(&**key)) {
            self.delete(&handlers, key, &entry.object);
        }
        self.synced.set();
    }

    fn apply(&self, event: &WatchEvent) {
        if event.kind == WatchEventKind::Bookmark {
            return;
        }
        let Some((key, entry)) = self.entry(&event.object) else { return };
        let handlers = self.handlers();
        match (event.kind, self.version_of(&key)) {
            (WatchEventKind::Deleted, None) => {}
            (WatchEventKind::Deleted, Some(_)) => self.delete(&handlers, &key, &entry.object),
            // A watch that was resumed may repeat what is known; the cache never goes back.
            (_, Some(known)) if known >= entry.version => {}
            _ => self.put(&handlers, &key, entry, false),
        }
    }

    fn synced(&self) -> Latch {
        self.synced.clone()
    }
}
