//! Finding again what an earlier `xebec` has made, and following what holders say.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lifecycle::Shutdown;
use node_api::containers::{ContainerState, Exit};
use node_api::sandboxes::{NetworkNamespace, Sandbox, SandboxState};
use node_api::{ContainerId, Error, SandboxId};

use super::Inner;
use super::link::Link;
use crate::files;
use crate::protocol::{ContainerRecord, ContainerStatus, Event, Life, Request, SandboxRecord};

/// As containerd reports a container whose end nobody has seen.
const CODE_UNKNOWN: i32 = 255;
const MESSAGE_UNKNOWN: &str = "the sandbox's holder died; how the container ended is not known";
/// A holder answers at once; one that does not is taken for dead.
const TIMEOUT_ADOPT: Duration = Duration::from_secs(10);

impl Inner {
    pub(super) async fn adopt_all(self: &Arc<Self>) -> Result<(), Error> {
        for id in names(&self.sandboxes_directory())?.into_iter().map(SandboxId::new) {
            self.adopt_sandbox(&id).await?;
        }
        let owners = self.book.containers(None).into_iter().map(|it| it.id).collect();
        self.roots.retain(owners).await?;
        let kept = self
            .book
            .sandboxes()
            .into_iter()
            .filter(|it| it.config.network == NetworkNamespace::Pod)
            .filter_map(|it| Some((it.id.clone(), self.book.sandbox(&it.id)?.1?.namespace().ok()?)))
            .collect();
        self.network.keep_only(kept).await
    }

    async fn adopt_sandbox(self: &Arc<Self>, id: &SandboxId) -> Result<(), Error> {
        let directory = self.sandbox_directory(id);
        let record: Option<SandboxRecord> = files::read_json(&directory.join("sandbox.json"))
            .map_err(|err| Error::node(format!("reading sandbox {id}"), err))?;
        let Some(SandboxRecord { config, created, addresses: Some(addresses), .. }) = record else {
            return self.remove_half_made(id).await;
        };
        let socket = directory.join("sock");
        let opened = tokio::time::timeout(TIMEOUT_ADOPT, Link::open(&socket)).await;
        let (link, statuses) = match opened {
            Ok(Ok((link, statuses))) => (Some(link), statuses),
            Ok(Err(_)) | Err(_) => (None, Vec::new()),
        };
        let state = if link.is_some() { SandboxState::Ready } else { SandboxState::NotReady };
        let sandbox = Sandbox { id: id.clone(), config, created, state, addresses };
        self.book.add_sandbox(sandbox, link.clone());
        self.adopt_containers(id, &statuses, link.is_some()).await?;
        match link {
            Some(link) => self.watch(id.clone(), link),
            None => self.end_leftovers(id),
        }
        Ok(())
    }

    /// A crash came between its first and its last step.
    async fn remove_half_made(&self, id: &SandboxId) -> Result<(), Error> {
        let socket = self.sandbox_directory(id).join("sock");
        let end = async {
            if let Ok((link, _)) = Link::open(&socket).await {
                let _ = link.send_only(&Request::Shutdown).await;
                let _ = link.exited().await;
            }
        };
        let _ = tokio::time::timeout(TIMEOUT_ADOPT, end).await;
        self.remove_sandbox_files(id).await
    }

    async fn adopt_containers(
        &self,
        sandbox: &SandboxId,
        statuses: &[ContainerStatus],
        is_alive: bool,
    ) -> Result<(), Error> {
        let lives: BTreeMap<&str, &Life> =
            statuses.iter().map(|it| (&*it.container, &it.life)).collect();
        let directory = self.sandbox_directory(sandbox).join("containers");
        for name in names(&directory)? {
            let directory = directory.join(&name);
            let id = ContainerId::new(name);
            let record: Option<ContainerRecord> =
                files::read_json(&directory.join("container.json"))
                    .map_err(|err| Error::node(format!("reading container {id}"), err))?;
            let Some(record) = record else {
                self.unmake_container(sandbox, &id).await;
                continue;
            };
            let life = lives.get(id.as_str()).copied();
            let state = self.state_of(&directory, life, is_alive);
            self.book.add_container(id, sandbox.clone(), record, state);
        }
        Ok(())
    }

