//! Named conditions that become true once, for `/readyz` and for the progress display.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

/// A set of named checks. A check is registered as not ready and later marked ready.
#[derive(Clone)]
pub struct Readiness {
    checks: Arc<Mutex<BTreeMap<String, bool>>>,
    changes: watch::Sender<u64>,
}

impl Default for Readiness {
    fn default() -> Self {
        Self { checks: Arc::default(), changes: watch::Sender::new(0) }
    }
}

impl Readiness {
    pub fn register(&self, name: &str) {
        self.set(name, false);
    }

    pub fn mark_ready(&self, name: &str) {
        self.set(name, true);
    }

    fn set(&self, name: &str, is_ready: bool) {
        self.checks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name.to_owned(), is_ready);
        self.changes.send_modify(|it| *it += 1);
    }

    /// Every check with its state, sorted by name.
    pub fn checks(&self) -> Vec<(String, bool)> {
        self.checks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .map(|(name, is_ready)| (name.clone(), *is_ready))
            .collect()
    }

    pub fn is_ready(&self) -> bool {
        self.checks.lock().unwrap_or_else(PoisonError::into_inner).values().all(|it| *it)
    }

    /// Returns once every registered check is ready.
    pub async fn wait(&self) {
        let mut changes = self.changes.subscribe();
        while !self.is_ready() {
            if changes.changed().await.is_err() {
                return;
            }
        }
    }
}
