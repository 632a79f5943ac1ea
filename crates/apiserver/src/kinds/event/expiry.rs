//! Events live one hour from when they were last written, as their own timestamps say: a restart
//! does not prolong them. One timer waits for the oldest; nothing is scanned.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api::Resource as _;
use api::core::Event;
use apimachinery::ObjectKey;
use jiff::Timestamp;
use kvstore::{Compare, Op, Revision, Txn};
use lifecycle::Shutdown;
use stdx::SharedClock;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::cache::{Change, ObjectPath, store_key};
use crate::pipeline::Core;

/// Expired events that go before the next look at the clock.
const BATCH_MAX: usize = 100;

pub(super) struct Expiry {
    ttl: Duration,
    clock: SharedClock,
    due: Mutex<Due>,
    changed: Notify,
}

/// Both maps hold the same events: an event's life starts anew with each write.
#[derive(Default)]
struct Due {
    by_time: BTreeMap<Instant, BTreeSet<ObjectKey>>,
    by_key: HashMap<ObjectKey, Instant>,
}

impl Due {
    fn remove(&mut self, key: &ObjectKey) {
        let Some(at) = self.by_key.remove(key) else { return };
        if let Some(keys) = self.by_time.get_mut(&at) {
            keys.remove(key);
            if keys.is_empty() {
                self.by_time.remove(&at);
            }
        }
    }
}

impl Expiry {
    pub(super) fn new(ttl: Duration, clock: SharedClock) -> Self {
        Self { ttl, clock, due: Mutex::default(), changed: Notify::new() }
    }

    /// How long the event has still to live.
    fn rest(&self, bytes: &[u8]) -> Duration {
        let now = self.clock.now();
        let written = Event::decode(bytes).ok().and_then(|it| written_at(&it)).unwrap_or(now);
        let age = now.duration_since(written).try_into().unwrap_or(Duration::ZERO);
        self.ttl.saturating_sub(age)
    }

    fn due(&self) -> MutexGuard<'_, Due> {
        self.due.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) async fn run(self: Arc<Self>, core: Arc<Core>, shutdown: Shutdown) {
        loop {
            let first = self.due().by_time.keys().next().copied();
            let timer = async {
                match first {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                () = self.changed.notified() => {}
                () = timer => self.remove_expired(&core).await,
            }
        }
    }

    async fn remove_expired(&self, core: &Core) {
        let now = Instant::now();
        let keys: Vec<ObjectKey> = {
            let due = self.due();
            due.by_time
                .range(..=now)
                .flat_map(|(_, keys)| keys.iter().cloned())
                .take(BATCH_MAX)
                .collect()
        };
        let kind = core.kind_of::<Event>();
        for key in keys {
            self.due().remove(&key);
            let path = ObjectPath::of(kind.as_ref(), &key.namespace, &key.name);
            let Ok(path) = path else { continue };
            let Some(stored) = core.cache.get(kind.as_ref(), &path) else { continue };
            let store_key = store_key(kind.as_ref(), &path);
            let at = Revision(stored.meta.resource_version);
            let compare = Compare::mod_revision(&store_key, at);
            let txn = Txn::when(vec![compare], vec![Op::delete(&store_key)]);
            let txn = txn.relaxed().without_previous_values();
            if let Err(err) = core.cache.store().txn(txn).await {
                tracing::warn!(error = %stdx::error_chain(&err), "an expired event could not be removed");
            }
        }
    }

    pub(super) fn follow(&self, change: &Change) {
        let key = &change.latest().meta.key;
        let mut due = self.due();
        due.remove(key);
        if let Some(object) = &change.object {
            let at = Instant::now() + self.rest(&object.bytes);
            let is_first = due.by_time.keys().next().is_none_or(|first| at < *first);
            due.by_key.insert(key.clone(), at);
            due.by_time.entry(at).or_default().insert(key.clone());
            drop(due);
            if is_first {
                self.changed.notify_one();
            }
        }
    }
}

/// The latest of what the event says of its making.
fn written_at(event: &Event) -> Option<Timestamp> {
    let observed = event.series.as_ref().and_then(|it| it.last_observed_time.as_ref());
    let written = event.metadata.managed_fields.iter().flatten().filter_map(|it| it.time.as_ref());
    let times = [&event.metadata.creation_timestamp, &event.last_timestamp].into_iter().flatten();
    let precise = event.event_time.iter().chain(observed).map(|it| it.0);
    times.chain(written).map(|it| it.0).chain(precise).max()
}
