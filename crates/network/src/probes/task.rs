//! The loop: who is due is tried, what comes of it is repaired and told.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use lifecycle::Tasks;
use stdx::error_chain;
use tokio::sync::watch;
use tokio::time::Instant;

use super::book::Book;
use super::line::Line;
use super::{Target, Verdict, told};
use crate::network::{State, lock};

type Probed = (Target, io::Result<Verdict>);
type Probing = Pin<Box<dyn Future<Output = Probed> + Send>>;

pub(crate) fn follow(tasks: &Tasks, state: &Arc<Mutex<State>>) {
    let (line, targets) = {
        let locked = lock(state);
        (Line::new(locked.kernel.namespace()), locked.targets.subscribe())
    };
    let state = state.clone();
    tasks.spawn("probes", |shutdown| async move {
        let (line, running) = (Arc::new(line), FuturesUnordered::new());
        let mut prober = Prober { line, targets, book: Book::default(), running, state };
        tokio::select! {
            biased;
            () = shutdown.cancelled() => {}
            () = prober.run() => {}
        }
    });
}

struct Prober {
    line: Arc<Line>,
    targets: watch::Receiver<Vec<Target>>,
    book: Book,
    running: FuturesUnordered<Probing>,
    state: Arc<Mutex<State>>,
}

impl Prober {
    /// Ends when nobody says any more who is to be tried.
    async fn run(&mut self) {
        self.targets.mark_changed();
        loop {
            for target in self.book.begin(Instant::now()) {
                let line = self.line.clone();
                self.running.push(Box::pin(async move {
                    let verdict = line.probe(&target).await;
                    (target, verdict)
                }));
            }
            tokio::select! {
                biased;
                changed = self.targets.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let targets = self.targets.borrow_and_update().clone();
                    self.book.want(&targets, Instant::now());
                }
                Some((target, verdict)) = self.running.next() => self.take(target, verdict).await,
                () = until(self.book.due()) => {}
            }
            let tried = told::tell(self.book.known());
            lock(&self.state).tell_tried(tried);
        }
    }

    async fn take(&mut self, target: Target, verdict: io::Result<Verdict>) {
        let now = Instant::now();
        let verdict = match verdict {
            Ok(verdict) => verdict,
            Err(err) => {
                let (error, node) = (error_chain(&err), &target.node);
                tracing::debug!(error, node, "the way to a node cannot be tried");
                return self.book.put_off(target.range, now);
            }
        };
        tracing::debug!(?verdict, node = target.node, range = %target.range, "tried a way");
        self.book.note(target.range, verdict.clone(), now);
        let state = self.state.clone();
        let repair = move || lock(&state).repair(&target, &verdict);
        match tokio::task::spawn_blocking(repair).await {
            Ok(Ok(())) => {}
            // Whoever follows the kernel mends it.
            Ok(Err(err)) => {
                let error = error_chain(&err);
                tracing::warn!(error, "repairing a way to other nodes");
            }
            Err(err) => tracing::error!(error = %err, "repairing a way to other nodes"),
        }
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
