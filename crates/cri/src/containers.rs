//! Containers over CRI.

use std::time::Duration;

use grpc::Code;
use node_api::containers::{
    Connection, Container, ContainerConfig, ContainerState, ContainerStats, Containers,
    ExecRequest, Output, Resources, Streams, Usage, wrong_target,
};
use node_api::sandboxes::{SandboxConfig, SandboxState};
use node_api::{ContainerId, Error, Future, SandboxId};

use crate::link::{Repeat, TIMEOUT};
use crate::messages as cri;
use crate::{Cri, Inner, convert, methods};

impl Containers for Cri {
    fn create(&self, sandbox: &SandboxId, config: ContainerConfig) -> Future<'_, ContainerId> {
        let sandbox = sandbox.clone();
        Box::pin(async move { self.inner.create_container(&sandbox, config).await })
    }

    fn start(&self, id: &ContainerId) -> Future<'_, ()> {
        let id = id.clone();
        Box::pin(async move { self.inner.start_container(&id).await })
    }

    fn stop(&self, id: &ContainerId, grace: Duration) -> Future<'_, ()> {
        let id = id.clone();
        Box::pin(async move { self.inner.stop_container(&id, grace).await })
    }

    fn remove(&self, id: &ContainerId) -> Future<'_, ()> {
        let id = id.clone();
        Box::pin(async move { self.inner.remove_container(&id).await })
    }

    fn list(&self, sandbox: Option<&SandboxId>) -> Vec<Container> {
        self.inner.book.containers(sandbox)
    }

    fn get(&self, id: &ContainerId) -> Option<Container> {
        self.inner.book.container(id)
    }

    fn update_resources(&self, id: &ContainerId, resources: Resources) -> Future<'_, ()> {
        let id = id.clone();
        Box::pin(async move { self.inner.update_resources(&id, resources).await })
    }

    fn resources(&self, id: &ContainerId) -> Future<'_, Resources> {
        let id = id.clone();
        Box::pin(async move { self.inner.resources(&id).await })
    }

    fn exec(&self, id: &ContainerId, request: ExecRequest) -> Future<'_, Streams> {
        let id = id.clone();
        Box::pin(async move { self.inner.exec(&id, request).await })
    }

    fn exec_output(
        &self,
        id: &ContainerId,
        command: Vec<String>,
        timeout: Duration,
        limit: usize,
    ) -> Future<'_, Output> {
        let id = id.clone();
        Box::pin(async move { self.inner.exec_output(&id, command, timeout, limit).await })
    }

    fn attach(&self, id: &ContainerId, request: ExecRequest) -> Future<'_, Streams> {
        let id = id.clone();
        Box::pin(async move { self.inner.attach(&id, request).await })
    }

    fn connect(&self, sandbox: &SandboxId, port: u16) -> Future<'_, Box<dyn Connection>> {
        let sandbox = sandbox.clone();
        Box::pin(async move { self.inner.connect(&sandbox, port).await })
    }

    fn usage(&self, id: &ContainerId) -> Future<'_, Usage> {
        let id = id.clone();
        Box::pin(async move { Ok(self.inner.container_stats(&id).await?.usage) })
    }

    fn stats(&self, id: &ContainerId) -> Future<'_, ContainerStats> {
        let id = id.clone();
        Box::pin(async move { self.inner.container_stats(&id).await })
    }

    fn reopen_log(&self, id: &ContainerId) -> Future<'_, ()> {
        let id = id.clone();
        Box::pin(async move { self.inner.reopen_log(&id).await })
    }
}

/// CRI counts whole seconds; 0 would mean "at once" or "never".
fn seconds(duration: Duration) -> i64 {
    let whole = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    whole.saturating_add(i64::from(duration.subsec_nanos() > 0))
}

