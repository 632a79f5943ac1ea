//! The life of a serving process: runtime, signals, drain. Late tasks are named.

use std::future::Future;
use std::time::Duration;

use anyhow::{Context as _, Result};
use lifecycle::Tasks;
use tokio::signal::unix::{SignalKind, signal};

const STACK_BYTES: usize = 4 << 20;
/// How long components may take to stop.
const DRAIN: Duration = Duration::from_secs(10);

/// Runs `start` to get everything going, waits for a signal, then drains. `start`'s result is
/// dropped last.
pub(crate) fn run<T, F>(start: impl FnOnce(Tasks) -> F) -> Result<()>
where
    F: Future<Output = Result<T>>,
{
    run_and_then(start, |_| ())
}

/// The same, where components may take so long to stop.
pub(crate) fn run_draining<T, F>(drain: Duration, start: impl FnOnce(Tasks) -> F) -> Result<()>
where
    F: Future<Output = Result<T>>,
{
    run_until_drained(drain, start, |_| ())
}

/// And says `farewell` when all has stopped that had started.
pub(crate) fn run_and_then<T, F>(
    start: impl FnOnce(Tasks) -> F,
    farewell: impl FnOnce(&T),
) -> Result<()>
where
    F: Future<Output = Result<T>>,
{
    run_until_drained(DRAIN, start, farewell)
}

fn run_until_drained<T, F>(
    drain: Duration,
    start: impl FnOnce(Tasks) -> F,
    farewell: impl FnOnce(&T),
) -> Result<()>
where
    F: Future<Output = Result<T>>,
{
    // Before anything is derived from it.
    if let Err(err) = linux::process::raise_descriptor_limit() {
        tracing::warn!(error = %err, "the limit of open files stays as it is");
    }
    // They are held whole for the few small objects that are left in each: a third of what is resident
    // after the start, for no time that could be measured.
    if let Err(err) = linux::process::refuse_huge_pages() {
        tracing::debug!(error = %err, "huge pages stay allowed");
    }
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cores.clamp(1, 8))
        // Twice the usual: objects may nest a hundred levels. Only what is touched takes memory.
        .thread_stack_size(STACK_BYTES)
        .enable_all()
        .build()
        .context("starting the tokio runtime")?;
    runtime.block_on(async {
        let tasks = Tasks::new();
        // Listening starts before anything else, so that an early Ctrl-C drains too.
        let mut interrupt = signal(SignalKind::interrupt()).context("listening for SIGINT")?;
        let mut terminate = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
        let stopped = async {
            tokio::select! {
                biased;
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        };
        tokio::pin!(stopped);
        let kept = tokio::select! {
            biased;
            () = &mut stopped => None,
            started = start(tasks.clone()) => Some(started?),
        };
        if kept.is_some() {
            stopped.await;
        }
        tasks.shutdown(drain).await.context("stopping")?;
        if let Some(kept) = &kept {
            farewell(kept);
        }
        drop(kept);
        Ok(())
    })
}

/// When the start is over.
const SETTLED: Duration = Duration::from_secs(5);

/// Most code pages were needed for the start alone; once, a while after it, they are given back.
pub(crate) fn forget_the_start(tasks: &Tasks) {
    tasks.spawn("forget-the-start", |shutdown| async move {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => {}
            () = tokio::time::sleep(SETTLED) => {
                if let Err(err) = linux::process::drop_touched_pages() {
                    tracing::debug!(error = %err, "pages not given back");
                }
            }
        }
    });
}
