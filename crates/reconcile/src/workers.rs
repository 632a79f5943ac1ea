//! The loop around a reconciler: take a key, reconcile, decide when to look again.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use apimachinery::ApiError;
use futures_util::FutureExt as _;
use lifecycle::{Shutdown, Tasks};

use crate::queue::{Key, WorkQueue};

/// What a reconcile asks for when it went well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Settled,
    /// Look again after this long even if nothing changes.
    After(Duration),
}

pub trait Reconciler: Send + Sync + 'static {
    type Key: Key;
    type Error: std::error::Error + Send + 'static;
    fn reconcile(&self, key: &Self::Key) -> impl Future<Output = Result<Next, Self::Error>> + Send;
}

/// Who works on one queue, and how patiently.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crew {
    pub(crate) workers: usize,
    /// After so many retries in a row a key is let go, until something changes it again.
    pub(crate) retries_max: Option<u32>,
}

/// Starts tasks that take keys from the queue until shutdown. A reconcile that is under
/// way then is dropped, as a crash would: every reconciler starts from any state.
pub(crate) fn run<R: Reconciler>(
    tasks: &Tasks,
    queue: &WorkQueue<R::Key>,
    crew: Crew,
    reconciler: &Arc<R>,
) {
    for number in 0..crew.workers {
        let (queue, reconciler) = (queue.clone(), reconciler.clone());
        tasks.spawn(&format!("{}/{number}", queue.name()), move |shutdown| {
            work(queue, crew, reconciler, shutdown)
        });
    }
}

async fn work<R: Reconciler>(
    queue: WorkQueue<R::Key>,
    crew: Crew,
    reconciler: Arc<R>,
    shutdown: Shutdown,
) {
    loop {
        let key = tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            key = queue.take() => key,
        };
        let reconcile = AssertUnwindSafe(reconciler.reconcile(&key)).catch_unwind();
        let outcome = tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            outcome = reconcile => outcome,
        };
        conclude(&queue, crew, &key, outcome);
        queue.done(&key);
    }
}

fn conclude<K: Key, E: std::error::Error + 'static>(
    queue: &WorkQueue<K>,
    crew: Crew,
    key: &K,
    outcome: std::thread::Result<Result<Next, E>>,
) {
    let (controller, attempt) = (queue.name(), queue.failures(key) + 1);
    match outcome {
        Ok(Ok(next)) => {
            queue.forget(key);
            if let Next::After(delay) = next {
                queue.add_after(key.clone(), delay);
            }
            return;
        }
        Ok(Err(err)) if is_conflict(&err) => {
            let error = stdx::error_chain(&err);
            tracing::debug!(controller, %key, attempt, error, "somebody else wrote first");
        }
        Ok(Err(err)) => {
            let error = stdx::error_chain(&err);
            tracing::warn!(controller, %key, attempt, error, "reconcile failed");
        }
        Err(_panic) => tracing::error!(controller, %key, attempt, "reconcile panicked"),
    }
    if crew.retries_max.is_some_and(|it| attempt > it) {
        tracing::warn!(controller, %key, attempt, "no more retries before it changes");
        return queue.forget(key);
    }
    queue.add_rate_limited(key.clone());
}

/// Ordinary with optimistic locks: the cache was behind.
fn is_conflict<E: std::error::Error + 'static>(err: &E) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(err);
    while let Some(it) = cause {
        if it.downcast_ref::<ApiError>().is_some_and(ApiError::is_conflict) {
            return true;
        }
        cause = it.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use std::fmt::{self, Display};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use apimachinery::{ApiError, GroupResource, ObjectKey};
    use lifecycle::Tasks;
    use tokio::sync::mpsc;
    use tokio::time::Instant;

    use super::{Crew, Next, Reconciler, run};
    use crate::WorkQueue;

    /// Of two parts, as a set of daemons has one for each of its nodes.
    #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct Place {
        set: ObjectKey,
        node: &'static str,
    }

    impl Display for Place {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{} on {}", self.set, self.node)
        }
    }

    /// Panics, then conflicts, then asks to be called again, then settles.
    struct Moody {
        calls: AtomicUsize,
        seen: mpsc::Sender<Place>,
    }

    impl Reconciler for Moody {
        type Key = Place;
        type Error = ApiError;

        async fn reconcile(&self, key: &Place) -> Result<Next, ApiError> {
            let _ = self.seen.send(key.clone()).await;
            match self.calls.fetch_add(1, Ordering::Relaxed) {
                0 => panic!("the first call panics"),
                1 => Err(ApiError::modified(&GroupResource::new("", "pods"), key.node)),
                2 => Ok(Next::After(Duration::from_secs(7))),
                _ => Ok(Next::Settled),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn panics_and_conflicts_are_retried_and_success_forgets_them() {
        let (tasks, queue) = (Tasks::new(), WorkQueue::new("moody"));
        let (seen, mut calls) = mpsc::channel(8);
        let moody = Moody { calls: AtomicUsize::new(0), seen };
        run(&tasks, &queue, Crew { workers: 2, retries_max: None }, &Arc::new(moody));
        let key = Place { set: ObjectKey::new("default", "web"), node: "n1" };
        let start = Instant::now();
        queue.add(key.clone());
        let mut times = Vec::new();
        for _ in 0..4 {
            assert_eq!(calls.recv().await.as_ref(), Some(&key));
            times.push(start.elapsed().as_millis());
        }
        // tokio's timers have a granularity of 1 ms.
        assert!((5..=6).contains(&times[1]), "{times:?}");
        assert!((15..=17).contains(&times[2]), "{times:?}");
        assert!((7015..=7018).contains(&times[3]), "{times:?}");
        assert_eq!(queue.failures(&key), 0);
        tasks.shutdown(Duration::from_secs(1)).await.unwrap();
    }

    /// Never succeeds.
    struct Hopeless(AtomicUsize);

    impl Reconciler for Hopeless {
        type Key = ObjectKey;
        type Error = ApiError;

        async fn reconcile(&self, key: &ObjectKey) -> Result<Next, ApiError> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Err(ApiError::modified(&GroupResource::new("", "pods"), &key.name))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_fails_too_often_is_let_go_until_it_changes() {
        let (tasks, queue) = (Tasks::new(), WorkQueue::new("hopeless"));
        let hopeless = Arc::new(Hopeless(AtomicUsize::new(0)));
        run(&tasks, &queue, Crew { workers: 1, retries_max: Some(3) }, &hopeless);
        for calls in [4, 8] {
            queue.add(ObjectKey::new("default", "web"));
            tokio::time::sleep(Duration::from_secs(3600)).await;
            assert_eq!(hopeless.0.load(Ordering::Relaxed), calls);
        }
        tasks.shutdown(Duration::from_secs(1)).await.unwrap();
    }
}
