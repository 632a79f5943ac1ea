//! The life of a serving process: runtime, signals, drain. Late tasks are named.

use std::future::Future;
use std::time::Duration;

use anyhow::{Context as _, Error, Result};
use lifecycle::Tasks;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

const STACK_BYTES: usize = 4 << 20;
/// How long components may take to stop.
const DRAIN: Duration = Duration::from_secs(10);
/// The same of a process that failed. Others may be at its work already, so it is short.
const DRAIN_FAILED: Duration = Duration::from_secs(2);

/// Ends the process from within. The first reason counts: whoever started it is told.
#[derive(Clone)]
pub(crate) struct Failure(mpsc::Sender<Error>);

impl Failure {
    pub(crate) fn fail(&self, why: Error) {
        // Where one was told already, this one comes of it.
        let _ = self.0.try_send(why);
    }
}

/// Runs `start` to get everything going, waits for a signal, then drains. `start`'s result is
/// dropped last.
pub(crate) fn run<T, F>(start: impl FnOnce(Tasks) -> F) -> Result<()>
where
    F: Future<Output = Result<T>>,
{
    run_and_then(start, |_| ())
}

/// The same of what may fail later on, and where components may take so long to stop.
pub(crate) fn run_failing<T, F>(
    drain: Option<Duration>,
    start: impl FnOnce(Tasks, Failure) -> F,
) -> Result<()>
where
    F: Future<Output = Result<T>>,
{
    run_until_drained(drain.unwrap_or(DRAIN), start, |_| ())
}

/// And says `farewell` when all has stopped that had started.
pub(crate) fn run_and_then<T, F>(
    start: impl FnOnce(Tasks) -> F,
    farewell: impl FnOnce(&T),
) -> Result<()>
where
    F: Future<Output = Result<T>>,
{
    run_until_drained(DRAIN, |tasks, _| start(tasks), farewell)
}

fn run_until_drained<T, F>(
    drain: Duration,
    start: impl FnOnce(Tasks, Failure) -> F,
    farewell: impl FnOnce(&T),
) -> Result<()>
where
    F: Future<Output = Result<T>>,
{
    prepare_process();
    let runtime = runtime()?;
    runtime.block_on(async {
        let tasks = Tasks::new();
        // Listening starts before anything else, so that an early Ctrl-C drains too.
        let mut ends = Ends::listen()?;
        let failure = ends.failure.clone();
        let early = tokio::select! {
            biased;
            end = ends.next() => Err(end),
            started = start(tasks.clone(), failure) => Ok(started?),
        };
        let (kept, why) = match early {
            Ok(kept) => (Some(kept), ends.next().await),
            Err(why) => (None, why),
        };
        if let Some(why) = why {
            if let Err(late) = tasks.shutdown(drain.min(DRAIN_FAILED)).await {
                tracing::warn!(%late, "stopping");
            }
            return Err(why);
        }
        tasks.shutdown(drain).await.context("stopping")?;
        if let Some(kept) = &kept {
            farewell(kept);
        }
        drop(kept);
        Ok(())
    })
}

/// What ends a process.
struct Ends {
    interrupt: Signal,
    terminate: Signal,
    failure: Failure,
    failures: mpsc::Receiver<Error>,
}

impl Ends {
    fn listen() -> Result<Self> {
        let interrupt = signal(SignalKind::interrupt()).context("listening for SIGINT")?;
        let terminate = signal(SignalKind::terminate()).context("listening for SIGTERM")?;
        let (sender, failures) = mpsc::channel(1);
        Ok(Self { interrupt, terminate, failure: Failure(sender), failures })
    }

    /// Why it has to end; `None`: somebody asked for it.
    async fn next(&mut self) -> Option<Error> {
        tokio::select! {
            biased;
            _ = self.interrupt.recv() => None,
            _ = self.terminate.recv() => None,
            // There is always a sender: our own.
            why = self.failures.recv() => why,
        }
    }
}

fn prepare_process() {
    // Before anything is derived from it.
    if let Err(err) = linux::process::raise_descriptor_limit() {
        tracing::warn!(error = %err, "the limit of open files stays as it is");
    }
    // They are held whole for the few small objects that are left in each: a third of what is resident
    // after the start, for no time that could be measured.
    if let Err(err) = linux::process::refuse_huge_pages() {
        tracing::debug!(error = %err, "huge pages stay allowed");
    }
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cores.clamp(1, 8))
        // Twice the usual: objects may nest a hundred levels. Only what is touched takes memory.
        .thread_stack_size(STACK_BYTES)
        .enable_all()
        .build()
        .context("starting the tokio runtime")
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
