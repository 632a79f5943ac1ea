//! What happened to a resource longer ago than the cache remembers, read from the store: as far back
//! as that does. Every object of it has to be read from disk and decoded, so it is for those alone
//! who ask for it.

use std::collections::VecDeque;
use std::sync::Arc;

use api::Kind;
use kvstore::{KeyRange, Revision, Watch, WatchRequest};

use super::change::{Change, Event};
use super::selection::Selection;
use super::{Cache, ROOT, locate};

/// Changes after a revision, until one that is present when it begins.
pub(crate) struct Past {
    feed: Box<dyn Watch>,
    cache: Arc<Cache>,
    selection: Selection,
    /// The end: from here on the cache knows.
    until: u64,
    /// Everything up to it was read.
    read: u64,
    /// Read and not taken yet; of one batch of the store at the most.
    events: VecDeque<Event>,
}

impl Cache {
    /// Begins after `since`.
    pub(crate) async fn past(
        self: &Arc<Self>,
        kind: Arc<dyn Kind>,
        selection: Selection,
        since: u64,
    ) -> Result<Past, kvstore::Error> {
        let until = self.revision();
        let prefix = format!("{ROOT}{}/", kind.registry_prefix());
        let range = KeyRange::prefix(prefix.as_bytes());
        let mut feed = self.store.watch(WatchRequest::new(range, Some(Revision(since)))).await?;
        feed.request_progress();
        let cache = self.clone();
        Ok(Past { feed, cache, selection, until, read: since, events: VecDeque::new() })
    }
}

impl Past {
    pub(crate) fn until(&self) -> u64 {
        self.until.max(self.read)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.events.is_empty() && self.read >= self.until
    }

    pub(crate) fn next(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Waits until there is something to take, or nothing will come any more. Cancel-safe.
    pub(crate) async fn read(&mut self) -> Result<(), kvstore::Error> {
        while self.events.is_empty() && self.read < self.until {
            let batch = self.feed.next().await?;
            let events = batch.events.iter().filter(|it| it.revision.0 <= self.until);
            self.events = events.filter_map(|it| self.event_of(it)).collect();
            self.read = batch.revision.0.min(self.until);
        }
        Ok(())
    }

    /// `None`: not for whoever watches, or it cannot be read, which is in the log.
    fn event_of(&self, event: &kvstore::Event) -> Option<Event> {
        let kinds = self.cache.registry.kinds();
        let (_, kind, path) = locate(&kinds, &event.key)?;
        let read = |entry: &Option<_>| {
            entry.as_ref().and_then(|it| self.cache.decode(kind.as_ref(), path, it))
        };
        let (object, previous) = (read(&event.value), read(&event.previous));
        if object.is_none() && previous.is_none() {
            return None;
        }
        Arc::new(Change::new(object, previous, event.revision.0)).seen_by(&self.selection)
    }
}
