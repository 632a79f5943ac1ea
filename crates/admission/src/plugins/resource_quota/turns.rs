//! Whose turn it is to charge the quotas of a namespace.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::OwnedMutexGuard;

type Lock = tokio::sync::Mutex<()>;

/// Until it is dropped, nobody else has the turn.
pub(super) type Turn = OwnedMutexGuard<()>;

/// The namespaces that somebody has the turn of or waits for. In order of arrival.
#[derive(Default)]
pub(super) struct Turns(Mutex<BTreeMap<String, Weak<Lock>>>);

impl Turns {
    pub(super) async fn wait(&self, namespace: &str) -> Turn {
        self.lock_of(namespace).lock_owned().await
    }

    fn lock_of(&self, namespace: &str) -> Arc<Lock> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lock) = all.get(namespace).and_then(Weak::upgrade) {
            return lock;
        }
        all.retain(|_, it| it.strong_count() > 0);
        let lock = Arc::new(Lock::default());
        all.insert(namespace.to_owned(), Arc::downgrade(&lock));
        lock
    }
}
