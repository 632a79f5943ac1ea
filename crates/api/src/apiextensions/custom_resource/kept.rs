//! What can be made again: kept while it is used, and dropped when a sweep finds that nobody used it
//! since the sweep before. Nothing here reads a clock: whoever has one sweeps.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};

pub(super) struct Kept<T> {
    made: RwLock<Option<Arc<T>>>,
    is_used: AtomicBool,
}

impl<T> Kept<T> {
    pub(super) fn nothing() -> Self {
        Self { made: RwLock::new(None), is_used: AtomicBool::new(false) }
    }

    /// What is kept, or what `make` makes now, and whether it did. Two at once make one.
    pub(super) fn get(&self, make: impl FnOnce() -> T) -> (Arc<T>, bool) {
        if let Some(made) = self.made.read().unwrap_or_else(PoisonError::into_inner).as_ref() {
            // Many read at once: the line is written once between two sweeps.
            if !self.is_used.load(Relaxed) {
                self.is_used.store(true, Relaxed);
            }
            return (made.clone(), false);
        }
        let mut made = self.made.write().unwrap_or_else(PoisonError::into_inner);
        self.is_used.store(true, Relaxed);
        match made.as_ref() {
            Some(it) => (it.clone(), false),
            None => (made.insert(Arc::new(make())).clone(), true),
        }
    }

    pub(super) fn is_made(&self) -> bool {
        self.made.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Drops what was not used since the last time. Who has it still keeps it.
    pub(super) fn sweep(&self) {
        let mut made = self.made.write().unwrap_or_else(PoisonError::into_inner);
        if !self.is_used.swap(false, Relaxed) {
            *made = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Kept;

    #[test]
    fn what_nobody_used_between_two_sweeps_is_dropped() {
        let kept = Kept::nothing();
        assert!(!kept.is_made());
        let (held, is_new) = kept.get(|| 1);
        assert!(is_new);
        kept.sweep();
        assert!(kept.is_made(), "it was used before the first sweep");
        assert_eq!(kept.get(|| 2), (held.clone(), false));
        kept.sweep();
        kept.sweep();
        assert!(!kept.is_made());
        assert_eq!(*held, 1, "who has it keeps it");
        assert_eq!(kept.get(|| 3), (3.into(), true));
    }
}
