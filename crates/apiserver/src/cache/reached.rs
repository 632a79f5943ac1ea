//! How far the cache has come, and who waits for it to come further.
//!
//! Not `tokio::sync::watch`: that wakes every waiter at every revision, and in an order that its
//! own random numbers choose, so that no simulation would repeat.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

#[derive(Default)]
pub(super) struct Reached {
    /// `State::revision`, for those who only look. Set after it, with the lock held.
    revision: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    revision: u64,
    /// By the revision that is waited for, then by arrival: the order in which they are woken.
    waiting: BTreeMap<(u64, u64), oneshot::Sender<()>>,
    /// Makes waiters of one revision different; never used again.
    next: u64,
}

/// Takes its place out of the line however the wait ends.
struct Place<'a> {
    reached: &'a Reached,
    slot: (u64, u64),
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.reached.state().waiting.remove(&self.slot);
    }
}

impl Reached {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn revision(&self) -> u64 {
        self.revision.load(Ordering::Acquire)
    }

    /// Wakes those who wait for `revision` or less, and nobody else.
    pub(super) fn advance(&self, revision: u64) {
        let mut state = self.state();
        if revision <= state.revision {
            return;
        }
        state.revision = revision;
        self.revision.store(revision, Ordering::Release);
        let later = state.waiting.split_off(&(revision + 1, 0));
        for (_, waiter) in std::mem::replace(&mut state.waiting, later) {
            // A waiter that gave up is no concern.
            let _ = waiter.send(());
        }
    }

    pub(super) async fn wait(&self, wanted: u64) {
        let (place, arrival) = {
            let mut state = self.state();
            if state.revision >= wanted {
                return;
            }
            let slot = (wanted, state.next);
            state.next += 1;
            let (waiter, arrival) = oneshot::channel();
            state.waiting.insert(slot, waiter);
            (Place { reached: self, slot }, arrival)
        };
        let _ = arrival.await;
        drop(place);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use futures_util::future::join_all;

    use super::Reached;

    #[tokio::test]
    async fn waiters_wake_by_revision_and_then_by_arrival() {
        let (reached, order) = (Reached::default(), Mutex::new(Vec::new()));
        let waiters = [(5, "a"), (3, "b"), (5, "c"), (3, "d"), (9, "e")];
        let waits = waiters.map(|(wanted, name)| {
            let (reached, order) = (&reached, &order);
            async move {
                reached.wait(wanted).await;
                order.lock().unwrap().push(name);
            }
        });
        let advance = async {
            tokio::task::yield_now().await;
            reached.advance(4);
            tokio::task::yield_now().await;
            assert_eq!(*order.lock().unwrap(), ["b", "d"]);
            reached.advance(9);
        };
        tokio::join!(join_all(waits), advance);
        assert_eq!(*order.lock().unwrap(), ["b", "d", "a", "c", "e"]);
        assert_eq!(reached.revision(), 9);
        assert!(reached.state().waiting.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn who_gives_up_leaves_the_line() {
        let reached = Reached::default();
        let wait = tokio::time::timeout(std::time::Duration::from_secs(1), reached.wait(7)).await;
        assert!(wait.is_err());
        assert!(reached.state().waiting.is_empty());
    }
}
