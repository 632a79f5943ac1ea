//! Work that takes a processor for longer than a moment: large bodies, large answers. It leaves the
//! threads that serve connections, and only so much of it runs at once, so that everybody else is
//! answered meanwhile. Small requests stay where they are: a change of threads would cost them more
//! than their work does.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;

/// Below this many bytes work is done where it is: parsing, checking and encoding them takes part
/// of a millisecond, so that as many such requests as have seats do not hold anybody up.
pub(crate) const BYTES_MIN: usize = 16 * 1024;

pub(crate) struct Heavy {
    /// `None` on a single thread, where there is nowhere to go: simulations, whose order of events
    /// must repeat.
    places: Option<Semaphore>,
}

impl Heavy {
    /// For the runtime that this is called in. One processor is left for those who wait.
    pub(crate) fn new() -> Self {
        let is_threaded = Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
        let n_cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self { places: is_threaded.then(|| Semaphore::new(n_cores.saturating_sub(1).max(1))) }
    }

    /// Runs work on `bytes` bytes. Not within other heavy work, which would wait for a place that
    /// it holds.
    pub(crate) async fn run<T>(&self, bytes: usize, work: impl FnOnce() -> T) -> T {
        match &self.places {
            Some(places) if bytes >= BYTES_MIN => {
                let _place = places.acquire().await;
                tokio::task::block_in_place(work)
            }
            _ => work(),
        }
    }

    /// The same for work that waits now and then. While it waits (for the disk, or for a webhook
    /// that takes its time) it has no place: others go on.
    pub(crate) async fn drive<F: Future>(&self, bytes: usize, work: F) -> F::Output {
        let Some(places) = self.places.as_ref().filter(|_| bytes >= BYTES_MIN) else {
            return work.await;
        };
        let mut work = pin!(work);
        loop {
            let place = places.acquire().await;
            let polled = poll_fn(|context| {
                Poll::Ready(tokio::task::block_in_place(|| work.as_mut().poll(context)))
            });
            let polled = polled.await;
            drop(place);
            match polled {
                Poll::Ready(output) => return output,
                // The work has this task's waker.
                Poll::Pending => woken().await,
            }
        }
    }
}

/// Until somebody wakes this task.
async fn woken() {
    let mut has_waited = false;
    poll_fn(|_| match std::mem::replace(&mut has_waited, true) {
        false => Poll::Pending,
        true => Poll::Ready(()),
    })
    .await;
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc;

    use lifecycle::Tasks;

    use super::{BYTES_MIN, Heavy};

    #[test]
    fn others_go_on_while_heavy_work_holds_its_thread() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build();
        runtime.expect("a runtime").block_on(async {
            let (heavy, tasks) = (Arc::new(Heavy::new()), Tasks::new());
            let (started_tx, mut started) = tokio::sync::mpsc::channel(8);
            let (go_on, wait) = mpsc::channel::<()>();
            let stuck = heavy.clone();
            tasks.spawn("stuck", |_| async move {
                let work = move || {
                    let _ = started_tx.try_send(());
                    let _ = wait.recv();
                };
                stuck.run(BYTES_MIN, work).await;
            });
            started.recv().await.expect("it runs");
            // The only thread that serves is not held up: this task runs on it.
            let (done_tx, mut done) = tokio::sync::mpsc::channel(1);
            let light = heavy.clone();
            tasks.spawn("light", |_| async move {
                let _ = done_tx.try_send(light.run(BYTES_MIN - 1, || 7).await);
            });
            assert_eq!(done.recv().await, Some(7));
            drop(go_on);
        });
    }

    #[test]
    fn who_waits_for_others_has_no_place() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build();
        runtime.expect("a runtime").block_on(async {
            let (heavy, tasks) = (Arc::new(Heavy::new()), Tasks::new());
            let n_places = heavy.places.as_ref().expect("threads").available_permits();
            let answers = Arc::new(tokio::sync::Semaphore::new(0));
            let (done_tx, mut done) = tokio::sync::mpsc::channel(n_places);
            for _ in 0..n_places {
                let (heavy, answers, done) = (heavy.clone(), answers.clone(), done_tx.clone());
                tasks.spawn("asking", |_| async move {
                    let work = async { answers.acquire().await.map(drop).is_ok() };
                    let _ = done.try_send(heavy.drive(BYTES_MIN, work).await);
                });
            }
            let (light_tx, mut light) = tokio::sync::mpsc::channel(1);
            let driving = heavy.clone();
            tasks.spawn("large", |_| async move {
                let _ = light_tx.try_send(driving.drive(BYTES_MIN, async { 7 }).await);
            });
            assert_eq!(light.recv().await, Some(7), "nobody has answered yet");
            answers.add_permits(n_places);
            for _ in 0..n_places {
                assert_eq!(done.recv().await, Some(true));
            }
        });
    }

    #[tokio::test]
    async fn on_a_single_thread_work_is_done_where_it_is() {
        let heavy = Heavy::new();
        let thread = std::thread::current().id();
        let here = heavy.run(usize::MAX, || std::thread::current().id()).await;
        let driven = heavy.drive(usize::MAX, async { std::thread::current().id() }).await;
        assert_eq!((here, driven), (thread, thread));
    }
}
