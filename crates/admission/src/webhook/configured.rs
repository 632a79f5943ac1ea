//! The webhooks that there are: sorted by configuration, then as they are listed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;

use super::hook::Hook;

/// Each as it was said, with what is asked.
type Ready<W> = Vec<(W, Arc<Hook>)>;

/// `W` is a webhook as its configuration says it.
pub(super) struct Configured<W> {
    by_configuration: Mutex<BTreeMap<String, Ready<W>>>,
    /// The same in one list.
    all: ArcSwap<Vec<Arc<Hook>>>,
}

impl<W> Default for Configured<W> {
    fn default() -> Self {
        Self { by_configuration: Mutex::default(), all: ArcSwap::default() }
    }
}

impl<W> Configured<W> {
    /// None of them: there is no such configuration any more.
    pub(super) fn set(&self, configuration: &str, said: Vec<W>, ready: impl Fn(&str, &W) -> Hook) {
        let mut known = self.by_configuration.lock().unwrap_or_else(PoisonError::into_inner);
        let hooks = said.into_iter().map(|it| {
            let hook = Arc::new(ready(configuration, &it));
            (it, hook)
        });
        let hooks: Vec<_> = hooks.collect();
        match hooks.is_empty() {
            true => known.remove(configuration),
            false => known.insert(configuration.to_owned(), hooks),
        };
        self.publish(&known);
    }

    /// All of them made ready once more.
    pub(super) fn renew(&self, ready: impl Fn(&str, &W) -> Hook) {
        let mut known = self.by_configuration.lock().unwrap_or_else(PoisonError::into_inner);
        for (configuration, hooks) in known.iter_mut() {
            for (said, hook) in hooks {
                *hook = Arc::new(ready(configuration, said));
            }
        }
        self.publish(&known);
    }

    fn publish(&self, known: &BTreeMap<String, Vec<(W, Arc<Hook>)>>) {
        self.all.store(Arc::new(known.values().flatten().map(|it| it.1.clone()).collect()));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.load().is_empty()
    }

    pub(super) fn all(&self) -> Arc<Vec<Arc<Hook>>> {
        self.all.load_full()
    }
}
