//! The webhooks that there are: sorted by configuration, then as they are listed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;

use super::hook::Hook;

#[derive(Default)]
pub(super) struct Configured {
    by_configuration: Mutex<BTreeMap<String, Vec<Arc<Hook>>>>,
    /// The same in one list.
    all: ArcSwap<Vec<Arc<Hook>>>,
}

impl Configured {
    /// None of them: there is no such configuration any more.
    pub(super) fn set(&self, configuration: &str, hooks: impl Iterator<Item = Hook>) {
        let hooks: Vec<Arc<Hook>> = hooks.map(Arc::new).collect();
        let mut known = self.by_configuration.lock().unwrap_or_else(PoisonError::into_inner);
        match hooks.is_empty() {
            true => known.remove(configuration),
            false => known.insert(configuration.to_owned(), hooks),
        };
        self.all.store(Arc::new(known.values().flatten().cloned().collect()));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.load().is_empty()
    }

    pub(super) fn all(&self) -> Arc<Vec<Arc<Hook>>> {
        self.all.load_full()
    }
}
