//! Staying in touch with holders: what they say is applied in its order, a connection that breaks is
//! made anew, and one that is silent is waited for. Only the kernel says that a holder is dead.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use lifecycle::Shutdown;
use node_api::containers::ContainerState;
use node_api::{ContainerId, Error, SandboxId};
use stdx::Backoff;

use super::Inner;
use super::book::Holder;
use super::link::{self, Link};
use super::process::{Machine, Process};
use crate::protocol::{ContainerStatus, Event, Life, Reply, Request};

/// Between attempts to connect to a holder that lives. One that is only silent is asked once: its
/// answer comes when it can.
const BACKOFF_FIRST: Duration = Duration::from_millis(20);
const BACKOFF_MAX: Duration = Duration::from_secs(5);
/// How many times in a row a holder may show that it lives while something else is waited for.
const PATIENCE: u32 = 12;

/// Resolves when the holder answers, however long that takes; `None` when its process is gone.
pub(super) type Contact = BoxFuture<'static, Option<Contacted>>;

pub(super) struct Contacted {
    pub(super) link: Arc<Link>,
    pub(super) statuses: Vec<ContainerStatus>,
}

impl Inner {
    pub(super) fn contact(self: &Arc<Self>, id: &SandboxId, process: &Arc<Process>) -> Contact {
        let (inner, id, mut process) = (self.clone(), id.clone(), process.clone());
        Box::pin(async move {
            loop {
                if let Some(contacted) = inner.contact_process(&id, &process).await {
                    return Some(contacted);
                }
                process = inner.locate(&id).await?;
            }
        })
    }

    /// `None`: this process has ended.
    async fn contact_process(&self, id: &SandboxId, process: &Process) -> Option<Contacted> {
        let directory = self.sandbox_directory(id);
        let mut backoff = Backoff::new(BACKOFF_FIRST, BACKOFF_MAX);
        let asking = async {
            loop {
                match Link::open(&directory).await {
                    Ok((link, statuses)) => return Contacted { link, statuses },
                    Err(err) => {
                        tracing::debug!(sandbox = %id, error = stdx::error_chain(&err), "asking a holder");
                    }
                }
                tokio::time::sleep(backoff.step()).await;
            }
        };
        tokio::select! {
            biased;
            contacted = asking => Some(contacted),
            ended = process.exited() => match ended {
                Ok(()) => None,
                Err(err) => {
                    // It cannot be waited for: then it is not known to be dead.
                    tracing::error!(sandbox = %id, error = %err, "watching a holder");
                    std::future::pending().await
                }
            },
        }
    }

    /// Whether there is another process that may be it: a child of an older holder has its
    /// arguments too.
    pub(super) async fn locate(&self, id: &SandboxId) -> Option<Arc<Process>> {
        let (directory, of) = (self.sandbox_directory(id), id.clone());
        let looked =
            tokio::task::spawn_blocking(move || Machine::default().holder(&directory, &of)).await;
        match looked {
            Ok(Ok(process)) => process.map(Arc::new),
            Ok(Err(err)) => {
                tracing::error!(sandbox = %id, error = %err, "looking for a holder");
                None
            }
            Err(_) => None,
        }
    }

    /// Follows what the holder says until it is gone.
    pub(super) fn watch(self: &Arc<Self>, id: SandboxId, link: Arc<Link>) {
        self.spawn_follower(id, |inner, id, shutdown| async move {
            inner.follow(&id, link, shutdown).await;
        });
    }

