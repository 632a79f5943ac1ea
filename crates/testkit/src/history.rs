//! Everything that was ever written, as one fingerprint: two runs are the same exactly when theirs are.

use sha2::{Digest as _, Sha256};

use kvstore::{KeyRange, Revision, Store};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    pub revision: Revision,
    pub n_events: usize,
    /// SHA-256 over every event in order: key, revision, value.
    pub fingerprint: String,
}

impl History {
    /// Reads the whole history of a store that was never compacted.
    pub async fn of(store: &dyn Store) -> Result<Self, kvstore::Error> {
        let revision = store.revision();
        let mut hash = Sha256::new();
        let mut n_events = 0;
        let mut reached = Revision(1);
        if revision > reached {
            let mut watch = store.watch(KeyRange::prefix(b"/"), Some(Revision(1))).await?;
            while reached < revision {
                let batch = watch.next().await?;
                for event in &batch.events {
                    n_events += 1;
                    hash.update(&event.key);
                    hash.update(event.revision.0.to_be_bytes());
                    if let Some(value) = &event.value {
                        hash.update(&value.value);
                    }
                }
                reached = batch.revision;
            }
        }
        let fingerprint = hash.finalize().iter().map(|it| format!("{it:02x}")).collect();
        Ok(Self { revision, n_events, fingerprint })
    }
}
