//! Making, stopping and removing sandboxes.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use node_api::network::Attachment;
use node_api::sandboxes::{NetworkNamespace, PidNamespace, Sandbox, SandboxConfig, SandboxState};
use node_api::{Cgroups as _, ContainerId, Error, SandboxId};

use super::book::Holder;
use super::containers::cgroup_name;
use super::link::{self, Link};
use super::process::Process;
use super::unreadable::Kept;
use super::{Inner, found, pod_files, spawn};
use crate::holder::pod_init;
use crate::protocol::{Refusal, Request};
use crate::records::{self, Limits, SandboxRecord};

/// A holder takes milliseconds to come and to go; this is for machines in distress.
const TIMEOUT_HOLDER: Duration = Duration::from_secs(30);

impl Inner {
    pub(super) async fn create_sandbox(
        self: &Arc<Self>,
        config: SandboxConfig,
    ) -> Result<Sandbox, Error> {
        crate::spec::refuse_sandbox(&config)?;
        let _claim = self.book.claim(&config)?;
        let id = SandboxId::new(self.new_id());
        let record = SandboxRecord {
            config: config.clone().into(),
            created: self.world.clock.now(),
            cgroup_root: self.config.cgroup_root.clone(),
            log_limits: Limits {
                size_max: self.config.log_size_max,
                files_max: self.config.log_files_max,
            },
            addresses: None,
        };
        let link = match self.start_holder(&id, &config, &record).await {
            Ok(link) => link,
            Err(err) => {
                self.unmake_sandbox(&id).await;
                return Err(err);
            }
        };
        match self.attach_sandbox(&id, config, record, &link).await {
            Ok(sandbox) => {
                self.book.add_sandbox(sandbox.clone(), Holder::Linked(link.clone()));
                self.watch(id, link);
                Ok(sandbox)
            }
            Err(err) => {
                self.unmake_sandbox(&id).await;
                if let Err(err) = self.network.detach(&id).await {
                    tracing::warn!(sandbox = %id, error = stdx::error_chain(&err), "undoing a sandbox: detaching it");
                }
                Err(err)
            }
        }
    }

    async fn start_holder(
        &self,
        id: &SandboxId,
        config: &SandboxConfig,
        record: &SandboxRecord,
    ) -> Result<Arc<Link>, Error> {
        let directory = self.sandbox_directory(id);
        let (program, config, record) = (self.program.clone(), config.clone(), record.clone());
        let path = directory.clone();
        let cluster = self.config.cluster;
        tokio::task::spawn_blocking(move || {
            prepare(&path, &config, &record)?;
            spawn::spawn(&program, &path, cluster)
                .map_err(|err| Error::node("starting a holder", err))
        })
        .await
        .unwrap_or_else(|err| Err(Error::node("starting a sandbox", err)))?;
        match tokio::time::timeout(TIMEOUT_HOLDER, Link::open(&directory)).await {
            Ok(Ok((link, _))) => Ok(link),
            Ok(Err(link::Error::Refused(Refusal::CouldNotStart(why)))) => Err(Error::Refused(why)),
            Ok(Err(err)) => Err(Error::node("starting the sandbox's holder", err)),
            Err(_) => Err(Error::TimedOut(TIMEOUT_HOLDER)),
        }
    }

    async fn attach_sandbox(
        &self,
        id: &SandboxId,
        config: SandboxConfig,
        mut record: SandboxRecord,
        link: &Link,
    ) -> Result<Sandbox, Error> {
        let addresses = match config.network {
            NetworkNamespace::Host => Vec::new(),
            NetworkNamespace::Pod => {
                let attachment = Attachment {
                    pod: config.pod.clone(),
                    sandbox: id.clone(),
                    namespace: link.process.namespace(),
                    host_ports: config.host_ports.clone(),
                };
                self.network.attach(attachment).await?
            }
        };
        record.addresses = Some(addresses.clone());
        records::write(&self.sandbox_directory(id), &record)
            .map_err(|err| Error::node(format!("recording sandbox {id}"), err))?;
        let created = record.created;
        Ok(Sandbox { id: id.clone(), config, created, state: SandboxState::Ready, addresses })
    }

    /// What cannot be undone now is found by the next start: the sandbox is recorded as half made.
    /// Nobody was told of it, so its holder is not asked.
    async fn unmake_sandbox(&self, id: &SandboxId) {
        if let Some(process) = self.locate(id).await {
            process.kill();
            if tokio::time::timeout(TIMEOUT_HOLDER, process.exited()).await.is_err() {
                tracing::warn!(sandbox = %id, "undoing a sandbox: its holder does not end");
                return;
            }
        }
        if let Err(err) = self.remove_sandbox_files(id).await {
            tracing::warn!(sandbox = %id, error = stdx::error_chain(&err), "undoing a sandbox: removing its files");
        }
    }