    /// The same for one that has not answered yet.
    pub(super) fn watch_silent(self: &Arc<Self>, id: SandboxId, contact: Contact) {
        self.spawn_follower(id, |inner, id, shutdown| async move {
            let contacted = tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                contacted = contact => contacted,
            };
            match contacted {
                Some(contacted) => {
                    let link = inner.take_up(&id, contacted);
                    inner.follow(&id, link, shutdown).await;
                }
                None => inner.holder_died(&id),
            }
        });
    }

    fn spawn_follower<F>(
        self: &Arc<Self>,
        id: SandboxId,
        follow: impl FnOnce(Arc<Self>, SandboxId, Shutdown) -> F,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let name = format!("holder-{}", &id.as_str()[..12.min(id.as_str().len())]);
        let inner = self.clone();
        self.tasks.spawn(&name, |shutdown| follow(inner, id, shutdown));
    }

    async fn follow(self: &Arc<Self>, id: &SandboxId, first: Arc<Link>, shutdown: Shutdown) {
        let mut link = first;
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return link.end(),
                _ = link.read(|event| self.apply(id, event)) => {}
            }
            // One that was too slow is disconnected by a holder that lives.
            link.hang_up();
            let contacted = tokio::select! {
                biased;
                () = shutdown.cancelled() => return link.end(),
                contacted = self.contact_again(id, &link) => contacted,
            };
            let Some(contacted) = contacted else {
                self.holder_died(id);
                return link.end();
            };
            let new = self.take_up(id, contacted);
            link.end();
            link = new;
        }
    }

    async fn contact_again(self: &Arc<Self>, id: &SandboxId, link: &Link) -> Option<Contacted> {
        let mut contact = self.contact(id, &link.process);
        match tokio::time::timeout(self.config.timeouts.adopt, &mut contact).await {
            Ok(contacted) => contacted,
            Err(_) => {
                self.fall_silent(id, link.process.clone());
                contact.await
            }
        }
    }

    /// It lives and does not answer.
    pub(super) fn fall_silent(&self, id: &SandboxId, process: Arc<Process>) {
        tracing::warn!(sandbox = %id, "the holder lives but does not answer");
        let containers: Vec<_> =
            self.book.containers(Some(id)).into_iter().map(|it| it.id).collect();
        self.cgroups.keep(&containers);
        self.book.set_holder(id, Holder::Silent(process));
        self.book.tell_silent(id);
    }

    /// It has answered: what happened meanwhile is in its answer.
    fn take_up(&self, id: &SandboxId, contacted: Contacted) -> Arc<Link> {
        let Contacted { link, statuses } = contacted;
        for ContainerStatus { container, life } in statuses {
            let state = match life {
                Life::Starting => continue,
                Life::Running { started } => ContainerState::Running { started },
                Life::Exited(exit) => ContainerState::Exited(exit.into()),
            };
            self.book.set_container_state(&ContainerId::new(container), state);
        }
        self.unkeep(id);
        self.book.set_holder(id, Holder::Linked(link.clone()));
        link
    }

    fn holder_died(&self, id: &SandboxId) {
        self.unkeep(id);
        self.end_leftovers(id);
        self.book.sandbox_ended(id);
    }

    fn unkeep(&self, id: &SandboxId) {
        let containers: Vec<_> =
            self.book.containers(Some(id)).into_iter().map(|it| it.id).collect();
        self.cgroups.unkeep(&containers);
    }

    fn apply(&self, sandbox: &SandboxId, event: Event) {
        match event {
            Event::ContainerStarted { container, at } => {
                let state = ContainerState::Running { started: at };
                self.book.set_container_state(&ContainerId::new(container), state);
            }
            Event::ContainerExited { container, exit, log_writes_lost } => {
                if log_writes_lost > 0 {
                    tracing::warn!(%sandbox, %container, log_writes_lost, "the disk did not take all of a container's log");
                }
                let state = ContainerState::Exited(exit.into());
                self.book.set_container_state(&ContainerId::new(container), state);
            }
            Event::CommandExited { .. } => {}
        }
    }

    /// The link to a holder that can be asked; `None` if the holder is gone.
    pub(super) fn link(&self, sandbox: &SandboxId) -> Result<Option<Arc<Link>>, Error> {
        match self.book.holder(sandbox) {
            Holder::Gone => Ok(None),
            Holder::Silent(_) => Err(Error::NotResponding(sandbox.clone())),
            Holder::Linked(link) if link.is_silent() => Err(Error::NotResponding(sandbox.clone())),
            Holder::Linked(link) => Ok(Some(link)),
        }
    }

    /// Waits for an answer as long as the holder shows that it lives.
    pub(super) async fn patiently<T>(
        &self,
        sandbox: &SandboxId,
        link: &Link,
        call: impl Future<Output = Result<T, link::Error>>,
    ) -> Result<T, link::Error> {
        let timeout = self.config.timeouts.answer;
        let mut call = std::pin::pin!(call);
        for _ in 0..PATIENCE {
            if let Ok(answer) = tokio::time::timeout(timeout, &mut call).await {
                return answer;
            }
            if tokio::time::timeout(timeout, link.call(&Request::State)).await.is_err() {
                if link.set_silent() {
                    tracing::warn!(%sandbox, "the holder lives but does not answer");
                    self.book.tell_silent(sandbox);
                }
                return Err(link::Error::Silent(timeout));
            }
        }
        Err(link::Error::Late(timeout * PATIENCE))
    }

    pub(super) async fn ask(
        &self,
        sandbox: &SandboxId,
        link: &Link,
        request: &Request,
    ) -> Result<Reply, link::Error> {
        self.patiently(sandbox, link, link.call(request)).await
    }
}

/// What a kubelet is told.
pub(super) fn told(sandbox: &SandboxId, doing: impl Into<String>, err: link::Error) -> Error {
    match err {
        link::Error::Silent(_) | link::Error::Busy => Error::NotResponding(sandbox.clone()),
        err => Error::node(doing, err),
    }
}
