//! One kind's cache and its handlers: takes what the reflector sees, changes the cache, then tells the handlers.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api::Stored;
use apimachinery::ObjectKey;
use client::{WatchEvent, WatchEventKind};
use lifecycle::Latch;

use crate::fifo::{Delta, DeltaFifo, DeltaKind};
use crate::indexer::{Entry, Indexer};

/// Handlers run in order of registration, one event at a time, and must not wait: they put a key in a queue.
/// They may read any cache; they must not add handlers to the informer that calls them.
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
    /// Is set when the first list is delivered to all handlers, or when this is dropped: then nobody need wait.
    fn synced(&self) -> Latch;
}

pub(crate) type ReadFn<T> = fn(&Arc<Stored>) -> Result<Arc<T>, serde_json::Error>;

pub(crate) struct Shared<T> {
    pub(crate) indexer: Indexer<T>,
    read: ReadFn<T>,
    /// Held while one change goes into the cache and to the handlers, so that a handler that is added in between
    /// misses nothing and sees nothing twice.
    processor: Mutex<Processor<T>>,
    synced: Latch,
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        self.synced.set();
    }
}

struct Processor<T> {
    /// Empty whenever the lock is free.
    fifo: DeltaFifo<T>,
    /// In order of registration.
    handlers: Vec<Arc<dyn EventHandler<T>>>,
}

impl<T: Send + Sync + 'static> Shared<T> {
    pub(crate) fn new(read: ReadFn<T>) -> Self {
        Self {
            indexer: Indexer::default(),
            read,
            processor: Mutex::new(Processor { fifo: DeltaFifo::default(), handlers: Vec::new() }),
            synced: Latch::default(),
        }
    }

    pub(crate) fn has_synced(&self) -> bool {
        self.synced.is_set()
    }

    fn processor(&self) -> MutexGuard<'_, Processor<T>> {
        self.processor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add_handler(&self, handler: Arc<dyn EventHandler<T>>) {
        let mut processor = self.processor();
        for (_, entry) in self.indexer.entries() {
            handler.on_add(&entry.object, true);
        }
        processor.handlers.push(handler);
    }

    /// Gives one handler every object again, as an update of itself.
    pub(crate) fn resync(&self, handler: &Arc<dyn EventHandler<T>>) {
        let mut processor = self.processor();
        processor.fifo.resync(self.indexer.entries());
        while let Some((_, deltas)) = processor.fifo.pop() {
            for delta in deltas {
                handler.on_update(&delta.entry.object, &delta.entry.object);
            }
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

    fn deliver(&self, processor: &mut Processor<T>, is_initial: bool) {
        while let Some((key, deltas)) = processor.fifo.pop() {
            for delta in deltas {
                self.deliver_one(&processor.handlers, &key, delta, is_initial);
            }
        }
    }

    fn deliver_one(
        &self,
        handlers: &[Arc<dyn EventHandler<T>>],
        key: &ObjectKey,
        delta: Delta<T>,
        is_initial: bool,
    ) {
        let Delta { kind, entry } = delta;
        match (kind, self.indexer.entry(key)) {
            (DeltaKind::Sync, _) | (DeltaKind::Deleted, None) => {}
            (DeltaKind::Deleted, Some(_)) => {
                self.indexer.remove(key);
                handlers.iter().for_each(|it| it.on_delete(&entry.object));
            }
            (_, None) => {
                self.indexer.insert(key, entry.clone());
                handlers.iter().for_each(|it| it.on_add(&entry.object, is_initial));
            }
            (DeltaKind::Replaced, Some(old)) if old.version == entry.version => {}
            // A watch that was resumed may repeat what is known; the cache never goes back.
            (DeltaKind::Added | DeltaKind::Updated, Some(old)) if old.version >= entry.version => {}
            (DeltaKind::Added | DeltaKind::Updated | DeltaKind::Replaced, Some(old)) => {
                self.indexer.insert(key, entry.clone());
                handlers.iter().for_each(|it| it.on_update(&old.object, &entry.object));
            }
        }
    }
}

impl<T: Send + Sync + 'static> Sink for Shared<T> {
    fn replace(&self, items: &[Arc<Stored>]) {
        let items = items.iter().filter_map(|it| self.entry(it)).collect();
        let mut processor = self.processor();
        processor.fifo.replace(items, self.indexer.entries());
        self.deliver(&mut processor, !self.has_synced());
        self.synced.set();
    }

    fn apply(&self, event: &WatchEvent) {
        let kind = match event.kind {
            WatchEventKind::Added => DeltaKind::Added,
            WatchEventKind::Modified => DeltaKind::Updated,
            WatchEventKind::Deleted => DeltaKind::Deleted,
            WatchEventKind::Bookmark => return,
        };
        let Some((key, entry)) = self.entry(&event.object) else { return };
        let mut processor = self.processor();
        processor.fifo.push(&key, kind, entry);
        self.deliver(&mut processor, false);
    }

    fn synced(&self) -> Latch {
        self.synced.clone()
    }
}
