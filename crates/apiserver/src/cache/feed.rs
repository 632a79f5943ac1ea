//! How the cache follows the store: everything is read once, then one watch tells the rest.
//!
//! Promise: whatever happens to the watch, the state here never goes back. A broken one is resumed
//! where it ended; where the history does not reach back so far, everything is read again, and
//! watchers are told to list again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ::bytes::Bytes;
use kvstore::{KeyRange, KeyValue, RangeRequest, Revision, Watch, WatchRequest};
use lifecycle::Shutdown;

use super::change::Change;
use super::tree::Tree;
use super::{Cache, DELETED_NODES, MASTER_LEASES, RANGES, ROOT, locate, other_of};

/// How many revisions before the last write are read back at start.
const RECALL_MAX: u64 = 2_048;
/// Between two attempts to follow a store that cannot be followed.
const REOPEN_EVERY: Duration = Duration::from_secs(1);
const DEFINITIONS: &str = "apiextensions.k8s.io/customresourcedefinitions";

/// What was read.
struct Read {
    revision: Revision,
    /// The last write that something is left of. After a crash of the store its revision is far
    /// ahead of it.
    newest: Revision,
}

/// What stands in a key where the resource of an object does, with the slash.
fn resource_of(key: &[u8]) -> String {
    let path = key.strip_prefix(ROOT.as_bytes()).unwrap_or(key);
    let end = path.iter().position(|it| *it == b'/').map_or(path.len(), |it| it + 1);
    String::from_utf8_lossy(&path[..end]).into_owned()
}

fn everything() -> KeyRange {
    KeyRange::prefix(ROOT.as_bytes())
}

impl Cache {
    /// Reads everything; returns the watch that goes on from there.
    pub(crate) async fn load(&self) -> Result<Box<dyn Watch>, kvstore::Error> {
        let Read { revision, newest } = self.read_all().await?;
        let horizon = match self.recall(newest, revision).await {
            // Another server has compacted since: watches from before have to list again.
            Err(kvstore::Error::Compacted { .. }) => self.forget_through(revision),
            horizon => horizon?,
        };
        self.start_at(revision.0, horizon);
        self.open(revision).await
    }

    async fn open(&self, after: Revision) -> Result<Box<dyn Watch>, kvstore::Error> {
        // What was before is known here.
        let request =
            WatchRequest { previous: false, ..WatchRequest::new(everything(), Some(after)) };
        let feed = self.store.watch(request).await?;
        self.is_following.store(true, Ordering::Relaxed);
        Ok(feed)
    }

    /// Makes the state what the store has now.
    async fn read_all(&self) -> Result<Read, kvstore::Error> {
        let all = self.store.range(RangeRequest::latest(everything())).await?;
        let seen = Revision(self.revision());
        if all.revision < seen {
            return Err(kvstore::Error::Future { requested: seen, current: all.revision });
        }
        let newest = all.entries.iter().map(|it| it.mod_revision).max();
        let newest = newest.unwrap_or(all.revision);
        let is_definition = |key: &Bytes| {
            let path = key.strip_prefix(ROOT.as_bytes());
            path.is_some_and(|it| it.starts_with(DEFINITIONS.as_bytes()))
        };
        for entry in &all.entries {
            if let Some(key) = other_of(&entry.key) {
                self.tell_other(key, Some(entry));
            }
        }
        // Definitions first: they say what the other keys mean.
        let (first, rest): (Vec<_>, Vec<_>) =
            all.entries.into_iter().partition(|it| is_definition(&it.key));
        self.replace(&first, all.revision.0, |prefix| prefix == DEFINITIONS);
        self.replace(&rest, all.revision.0, |prefix| prefix != DEFINITIONS);
        Ok(Read { revision: all.revision, newest })
    }

    /// Takes over the entries of the resources that `is_meant`, and tells the observers what is
    /// different.
    fn replace(&self, entries: &[KeyValue], revision: u64, is_meant: impl Fn(&str) -> bool) {
        let kinds = self.registry.kinds();
        let mut objects = self.decode_all(entries);
        let mut changes = Vec::new();
        for prefix in objects.keys() {
            self.resource(prefix);
        }
        for (prefix, resource) in self.all_resources() {
            if is_meant(&prefix) {
                let objects = objects.remove(&prefix).unwrap_or_default();
                changes.push((prefix, resource.replace(objects, revision)));
            }
        }
        for (prefix, changes) in changes {
            let Some(kind) = kinds.stored_at(&prefix) else { continue };
            for (object, previous) in changes {
                let at = object.as_ref().map_or(revision, |it| it.meta.resource_version);
                self.tell(kind.as_ref(), &Change::new(object, previous, at));
            }
        }
    }