impl Inner {
    async fn create_container(
        &self,
        sandbox_id: &SandboxId,
        config: ContainerConfig,
    ) -> Result<ContainerId, Error> {
        let Some(sandbox) = self.book.sandbox(sandbox_id) else {
            return Err(Error::NoSandbox(sandbox_id.clone()));
        };
        if sandbox.state != SandboxState::Ready {
            return Err(Error::Refused(format!("sandbox {sandbox_id} is not ready")));
        }
        self.abilities().refuse_container(&config, &sandbox.config)?;
        let is_same =
            |it: &Container| it.config.name == config.name && it.config.attempt == config.attempt;
        if let Some(same) = self.book.containers(Some(sandbox_id)).into_iter().find(is_same) {
            return Ok(same.id);
        }
        if let Some(target) = &config.target
            && let Some(why) =
                wrong_target(target, self.book.container(target).as_ref(), sandbox_id)
        {
            return Err(Error::Refused(why));
        }
        make_log_directory(&config).await?;
        let question = cri::CreateContainerRequest {
            pod_sandbox_id: sandbox_id.to_string(),
            config: Some(self.container_message(&config, &sandbox.config)),
            sandbox_config: Some(self.sandbox_message(&sandbox.config)),
        };
        let doing = "creating a container";
        let answer = self.link.call(methods::CREATE_CONTAINER, &question, Repeat::IfUnseen).await;
        let answer = answer.map_err(|err| refusal_of_host(err.into_error(doing)))?;
        let id = ContainerId::new(answer.container_id);
        let found = self.found_container(&id, sandbox_id.clone(), config).await;
        let container = found.map_err(|err| err.into_node(doing))?;
        let container = container.ok_or_else(|| Error::NoContainer(id.clone()))?;
        self.book.put_container(container);
        Ok(id)
    }

    fn container_message(
        &self,
        config: &ContainerConfig,
        sandbox: &SandboxConfig,
    ) -> cri::ContainerConfig {
        let image = self.image(&config.image);
        let user = image.map(|it| it.config.user).unwrap_or_default();
        convert::container(config, sandbox, self.config.cluster, &user)
    }

    fn known(&self, id: &ContainerId) -> Result<Container, Error> {
        self.book.container(id).ok_or_else(|| Error::NoContainer(id.clone()))
    }

    pub(crate) fn running(&self, id: &ContainerId) -> Result<Container, Error> {
        let known = self.known(id)?;
        match known.state {
            ContainerState::Running { .. } => Ok(known),
            ContainerState::Created | ContainerState::Exited(_) => {
                Err(Error::NotRunning(id.clone()))
            }
        }
    }

    /// Asks the runtime how it is, and tells whoever follows.
    pub(crate) async fn look_at_container(&self, id: &ContainerId) -> Result<(), Error> {
        let Some(known) = self.book.container(id) else { return Ok(()) };
        let found = self.found_container(id, known.sandbox, known.config).await;
        match found.map_err(|err| err.into_node("looking at a container"))? {
            Some(container) => self.book.put_container(container),
            None => self.book.forget_container(id),
        }
        Ok(())
    }

    async fn start_container(&self, id: &ContainerId) -> Result<(), Error> {
        self.known(id)?;
        let question = cri::ContainerRequest { container_id: id.to_string() };
        let started = self.link.call(methods::START_CONTAINER, &question, Repeat::IfUnseen).await;
        self.look_at_container(id).await?;
        let Err(err) = started else { return Ok(()) };
        // The same words as in its status.
        match self.book.container(id).map(|it| it.state) {
            Some(ContainerState::Exited(exit)) => match exit.message {
                Some(why) => Err(Error::Refused(why)),
                None => Err(err.into_error("starting a container")),
            },
            _ => Err(err.into_error("starting a container")),
        }
    }

    async fn stop_container(&self, id: &ContainerId, grace: Duration) -> Result<(), Error> {
        if self.book.container(id).is_none() {
            return Ok(());
        }
        let timeout = seconds(grace);
        let question = cri::StopContainerRequest { container_id: id.to_string(), timeout };
        let within = grace.saturating_add(TIMEOUT);
        let method = methods::STOP_CONTAINER;
        match self.link.call_within(within, method, &question, Repeat::Safe).await {
            Err(err) if !err.is(Code::NotFound) => Err(err.into_error("stopping a container")),
            Ok(_) | Err(_) => self.look_at_container(id).await,
        }
    }

    async fn remove_container(&self, id: &ContainerId) -> Result<(), Error> {
        let question = cri::ContainerRequest { container_id: id.to_string() };
        match self.link.call(methods::REMOVE_CONTAINER, &question, Repeat::Safe).await {
            Err(err) if !err.is(Code::NotFound) => Err(err.into_error("removing a container")),
            Ok(_) | Err(_) => {
                self.book.forget_container(id);
                Ok(())
            }
        }
    }

