//! Making, stopping and removing sandboxes.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use node_api::network::Attachment;
use node_api::sandboxes::{NetworkNamespace, PidNamespace, Sandbox, SandboxConfig, SandboxState};
use node_api::{Cgroups as _, ClusterId, Error, SandboxId};

use super::Inner;
use super::link::{self, Link};
use super::pod_files;
use super::spawn::{self, Program};
use crate::files;
use crate::holder::pod_init;
use crate::protocol::{Limits, Refusal, Request, SandboxRecord};

/// A holder takes milliseconds to come and to go; this is for machines in distress.
const TIMEOUT_HOLDER: Duration = Duration::from_secs(30);

impl Inner {
    pub(super) async fn create_sandbox(
        self: &Arc<Self>,
        config: SandboxConfig,
    ) -> Result<Sandbox, Error> {
        let _claim = self.book.claim(&config)?;
        let id = SandboxId::new(self.new_id());
        let record = SandboxRecord {
            config,
            created: self.world.clock.now(),
            cgroup_root: self.config.cgroup_root.clone(),
            log_limits: Limits {
                size_max: self.config.log_size_max,
                files_max: self.config.log_files_max,
            },
            addresses: None,
        };
        let link = match self.start_holder(&id, &record).await {
            Ok(link) => link,
            Err(err) => {
                self.unmake_sandbox(&id, None).await;
                return Err(err);
            }
        };
        match self.attach_sandbox(&id, record, &link).await {
            Ok(sandbox) => {
                self.book.add_sandbox(sandbox.clone(), Some(link.clone()));
                self.watch(id, link);
                Ok(sandbox)
            }
            Err(err) => {
                self.unmake_sandbox(&id, Some(&link)).await;
                Err(err)
            }
        }
    }

    async fn start_holder(
        &self,
        id: &SandboxId,
        record: &SandboxRecord,
    ) -> Result<Arc<Link>, Error> {
        let directory = self.sandbox_directory(id);
        let (program, record) = (self.program.clone(), record.clone());
        let path = directory.clone();
        let cluster = self.config.cluster;
        tokio::task::spawn_blocking(move || prepare(&program, cluster, &path, &record))
            .await
            .unwrap_or_else(|err| Err(Error::node("starting a sandbox", err)))?;
        let socket = directory.join("sock");
        match tokio::time::timeout(TIMEOUT_HOLDER, Link::open(&socket)).await {
            Ok(Ok((link, _))) => Ok(link),
            Ok(Err(link::Error::Refused(Refusal::CouldNotStart(why)))) => Err(Error::Refused(why)),
            Ok(Err(err)) => Err(Error::node("starting the sandbox's holder", err)),
            Err(_) => Err(Error::TimedOut(TIMEOUT_HOLDER)),
        }
    }

    async fn attach_sandbox(
        &self,
        id: &SandboxId,
        mut record: SandboxRecord,
        link: &Link,
    ) -> Result<Sandbox, Error> {
        let addresses = match record.config.network {
            NetworkNamespace::Host => Vec::new(),
            NetworkNamespace::Pod => {
                let attachment = Attachment {
                    pod: record.config.pod.clone(),
                    sandbox: id.clone(),
                    namespace: link
                        .namespace()
                        .map_err(|err| Error::node("finding the sandbox's namespace", err))?,
                    host_ports: record.config.host_ports.clone(),
                };
                self.network.attach(attachment).await?
            }
        };
        record.addresses = Some(addresses.clone());
        files::write_json(&self.sandbox_directory(id).join("sandbox.json"), &record)
            .map_err(|err| Error::node(format!("recording sandbox {id}"), err))?;
        let SandboxRecord { config, created, .. } = record;
        Ok(Sandbox { id: id.clone(), config, created, state: SandboxState::Ready, addresses })
    }

    /// What cannot be undone now is found by the next start: the sandbox is recorded as half made.
    async fn unmake_sandbox(&self, id: &SandboxId, link: Option<&Link>) {
        if let Some(link) = link {
            link.kill();
            let _ = tokio::time::timeout(TIMEOUT_HOLDER, link.exited()).await;
            if let Err(err) = self.network.detach(id).await {
                tracing::warn!(sandbox = %id, error = stdx::error_chain(&err), "undoing a sandbox: detaching it");
            }
        }
        if let Err(err) = self.remove_sandbox_files(id).await {
            tracing::warn!(sandbox = %id, error = stdx::error_chain(&err), "undoing a sandbox: removing its files");
        }
    }

    pub(super) async fn stop_sandbox(&self, id: &SandboxId) -> Result<(), Error> {
        let Some((sandbox, link)) = self.book.sandbox(id) else { return Ok(()) };
        if let Some(link) = link {
            end_holder(&link).await?;
            link.ended.wait().await;
        }
        self.book.sandbox_ended(id);
        if sandbox.config.network == NetworkNamespace::Pod {
            self.network.detach(id).await?;
        }
        pod_files::unmount(&self.sandbox_directory(id))
            .map_err(|err| Error::node(format!("unmounting /dev/shm of sandbox {id}"), err))
    }

    pub(super) async fn remove_sandbox(&self, id: &SandboxId) -> Result<(), Error> {
        if self.book.sandbox(id).is_none() {
            return Ok(());
        }
        self.stop_sandbox(id).await?;
        for container in self.book.containers(Some(id)) {
            if let Some(known) = self.book.known(&container.id) {
                self.cgroups.remove(&known.record.cgroup).await?;
            }
            self.roots.release(&container.id).await?;
        }
        if let Some((sandbox, _)) = self.book.sandbox(id)
            && sandbox.config.pid == PidNamespace::Pod
        {
            self.cgroups.remove(&pod_init::cgroup(&sandbox.config.cgroup)).await?;
        }
        self.remove_sandbox_files(id).await?;
        self.book.forget_sandbox(id);
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

/// Asks, then kills. Its containers end with it either way.
async fn end_holder(link: &Link) -> Result<(), Error> {
    let asked = async {
        // A holder that has ended by itself answers nothing.
        let _ = link.call(&Request::Shutdown).await;
        link.exited().await
    };
    let ended = match tokio::time::timeout(TIMEOUT_HOLDER, asked).await {
        Ok(ended) => ended,
        Err(_) => {
            link.kill();
            tokio::time::timeout(TIMEOUT_HOLDER, link.exited())
                .await
                .map_err(|_| Error::TimedOut(TIMEOUT_HOLDER))?
        }
    };
    ended.map_err(|err| Error::node("waiting for the holder's end", err))
}

fn prepare(
    program: &Program,
    cluster: ClusterId,
    directory: &Path,
    record: &SandboxRecord,
) -> Result<(), Error> {
    let write = || -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        fs::create_dir(directory.join("containers"))?;
        files::write_json(&directory.join("sandbox.json"), record)?;
        pod_files::write(directory, &record.config)
    };
    write().map_err(|err| Error::node(format!("making {}", directory.display()), err))?;
    spawn::spawn(program, directory, cluster).map_err(|err| Error::node("starting a holder", err))
}

/// What is gone was removed.
pub(super) fn remove_directory(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
