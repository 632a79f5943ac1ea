//! The tree of running tasks.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use stdx::Backoff;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Told to a task when it should end.
pub type Shutdown = CancellationToken;

/// The tasks of one component. Children stop with their parent.
#[derive(Clone)]
pub struct Tasks {
    prefix: String,
    shutdown: CancellationToken,
    is_last: bool,
    running: Arc<Running>,
}

/// Every live task of the tree, by a number that is never used again.
struct Running {
    names: Mutex<Names>,
    count: watch::Sender<usize>,
    /// Of the tasks that others rely on until their own end.
    shutdown_last: CancellationToken,
}

#[derive(Default)]
struct Names {
    next: u64,
    live: BTreeMap<u64, Live>,
}

struct Live {
    name: String,
    is_last: bool,
}

/// The tasks that did not stop in time.
#[derive(Debug)]
pub struct Late {
    pub after: Duration,
    pub names: Vec<String>,
}

impl fmt::Display for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tasks still running after {:?}: {:?}", self.after, self.names)
    }
}

impl std::error::Error for Late {}

impl Running {
    fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(self: &Arc<Self>, name: String, is_last: bool) -> Entry {
        let mut names = self.names();
        let id = names.next;
        names.next += 1;
        names.live.insert(id, Live { name, is_last });
        self.count.send_replace(names.live.len());
        Entry { running: self.clone(), id }
    }
}

/// Keeps a task's name in the list until its future is dropped, however it ends.
struct Entry {
    running: Arc<Running>,
    id: u64,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut names = self.running.names();
        names.live.remove(&self.id);
        self.running.count.send_replace(names.live.len());
    }
}

impl Default for Tasks {
    fn default() -> Self {
        Self::new()
    }
}

impl Tasks {
    pub fn new() -> Self {
        Self {
            prefix: String::new(),
            shutdown: CancellationToken::new(),
            is_last: false,
            running: Arc::new(Running {
                names: Mutex::default(),
                count: watch::Sender::new(0),
                shutdown_last: CancellationToken::new(),
            }),
        }
    }

    /// A subtree whose tasks are named `parent/child/...`; it can be cancelled by itself.
    pub fn child(&self, name: &str) -> Self {
        Self {
            prefix: self.name_of(name),
            shutdown: self.shutdown.child_token(),
            is_last: self.is_last,
            running: self.running.clone(),
        }
    }

    /// A subtree for what the others need until they have ended: `shutdown` lets it go on until
    /// then. Cancelling its parent alone does not end it.
    pub fn child_last(&self, name: &str) -> Self {
        Self {
            prefix: self.name_of(name),
            shutdown: self.running.shutdown_last.child_token(),
            is_last: true,
            running: self.running.clone(),
        }
    }

    pub fn shutdown_signal(&self) -> Shutdown {
        self.shutdown.clone()
    }

    /// Starts a task that runs once. A panic ends the task alone, and is logged with its name.
    #[expect(clippy::disallowed_methods, reason = "the one place where tasks are started")]
    pub fn spawn<F>(&self, name: &str, start: impl FnOnce(Shutdown) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let name = self.name_of(name);
        let entry = self.running.enter(name.clone(), self.is_last);
        let task = AssertUnwindSafe(start(self.shutdown.clone())).catch_unwind();
        tokio::spawn(async move {
            let _entry = entry;
            if let Err(panic) = task.await {
                tracing::error!(task = %name, panic = panic_text(&*panic), "task panicked");
            }
        });
    }