    async fn update_resources(&self, id: &ContainerId, resources: Resources) -> Result<(), Error> {
        self.known(id)?;
        let question = cri::UpdateContainerResourcesRequest {
            container_id: id.to_string(),
            linux: Some(convert::update(&resources)),
        };
        let method = methods::UPDATE_CONTAINER_RESOURCES;
        let updated = self.link.call(method, &question, Repeat::Safe).await;
        updated.map_err(|err| err.into_error("changing a container's limits"))?;
        self.book.set_resources(id, resources);
        Ok(())
    }

    async fn resources(&self, id: &ContainerId) -> Result<Resources, Error> {
        let told = self.known(id)?.config.resources;
        let question = cri::ContainerRequest { container_id: id.to_string() };
        let answer = self.link.call(methods::CONTAINER_STATUS, &question, Repeat::Safe).await;
        let answer = answer.map_err(|err| err.into_error("reading a container's limits"))?;
        let said = answer.status.and_then(|it| it.resources).and_then(|it| it.linux);
        Ok(match said {
            Some(said) => convert::actual(&said, told),
            None => told,
        })
    }

    /// The runtime kills it when the seconds are over, rounded up; the caller is told in time.
    async fn exec_output(
        &self,
        id: &ContainerId,
        command: Vec<String>,
        timeout: Duration,
        limit: usize,
    ) -> Result<Output, Error> {
        self.running(id)?;
        let question = cri::ExecSyncRequest {
            container_id: id.to_string(),
            cmd: command,
            timeout: seconds(timeout),
        };
        let call = self.link.call_within(
            timeout.saturating_add(TIMEOUT),
            methods::EXEC_SYNC,
            &question,
            Repeat::IfUnseen,
        );
        let answer = match tokio::time::timeout(timeout, call).await {
            Err(_) => return Err(Error::TimedOut(timeout)),
            Ok(Err(err)) if err.is(Code::DeadlineExceeded) => {
                return Err(Error::TimedOut(timeout));
            }
            Ok(answer) => answer.map_err(|err| err.into_error("running a command"))?,
        };
        let cut = |it: bytes::Bytes| it.slice(..it.len().min(limit));
        Ok(Output {
            code: answer.exit_code,
            stdout: cut(answer.stdout),
            stderr: cut(answer.stderr),
        })
    }

    async fn container_stats(&self, id: &ContainerId) -> Result<ContainerStats, Error> {
        self.known(id)?;
        let question = cri::ContainerRequest { container_id: id.to_string() };
        let answer = self.link.call(methods::CONTAINER_STATS, &question, Repeat::Safe).await;
        let answer = answer.map_err(|err| err.into_error("telling what a container uses"))?;
        let stats = answer.stats.unwrap_or_default();
        Ok(convert::container_stats(&stats, self.world.clock.now()))
    }

    pub(crate) async fn reopen_log(&self, id: &ContainerId) -> Result<(), Error> {
        self.running(id)?;
        let question = cri::ContainerRequest { container_id: id.to_string() };
        let reopened = self.link.call(methods::REOPEN_CONTAINER_LOG, &question, Repeat::Safe).await;
        reopened.map_err(|err| err.into_error("reopening a container's log"))?;
        Ok(())
    }
}

/// The runtime makes the file and not its directory.
async fn make_log_directory(config: &ContainerConfig) -> Result<(), Error> {
    let Some(directory) = config.log_path.parent() else { return Ok(()) };
    let doing = format!("making {}", directory.display());
    let directory = directory.to_owned();
    tokio::task::spawn_blocking(move || std::fs::create_dir_all(directory))
        .await
        .unwrap_or_else(|err| Err(err.into()))
        .map_err(|err| Error::node(doing, err))
}

/// What the machine has not, in containerd's words, is refused by name.
fn refusal_of_host(error: Error) -> Error {
    match error {
        Error::Refused(why) if why.contains("AppArmor") || why.contains("apparmor") => {
            Error::unsupported(format!("an AppArmor profile ({why})"))
        }
        other => other,
    }
}