    /// By resource and path. What did not change since it was last read is not decoded again.
    fn decode_all(&self, entries: &[KeyValue]) -> BTreeMap<String, Tree> {
        let kinds = self.registry.kinds();
        let mut objects: BTreeMap<String, Tree> = BTreeMap::new();
        let mut unknown: BTreeMap<String, usize> = BTreeMap::new();
        for entry in entries {
            let Some((prefix, kind, path)) = locate(&kinds, &entry.key) else {
                *unknown.entry(resource_of(&entry.key)).or_default() += 1;
                continue;
            };
            let known = self.known(prefix).and_then(|it| it.get(path));
            let known = known.filter(|it| it.meta.resource_version == entry.mod_revision.0);
            let Some(object) = known.or_else(|| self.decode(kind.as_ref(), path, entry)) else {
                continue;
            };
            match objects.get_mut(prefix) {
                Some(objects) => {
                    objects.insert(object);
                }
                None => {
                    objects.insert(prefix.to_owned(), Tree::from_iter([object]));
                }
            }
        }
        for ours in [DELETED_NODES, MASTER_LEASES, RANGES] {
            unknown.remove(ours);
        }
        for (resource, n_keys) in unknown {
            tracing::warn!(resource, n_keys, "the store has keys of a kind that is not served");
        }
        objects
    }

    fn start_at(&self, revision: u64, horizon: u64) {
        self.horizon.store(horizon, Ordering::Relaxed);
        self.reached.advance(revision);
    }

    fn forget_through(&self, revision: Revision) -> u64 {
        // For those that are met while the past is recalled.
        self.horizon.store(revision.0, Ordering::Relaxed);
        for (_, resource) in self.all_resources() {
            resource.forget_through(revision.0);
        }
        revision.0
    }

    /// Reads the last changes back from the store, so that watches from before a restart go on
    /// without a relist. Returns the revision after which every change is known.
    async fn recall(&self, newest: Revision, now: Revision) -> Result<u64, kvstore::Error> {
        let since = Revision(newest.0.saturating_sub(RECALL_MAX)).max(self.store.oldest());
        self.forget_through(since);
        let mut reached = since;
        let mut feed = self.store.watch(WatchRequest::new(everything(), Some(since))).await?;
        feed.request_progress();
        while reached < now {
            let batch = feed.next().await?;
            for event in batch.events.iter().filter(|it| it.revision <= now) {
                self.recall_event(event);
            }
            reached = batch.revision;
        }
        Ok(since.0)
    }

    fn recall_event(&self, event: &kvstore::Event) {
        let kinds = self.registry.kinds();
        let Some((prefix, kind, path)) = locate(&kinds, &event.key) else { return };
        let read = |entry: &Option<KeyValue>| {
            entry.as_ref().and_then(|it| self.decode(kind.as_ref(), path, it))
        };
        let (object, previous) = (read(&event.value), read(&event.previous));
        if object.is_none() && previous.is_none() {
            return;
        }
        let change = Change::new(object, previous, event.revision.0);
        self.resource(prefix).remember(Arc::new(change));
    }

    /// Follows the store until shutdown.
    pub(crate) async fn run(self: Arc<Self>, feed: Box<dyn Watch>, shutdown: Shutdown) {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => {}
            () = self.keep_following(feed) => {}
        }
        self.end_watches();
    }

    /// Ends when the store is closed.
    async fn keep_following(&self, mut feed: Box<dyn Watch>) {
        loop {
            let mut err = self.follow(feed.as_mut()).await;
            self.is_following.store(false, Ordering::Relaxed);
            feed = loop {
                if matches!(err, kvstore::Error::Closed) {
                    tracing::error!("the store was closed");
                    return;
                }
                tracing::warn!(error = %stdx::error_chain(&err), "the store's watch broke");
                match self.reopen(&err).await {
                    Ok(feed) => break feed,
                    Err(again) => err = again,
                }
                tokio::time::sleep(REOPEN_EVERY).await;
            };
        }
    }

    async fn follow(&self, feed: &mut dyn Watch) -> kvstore::Error {
        loop {
            let batch = tokio::select! {
                biased;
                batch = feed.next() => batch,
                () = self.progress_wanted.notified() => {
                    feed.request_progress();
                    continue;
                }
            };
            match batch {
                Ok(batch) => {
                    for transaction in batch.events.chunk_by(|a, b| a.revision == b.revision) {
                        self.apply(transaction);
                    }
                    self.reached.advance(batch.revision.0);
                }
                Err(err) => return err,
            }
        }
    }

    async fn reopen(&self, broke: &kvstore::Error) -> Result<Box<dyn Watch>, kvstore::Error> {
        if !matches!(broke, kvstore::Error::Compacted { .. }) {
            return self.open(Revision(self.revision())).await;
        }
        let Read { revision, .. } = self.read_all().await?;
        self.start_at(revision.0, revision.0);
        self.open(revision).await
    }
}