    /// Starts a task that is started again, after a growing delay, when it panics.
    pub fn spawn_restarting<F>(
        &self,
        name: &str,
        mut start: impl FnMut(Shutdown) -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let full_name = self.name_of(name);
        self.spawn(name, |shutdown| async move {
            let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(30));
            while let Err(panic) = AssertUnwindSafe(start(shutdown.clone())).catch_unwind().await {
                let delay = backoff.step();
                tracing::error!(task = %full_name, panic = panic_text(&*panic), ?delay, "task panicked; starting it again");
                tokio::select! {
                    biased;
                    () = shutdown.cancelled() => return,
                    () = tokio::time::sleep(delay) => {}
                }
            }
        });
    }

    /// Asks every task of this subtree to end, without waiting.
    pub fn cancel(&self) {
        self.shutdown.cancel();
    }

    /// Waits until no task of this subtree is left.
    pub async fn ended(&self) {
        let below = self.name_of("");
        self.wait_until(|it| !it.live.values().any(|it| it.name.starts_with(&below))).await;
    }

    /// Cancels and waits for all tasks of the whole tree, those of `child_last` after the others;
    /// names those that outlive `deadline`.
    pub async fn shutdown(&self, deadline: Duration) -> Result<(), Late> {
        self.cancel();
        let drained = async {
            self.wait_until(|names| names.live.values().all(|it| it.is_last)).await;
            self.running.shutdown_last.cancel();
            self.wait_until(|names| names.live.is_empty()).await;
        };
        let outcome = tokio::time::timeout(deadline, drained).await;
        self.running.shutdown_last.cancel();
        outcome.map_err(|_| Late { after: deadline, names: self.names() })
    }

    async fn wait_until(&self, is_right: impl Fn(&Names) -> bool) {
        let mut count = self.running.count.subscribe();
        while !is_right(&self.running.names()) {
            // The sender is ours: it cannot be gone.
            let _ = count.changed().await;
        }
    }

    /// The names of the tasks that run now.
    pub fn names(&self) -> Vec<String> {
        self.running.names().live.values().map(|it| it.name.clone()).collect()
    }

    fn name_of(&self, name: &str) -> String {
        if self.prefix.is_empty() { name.to_owned() } else { format!("{}/{name}", self.prefix) }
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("(no message)")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Tasks;

    #[tokio::test(start_paused = true)]
    async fn a_late_shutdown_names_the_tasks_that_did_not_stop() {
        let tasks = Tasks::new();
        tasks.spawn("polite", |shutdown| async move { shutdown.cancelled().await });
        tasks.child("kubelet").spawn("deaf", |_| std::future::pending());
        let late = tasks.shutdown(Duration::from_secs(30)).await.unwrap_err();
        assert_eq!(late.to_string(), r#"tasks still running after 30s: ["kubelet/deaf"]"#);
    }

    #[tokio::test(start_paused = true)]
    async fn a_subtree_has_ended_when_its_last_task_has() {
        let tasks = Tasks::new();
        tasks.spawn("other", |shutdown| async move { shutdown.cancelled().await });
        let child = tasks.child("child");
        child.ended().await;
        for seconds in [1, 3] {
            child.child("deep").spawn("slow", |shutdown| async move {
                shutdown.cancelled().await;
                tokio::time::sleep(Duration::from_secs(seconds)).await;
            });
        }
        let started = tokio::time::Instant::now();
        child.cancel();
        child.ended().await;
        assert_eq!(started.elapsed(), Duration::from_secs(3));
        assert_eq!(tasks.names(), ["other"]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_others_need_ends_after_them() {
        let tasks = Tasks::new();
        let (tx, mut rx) = tokio::sync::mpsc::channel(8);
        let say = |tasks: &Tasks, name: &'static str, seconds| {
            let tx = tx.clone();
            tasks.spawn(name, move |shutdown| async move {
                shutdown.cancelled().await;
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                let _ = tx.send(name).await;
            });
        };
        say(&tasks.child_last("store").child("deep"), "store", 0);
        say(&tasks.child("component"), "component", 3);
        tasks.shutdown(Duration::from_secs(5)).await.unwrap();
        assert_eq!((rx.recv().await, rx.recv().await), (Some("component"), Some("store")));
        // Whoever is late is named, and holds up nobody else's end.
        say(&tasks.child_last("store"), "store", 0);
        tasks.child("kubelet").spawn("deaf", |_| std::future::pending());
        let late = tasks.shutdown(Duration::from_secs(5)).await.unwrap_err();
        assert!(late.names.contains(&"kubelet/deaf".to_owned()));
        assert_eq!(rx.recv().await, Some("store"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_panicking_component_is_started_again() {
        let tasks = Tasks::new();
        let (tx, mut rx) = tokio::sync::mpsc::channel(8);
        let mut runs = 0;
        tasks.spawn_restarting("flaky", move |_| {
            runs += 1;
            let (tx, run) = (tx.clone(), runs);
            async move {
                assert!(run > 2, "run {run} fails");
                let _ = tx.send(run).await;
            }
        });
        assert_eq!(rx.recv().await, Some(3));
        tasks.shutdown(Duration::from_secs(1)).await.unwrap();
    }
}