    pub(super) async fn stop_sandbox(
        &self,
        id: &SandboxId,
        if_silent: IfSilent,
    ) -> Result<(), Error> {
        let Some((sandbox, holder)) = self.book.sandbox(id) else { return Ok(()) };
        match &holder {
            Holder::Gone => {}
            Holder::Linked(link) => {
                self.end_holder(id, link, if_silent).await?;
                link.ended.wait().await;
            }
            Holder::Silent(process) => match if_silent {
                IfSilent::Refuse => return Err(Error::NotResponding(id.clone())),
                IfSilent::Kill => kill_holder(process).await?,
            },
        }
        self.book.sandbox_ended(id);
        if sandbox.config.network == NetworkNamespace::Pod {
            self.network.detach(id).await?;
        }
        pod_files::unmount(&self.sandbox_directory(id))
            .map_err(|err| Error::node(format!("unmounting /dev/shm of sandbox {id}"), err))
    }

    /// Asks; one that answers and does not end is killed. Its containers end with it either way.
    async fn end_holder(
        &self,
        id: &SandboxId,
        link: &Link,
        if_silent: IfSilent,
    ) -> Result<(), Error> {
        let asked = async {
            // A holder that has ended by itself answers nothing.
            let _ = link.call(&Request::Shutdown).await;
            link.process.exited().await
        };
        if let Ok(ended) = tokio::time::timeout(self.config.timeouts.end, asked).await {
            return ended.map_err(|err| Error::node("waiting for the holder's end", err));
        }
        let answers = self.ask(id, link, &Request::State).await;
        match (if_silent, answers) {
            (IfSilent::Refuse, Err(link::Error::Silent(_))) => {
                Err(Error::NotResponding(id.clone()))
            }
            (IfSilent::Refuse, _) | (IfSilent::Kill, _) => kill_holder(&link.process).await,
        }
    }

    pub(super) async fn remove_sandbox(
        &self,
        id: &SandboxId,
        if_silent: IfSilent,
    ) -> Result<(), Error> {
        let Some((sandbox, _)) = self.book.sandbox(id) else { return Ok(()) };
        self.stop_sandbox(id, if_silent).await?;
        // Also those that cannot be read: whoever removes a pod removes all of it.
        let directory = self.sandbox_directory(id).join("containers");
        let containers = found::names(&directory)
            .map_err(|err| Error::node(format!("reading {}", directory.display()), err))?;
        let containers: Vec<_> = containers.into_iter().map(ContainerId::new).collect();
        self.cgroups.unkeep(&containers);
        for container in &containers {
            self.cgroups.remove(&cgroup_name(&sandbox, container)).await?;
            self.roots.release(container).await?;
        }
        if sandbox.config.pid == PidNamespace::Pod {
            self.cgroups.remove(&pod_init::cgroup(&sandbox.config.cgroup)).await?;
        }
        self.remove_sandbox_files(id).await?;
        self.book.forget_sandbox(id);
        Ok(())
    }

    /// When the whole node goes.
    pub(super) async fn purge_unreadable(&self, kept: &Kept) -> Result<(), Error> {
        self.cgroups.unkeep(&kept.containers);
        if let Some(process) = &kept.holder {
            kill_holder(process).await?;
        }
        for cgroup in self.cgroups.find(&kept.containers)? {
            self.cgroups.remove(&cgroup).await?;
        }
        if kept.report.container.is_none() {
            self.network.detach(&kept.report.sandbox).await?;
            self.remove_sandbox_files(&kept.report.sandbox).await?;
        }
        Ok(())
    }

    pub(super) async fn remove_sandbox_files(&self, id: &SandboxId) -> Result<(), Error> {
        let directory = self.sandbox_directory(id);
        let doing = format!("removing {}", directory.display());
        tokio::task::spawn_blocking(move || {
            pod_files::unmount(&directory)?;
            remove_directory(&directory)
        })
        .await
        .unwrap_or_else(|err| Err(err.into()))
        .map_err(|err| Error::node(doing, err))
    }
}

/// What is done about a holder that lives and does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IfSilent {
    Refuse,
    Kill,
}

async fn kill_holder(process: &Process) -> Result<(), Error> {
    process.kill();
    tokio::time::timeout(TIMEOUT_HOLDER, process.exited())
        .await
        .map_err(|_| Error::TimedOut(TIMEOUT_HOLDER))?
        .map_err(|err| Error::node("waiting for the holder's end", err))
}

fn prepare(directory: &Path, config: &SandboxConfig, record: &SandboxRecord) -> Result<(), Error> {
    let write = || -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        fs::create_dir(directory.join("containers"))?;
        records::write(directory, record)?;
        pod_files::write(directory, config)
    };
    write().map_err(|err| Error::node(format!("making {}", directory.display()), err))
}

/// What is gone was removed.
pub(super) fn remove_directory(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
