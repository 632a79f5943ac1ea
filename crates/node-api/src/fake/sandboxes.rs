//! Sandboxes in memory.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::sync::watch;

use super::Node;
use super::state::State;
use crate::network::{Attachment, Namespace, Status};
use crate::sandboxes::{NetworkNamespace, Sandbox, SandboxConfig, SandboxState};
use crate::{Error, Events, Future, PodNetwork, SandboxId, Sandboxes};

impl Sandboxes for Node {
    fn create(&self, config: SandboxConfig) -> Future<'_, Sandbox> {
        Box::pin(async move {
            self.enter(format!("sandboxes.create {} #{}", config.pod, config.attempt)).await?;
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