    fn state_of(&self, directory: &Path, life: Option<&Life>, is_alive: bool) -> ContainerState {
        match life {
            Some(Life::Exited(exit)) => return ContainerState::Exited(exit.clone()),
            Some(Life::Running { started }) => {
                return ContainerState::Running { started: *started };
            }
            // Its end or its beginning is told soon.
            Some(Life::Starting) => return ContainerState::Created,
            None => {}
        }
        match files::read_json::<Exit>(&directory.join("exit.json")) {
            Ok(Some(exit)) => ContainerState::Exited(exit),
            Ok(None) | Err(_) if is_alive => ContainerState::Created,
            Ok(None) | Err(_) => ContainerState::Exited(self.unknown_exit(None)),
        }
    }

    fn unknown_exit(&self, started: Option<jiff::Timestamp>) -> Exit {
        Exit {
            code: CODE_UNKNOWN,
            signal: None,
            oom_killed: false,
            started,
            finished: self.world.clock.now(),
            message: Some(MESSAGE_UNKNOWN.to_owned()),
        }
    }

    /// Follows what the holder says until it is gone.
    pub(super) fn watch(self: &Arc<Self>, id: SandboxId, link: Arc<Link>) {
        let inner = self.clone();
        let name = format!("holder-{}", &id.as_str()[..12.min(id.as_str().len())]);
        self.tasks.spawn(&name, |shutdown| async move {
            inner.follow(&id, link, shutdown).await;
        });
    }

    async fn follow(&self, id: &SandboxId, first: Arc<Link>, shutdown: Shutdown) {
        let mut link = first;
        loop {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => {
                    link.end();
                    return;
                }
                _ = link.read(|event| self.apply(id, event)) => {}
            }
            // One that was too slow is disconnected by a holder that lives.
            match self.reconnect(id).await {
                Some(new) => {
                    self.book.set_link(id, new.clone());
                    link.end();
                    link = new;
                }
                None => {
                    self.end_leftovers(id);
                    self.book.sandbox_ended(id);
                    link.end();
                    return;
                }
            }
        }
    }

    async fn reconnect(&self, id: &SandboxId) -> Option<Arc<Link>> {
        let socket = self.sandbox_directory(id).join("sock");
        let opened = tokio::time::timeout(TIMEOUT_ADOPT, Link::open(&socket)).await;
        let (link, statuses) = opened.ok()?.ok()?;
        for ContainerStatus { container, life } in statuses {
            let state = match life {
                Life::Starting => continue,
                Life::Running { started } => ContainerState::Running { started },
                Life::Exited(exit) => ContainerState::Exited(exit),
            };
            self.book.set_container_state(&ContainerId::new(container), state);
        }
        Some(link)
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
                let state = ContainerState::Exited(exit);
                self.book.set_container_state(&ContainerId::new(container), state);
            }
            Event::CommandExited { .. } => {}
        }
    }

    /// The holder is gone, and its containers with it; whatever escaped is killed.
    fn end_leftovers(&self, sandbox: &SandboxId) {
        for container in self.book.containers(Some(sandbox)) {
            let Some(known) = self.book.known(&container.id) else { continue };
            // The cgroup may be gone already.
            let _ = self.cgroups.kill(&known.record.cgroup);
            if let ContainerState::Running { started } = container.state {
                let directory = self.container_directory(sandbox, &container.id);
                let exit = match files::read_json::<Exit>(&directory.join("exit.json")) {
                    Ok(Some(exit)) => exit,
                    Ok(None) | Err(_) => self.unknown_exit(Some(started)),
                };
                self.book.set_container_state(&container.id, ContainerState::Exited(exit));
            }
        }
    }
}

/// In their order, so that a history repeats.
fn names(directory: &Path) -> Result<Vec<String>, Error> {
    let read = |err| Error::node(format!("reading {}", directory.display()), err);
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(err) => return Err(read(err)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(read)?;
        names.extend(entry.file_name().into_string().ok());
    }
    names.sort();
    Ok(names)
}
