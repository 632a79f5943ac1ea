//! Sandboxes in memory.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::sync::watch;

use super::Node;
use super::state::State;
use crate::containers::Usage;
use crate::network::{Attachment, Namespace, Status};
use crate::sandboxes::{
    self, Handler, NetworkNamespace, Sandbox, SandboxConfig, SandboxState, SandboxStats, Version,
};
use crate::{Error, Events, Future, PodNetwork, SandboxId, Sandboxes};

impl Sandboxes for Node {
    fn version(&self) -> Version {
        Version { name: "fake".to_owned(), version: "1".to_owned(), api_version: "v1".to_owned() }
    }

    fn status(&self) -> watch::Receiver<sandboxes::Status> {
        self.inner.status.subscribe()
    }

    fn create(&self, config: SandboxConfig) -> Future<'_, Sandbox> {
        Box::pin(async move {
            self.enter(format!("sandboxes.create {} #{}", config.pod, config.attempt)).await?;
            if !self.inner.status.borrow().handlers.contains_key(&config.runtime_handler) {
                let why = format!("RuntimeHandler {:?} not supported", config.runtime_handler);
                return Err(Error::Refused(why));
            }
            if let Some(sandbox) = self.state().same(&config) {
                return Ok(sandbox);
            }
            let id = SandboxId::new(self.hex64());
            let attachment = Attachment {
                pod: config.pod.clone(),
                sandbox: id.clone(),
                namespace: Arc::new(NoNamespace),
                host_ports: config.host_ports.clone(),
            };
            let created = self.now();
            self.change(|state| {
                let addresses = match config.network {
                    NetworkNamespace::Pod => state.attach(attachment)?,
                    NetworkNamespace::Host => Vec::new(),
                };
                let state_ready = SandboxState::Ready;
                let sandbox = Sandbox { id, config, created, state: state_ready, addresses };
                state.sandboxes.push(sandbox.clone());
                Ok(sandbox)
            })
        })
    }

    fn stop(&self, id: &SandboxId) -> Future<'_, ()> {
        let id = id.clone();
        Box::pin(async move {
            let label = self.state().sandbox_label(&id);
            self.enter(format!("sandboxes.stop {label}")).await?;
            let now = self.now();
            self.change(|state| state.end_sandbox(&id, now));
            Ok(())
        })
    }

    fn remove(&self, id: &SandboxId) -> Future<'_, ()> {
        let id = id.clone();
        Box::pin(async move {
            let label = self.state().sandbox_label(&id);
            self.enter(format!("sandboxes.remove {label}")).await?;
            let now = self.now();
            self.change(|state| {
                state.end_sandbox(&id, now);
                state.containers.retain(|it| it.container.sandbox != id);
                state.sandboxes.retain(|it| it.id != id);
            });
            Ok(())
        })
    }

    fn list(&self) -> Vec<Sandbox> {
        self.state().sandboxes.clone()
    }

    fn events(&self) -> Events {
        self.event_stream()
    }

    fn network(&self) -> watch::Receiver<Status> {
        PodNetwork::status(self)
    }

    fn stats(&self, id: &SandboxId) -> Future<'_, SandboxStats> {
        let stats = self.change(|state| {
            state.sandbox(id).ok_or_else(|| Error::NoSandbox(id.clone()))?;
            let mut usage = Usage::default();
            for container in state.containers_of(id) {
                let of_one = state.usages.get(&container).copied().unwrap_or_default();
                usage.cpu += of_one.cpu;
                usage.memory_working_set += of_one.memory_working_set;
            }
            let n_processes = state.containers_of(id).len() as u64;
            Ok(SandboxStats { at: self.now(), usage, interfaces: Vec::new(), n_processes })
        });
        Box::pin(std::future::ready(stats))
    }
}

/// It can do everything.
pub(super) fn healthy() -> sandboxes::Status {
    let handler = Handler { recursive_read_only_mounts: true, user_namespaces: true };
    let handlers = ["", "fake"].map(|name| (name.to_owned(), handler));
    sandboxes::Status { fault: None, handlers: handlers.into() }
}

/// Nothing is ever made in it.
#[derive(Debug)]
struct NoNamespace;

impl Namespace for NoNamespace {
    fn open(&self) -> io::Result<Option<OwnedFd>> {
        Ok(None)
    }
}

impl Node {
    /// An id as containers and sandboxes have.
    pub(super) fn hex64(&self) -> String {
        let mut bytes = [0; 32];
        self.inner.world.random.fill(&mut bytes);
        bytes.iter().map(|it| format!("{it:02x}")).collect()
    }
}

impl State {
    fn same(&self, config: &SandboxConfig) -> Option<Sandbox> {
        let is_same = |it: &&Sandbox| {
            it.config.pod.uid == config.pod.uid && it.config.attempt == config.attempt
        };
        self.sandboxes.iter().find(is_same).cloned()
    }

    /// The sandbox, if something can still run in it.
    pub(super) fn ready_sandbox(&self, id: &SandboxId) -> Result<&Sandbox, Error> {
        let sandbox = self.sandbox(id).ok_or_else(|| Error::NoSandbox(id.clone()))?;
        match sandbox.state {
            SandboxState::Ready => Ok(sandbox),
            SandboxState::NotReady => Err(Error::Refused(format!("sandbox {id} is not ready"))),
        }
    }
}
