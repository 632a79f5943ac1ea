//! Sandboxes over CRI.

use grpc::Code;
use node_api::sandboxes::{
    Sandbox, SandboxConfig, SandboxState, SandboxStats, Sandboxes, Status, Version,
};
use node_api::{Error, Events, Future, SandboxId, network};
use tokio::sync::watch;

use crate::link::Repeat;
use crate::messages as cri;
use crate::{Cri, Inner, convert, methods};

/// RunPodSandbox may wait for a network and for an image: as upstream's, twice the usual.
const TIMEOUT_RUN: std::time::Duration = std::time::Duration::from_secs(240);

impl Sandboxes for Cri {
    fn version(&self) -> Version {
        self.inner.version.clone()
    }

    fn status(&self) -> watch::Receiver<Status> {
        self.inner.status.subscribe()
    }

    fn create(&self, config: SandboxConfig) -> Future<'_, Sandbox> {
        Box::pin(async move { self.inner.create_sandbox(config).await })
    }

    fn stop(&self, id: &SandboxId) -> Future<'_, ()> {
        let id = id.clone();
        Box::pin(async move { self.inner.stop_sandbox(&id).await })
    }

    fn remove(&self, id: &SandboxId) -> Future<'_, ()> {
        let id = id.clone();
        Box::pin(async move { self.inner.remove_sandbox(&id).await })
    }

    fn list(&self) -> Vec<Sandbox> {
        self.inner.book.sandboxes()
    }

    fn events(&self) -> Events {
        self.inner.book.events()
    }

    fn network(&self) -> watch::Receiver<network::Status> {
        self.inner.network.subscribe()
    }

    fn stats(&self, id: &SandboxId) -> Future<'_, SandboxStats> {
        let id = id.clone();
        Box::pin(async move { self.inner.sandbox_stats(&id).await })
    }
}

impl Inner {
    async fn create_sandbox(&self, config: SandboxConfig) -> Result<Sandbox, Error> {
        self.abilities().refuse_sandbox(&config)?;
        let is_same = |it: &Sandbox| {
            it.config.pod.uid == config.pod.uid && it.config.attempt == config.attempt
        };
        if let Some(same) = self.book.sandboxes().into_iter().find(is_same) {
            return Ok(same);
        }
        let question = cri::RunPodSandboxRequest {
            config: Some(self.sandbox_message(&config)),
            runtime_handler: config.runtime_handler.clone(),
        };
        let doing = "running a sandbox";
        let answer = self
            .link
            .call_within(TIMEOUT_RUN, methods::RUN_POD_SANDBOX, &question, Repeat::IfUnseen)
            .await
            .map_err(|err| err.into_error(doing))?;
        let id = SandboxId::new(answer.pod_sandbox_id);
        let found = self.found_sandbox(&id, config).await;
        let sandbox = found.map_err(|err| err.into_node(doing))?;
        let sandbox = sandbox.ok_or_else(|| Error::NoSandbox(id))?;
        self.book.put_sandbox(sandbox.clone());
        Ok(sandbox)
    }

    pub(crate) fn sandbox_message(&self, config: &SandboxConfig) -> cri::PodSandboxConfig {
        let parts = [&self.config.cgroup_root, &config.cgroup].map(|it| it.trim_matches('/'));
        let parts: Vec<&str> = parts.into_iter().filter(|it| !it.is_empty()).collect();
        let cgroup = format!("/{}", parts.join("/"));
        convert::sandbox(config, self.config.cluster, &cgroup)
    }

    async fn stop_sandbox(&self, id: &SandboxId) -> Result<(), Error> {
        let question = cri::PodSandboxRequest { pod_sandbox_id: id.to_string() };
        match self.link.call(methods::STOP_POD_SANDBOX, &question, Repeat::Safe).await {
            Err(err) if !err.is(Code::NotFound) => {
                return Err(err.into_error("stopping a sandbox"));
            }
            Ok(_) | Err(_) => {}
        }
        for container in self.book.containers(Some(id)) {
            self.look_at_container(&container.id).await?;
        }
        if let Some(sandbox) = self.book.sandbox(id) {
            self.book.put_sandbox(Sandbox { state: SandboxState::NotReady, ..sandbox });
        }
        Ok(())
    }

    async fn remove_sandbox(&self, id: &SandboxId) -> Result<(), Error> {
        self.stop_sandbox(id).await?;
        let question = cri::PodSandboxRequest { pod_sandbox_id: id.to_string() };
        match self.link.call(methods::REMOVE_POD_SANDBOX, &question, Repeat::Safe).await {
            Err(err) if !err.is(Code::NotFound) => Err(err.into_error("removing a sandbox")),
            Ok(_) | Err(_) => {
                self.book.forget_sandbox(id);
                Ok(())
            }
        }
    }

    async fn sandbox_stats(&self, id: &SandboxId) -> Result<SandboxStats, Error> {
        if self.book.sandbox(id).is_none() {
            return Err(Error::NoSandbox(id.clone()));
        }
        let question = cri::PodSandboxRequest { pod_sandbox_id: id.to_string() };
        let answer = self.link.call(methods::POD_SANDBOX_STATS, &question, Repeat::Safe).await;
        let answer = answer.map_err(|err| err.into_error("telling what a sandbox uses"))?;
        let stats = answer.stats.and_then(|it| it.linux).unwrap_or_default();
        Ok(convert::sandbox_stats(&stats, self.world.clock.now()))
    }
}
