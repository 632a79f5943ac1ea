//! Everything that was ever written, as one fingerprint: two runs are the same exactly when theirs
//! are.
//!
//! It is recorded while it happens, since the server compacts its store.

use std::collections::BTreeMap;

use kvstore::{Batch, Event, KeyRange, Revision, Store, WatchRequest};
use lifecycle::Tasks;
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    pub revision: Revision,
    pub n_events: usize,
    /// SHA-256 over every event in order: key, revision, value.
    pub fingerprint: String,
    /// How often each resource was written, by the first two parts of its keys.
    pub writes: BTreeMap<String, usize>,
    events: Vec<Event>,
}

impl History {
    /// The first event that is not the same in both, and what came before it.
    pub fn first_difference(&self, other: &Self) -> Option<String> {
        let length = self.events.len().max(other.events.len());
        let index = (0..length).find(|it| self.events.get(*it) != other.events.get(*it))?;
        let render = |history: &Self| {
            let events = history.events[index.saturating_sub(3)..].iter().take(4);
            events.map(render).collect::<String>()
        };
        Some(format!("event {index}:\n{}--- or ---\n{}", render(self), render(other)))
    }

    /// Every state that was ever stored under keys with this text, in order.
    pub fn values<'a>(&'a self, within: &'a str) -> impl Iterator<Item = &'a [u8]> {
        let is_within = move |it: &&Event| String::from_utf8_lossy(&it.key).contains(within);
        let stored = self.events.iter().filter(is_within).filter_map(|it| it.value.as_ref());
        stored.map(|it| it.value.as_ref())
    }

    /// Every change of keys with this text, in order: what was stored, or that it was removed.
    pub fn changes<'a>(
        &'a self,
        within: &'a str,
    ) -> impl Iterator<Item = (std::borrow::Cow<'a, str>, Option<&'a [u8]>)> {
        let all = self.events.iter().map(|it| {
            let value = it.value.as_ref().map(|it| it.value.as_ref());
            (String::from_utf8_lossy(&it.key), value)
        });
        all.filter(move |it| it.0.contains(within))
    }

    /// What was written after `earlier`, a history of the same run.
    pub fn writes_since(&self, earlier: &Self) -> BTreeMap<String, usize> {
        let before = |resource: &str| earlier.writes.get(resource).copied().unwrap_or_default();
        let new = self
            .writes
            .iter()
            .map(|(resource, count)| (resource.clone(), count - before(resource)));
        new.filter(|(_, count)| *count > 0).collect()
    }
}

fn render(event: &Event) -> String {
    let value = event.value.as_ref().map(|it| String::from_utf8_lossy(&it.value));
    let value = value.as_deref().unwrap_or("(deleted)");
    format!("{} {} {value}\n", event.revision.0, String::from_utf8_lossy(&event.key))
}

#[derive(Clone)]
struct Recorded {
    revision: Revision,
    n_events: usize,
    hash: Sha256,
    writes: BTreeMap<String, usize>,
    events: Vec<Event>,
}

impl Recorded {
    fn add(&mut self, batch: &Batch) {
        for event in &batch.events {
            self.n_events += 1;
            self.hash.update(&event.key);
            self.hash.update(event.revision.0.to_be_bytes());
            if let Some(value) = &event.value {
                self.hash.update(&value.value);
            }
            let key = String::from_utf8_lossy(&event.key);
            let parts: Vec<&str> = key.split('/').skip(2).take(2).collect();
            *self.writes.entry(parts.join("/")).or_default() += 1;
        }
        self.events.extend_from_slice(&batch.events);
        self.revision = batch.revision;
    }
}

/// Follows a store from its first write on.
pub(crate) struct Recorder(watch::Receiver<Recorded>);

impl Recorder {
    /// The store must be empty.
    pub(crate) async fn spawn(store: &dyn Store, tasks: &Tasks) -> Result<Self, kvstore::Error> {
        let revision = store.revision();
        let request = WatchRequest::new(KeyRange::prefix(b"/"), Some(revision));
        let mut events = store.watch(request).await?;
        let nothing = Recorded {
            revision,
            n_events: 0,
            hash: Sha256::new(),
            writes: BTreeMap::new(),
            events: Vec::new(),
        };
        let (recorded, receiver) = watch::channel(nothing);
        tasks.spawn("history", |shutdown| async move {
            loop {
                tokio::select! {
                    biased;
                    () = shutdown.cancelled() => return,
                    batch = events.next() => match batch {
                        Ok(batch) => recorded.send_modify(|it| it.add(&batch)),
                        Err(err) => {
                            tracing::error!(error = %err, "the history has a gap");
                            return;
                        }
                    },
                }
            }
        });
        Ok(Self(receiver))
    }

    /// The history up to and including `revision`, or later; `None` when it has a gap.
    pub(crate) async fn through(&self, revision: Revision) -> Option<History> {
        let recorded = self.0.clone().wait_for(|it| it.revision >= revision).await.ok()?.clone();
        let Recorded { revision, n_events, hash, writes, events } = recorded;
        let fingerprint = hash.finalize().iter().map(|it| format!("{it:02x}")).collect();
        Some(History { revision, n_events, fingerprint, writes, events })
    }
}
