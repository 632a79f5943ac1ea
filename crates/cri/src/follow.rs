//! Follows the runtime: what it has, whether it is well, which images are there.
//!
//! Runtimes that tell of containers (`GetContainerEvents`, containerd from 1.7 on) are looked at when
//! they tell. Older ones are looked at once a second, as upstream's generic PLEG does: the one place
//! on the node that polls, because nothing else is possible. A runtime that does not answer is shown
//! as a fault, and everything stays as it was last seen.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use grpc::Code;
use lifecycle::Shutdown;
use node_api::containers::{Container, ContainerConfig, ContainerState};
use node_api::network;
use node_api::sandboxes::{Sandbox, SandboxConfig, SandboxState};
use node_api::{ContainerId, Error, SandboxId};
use tokio::time::Instant;

use crate::book::Look;
use crate::convert;
use crate::error::Failure;
use crate::link::Repeat;
use crate::messages::{self as cri, SANDBOX_READY, container_state};
use crate::{Inner, methods};

const PERIOD: Duration = Duration::from_secs(1);
/// Where the runtime tells: as upstream's evented PLEG, in case it forgot to.
const PERIOD_TOLD: Duration = Duration::from_secs(300);
/// As upstream's kubelet asks how its runtime is.
const PERIOD_STATUS: Duration = Duration::from_secs(5);
/// How long one look may wait for a runtime that is away.
const TIMEOUT_LOOK: Duration = Duration::from_secs(10);

pub(crate) fn spawn(inner: &Arc<Inner>) {
    let (looker, listener) = (inner.clone(), inner.clone());
    inner.tasks.spawn("cri-follow", |shutdown| async move { run(&looker, shutdown).await });
    inner.tasks.spawn("cri-events", |shutdown| async move {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => {}
            () = listener.listen() => {}
        }
    });
}

async fn run(inner: &Inner, shutdown: Shutdown) {
    let mut next_status = Instant::now() + PERIOD_STATUS;
    loop {
        let period = if inner.is_told() { PERIOD_TOLD } else { PERIOD };
        let next = next_status.min(Instant::now() + period);
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            () = inner.look.notified() => {}
            () = tokio::time::sleep_until(next) => {}
        }
        let look = async {
            if Instant::now() >= next_status {
                inner.look_at_status().await?;
                inner.look_at_images().await?;
            }
            inner.look_at_pods().await
        };
        let looked = tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            looked = look => looked,
        };
        if Instant::now() >= next_status {
            next_status = Instant::now() + PERIOD_STATUS;
        }
        inner.set_reachable(looked.err());
    }
}

impl Inner {
    pub(crate) async fn look_at_all(&self) -> Result<(), Error> {
        let look = async {
            self.look_at_status().await?;
            self.look_at_images().await?;
            self.look_at_pods().await
        };
        look.await.map_err(|err| err.into_node("looking at what the container runtime has"))
    }

    fn is_told(&self) -> bool {
        self.abilities().tells_events
    }

    /// Returns when the runtime cannot tell.
    async fn listen(&self) {
        let mut pause = stdx::Backoff::new(PERIOD, TIMEOUT_LOOK);
        loop {
            match self.listen_once().await {
                Err(err) if err.is(Code::Unimplemented) && !err.is_starting() => return,
                Ok(()) => pause.reset(),
                Err(_) => {}
            }
            self.abilities().tells_events = false;
            tokio::time::sleep(pause.step()).await;
        }
    }

    async fn listen_once(&self) -> Result<(), Failure> {
        let (_open, mut events) =
            self.link.follow(methods::GET_CONTAINER_EVENTS, &cri::Empty {}).await?;
        self.abilities().tells_events = true;
        self.look.notify_one();
        while events.next().await?.is_some() {
            self.look.notify_one();
        }
        Ok(())
    }

    /// The pods' own states stay as they are: silence is not death.
    fn set_reachable(&self, failure: Option<Failure>) {
        let Some(failure) = failure else {
            if self.status.borrow().fault.as_deref().is_some_and(|it| it.starts_with(SILENT)) {
                self.status.send_modify(|it| it.fault = None);
            }
            return;
        };
        let why = format!("{SILENT}: {}", stdx::error_chain(&failure));
        if self.status.borrow().fault.as_deref() != Some(why.as_str()) {
            tracing::warn!(error = why, "the container runtime cannot be looked at");
            self.status.send_modify(|it| it.fault = Some(why));
        }
    }

    async fn read<Q, A>(&self, method: grpc::Method<Q, A>, question: &Q) -> Result<A, Failure>
    where
        Q: prost::Message,
        A: prost::Message + Default,
    {
        self.link.call_within(TIMEOUT_LOOK, method, question, Repeat::Safe).await
    }

    async fn look_at_status(&self) -> Result<(), Failure> {
        let answer = self.read(methods::STATUS, &cri::Empty {}).await?;
        self.abilities().update(&answer);
        let conditions = answer.status.unwrap_or_default().conditions;
        let fault = |kind: &str| {
            let found = conditions.iter().find(|it| it.kind == kind)?;
            (!found.status).then(|| match found.message.as_str() {
                "" => found.reason.clone(),
                message => message.to_owned(),
            })
        };
        let handlers = self.abilities().handlers.clone();
        let status = node_api::sandboxes::Status { fault: fault("RuntimeReady"), handlers };
        self.status.send_if_modified(|it| std::mem::replace(it, status.clone()) != status);
        let network = network::Status { fault: fault("NetworkReady"), ..Default::default() };
        self.network.send_if_modified(|it| std::mem::replace(it, network.clone()) != network);
        Ok(())
    }

    pub(crate) async fn look_at_images(&self) -> Result<(), Failure> {
        let answer = self.read(methods::LIST_IMAGES, &cri::Empty {}).await?;
        let images = answer.images.iter().map(crate::images::image).collect();
        *self.images.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(images);
        Ok(())
    }

    async fn look_at_pods(&self) -> Result<(), Failure> {
        let began = self.book.now();
        let ours: std::collections::BTreeMap<_, _> =
            [(convert::CLUSTER.to_owned(), self.config.cluster.to_string())].into();
        let filter = Some(cri::PodSandboxFilter { label_selector: ours.clone() });
        let sandboxes =
            self.read(methods::LIST_POD_SANDBOX, &cri::ListPodSandboxRequest { filter }).await?;
        let filter = Some(cri::ContainerFilter { label_selector: ours });
        let containers =
            self.read(methods::LIST_CONTAINERS, &cri::ListContainersRequest { filter }).await?;
        let mut look = Look { began, ..Look::default() };
        for listed in &sandboxes.items {
            look.sandboxes.extend(self.listed_sandbox(listed).await?);
        }
        for listed in &containers.containers {
            look.containers.extend(self.listed_container(listed).await?);
        }
        self.book.apply(look);
        Ok(())
    }

    /// `None`: it has no record of ours.
    async fn listed_sandbox(&self, listed: &cri::PodSandbox) -> Result<Option<Sandbox>, Failure> {
        let id = SandboxId::new(listed.id.clone());
        let state = sandbox_state(listed.state);
        if let Some(known) = self.book.sandbox(&id) {
            return Ok(Some(Sandbox { state, ..known }));
        }
        let Some(config) = convert::read_record::<SandboxConfig>(&listed.annotations) else {
            return Ok(None);
        };
        self.found_sandbox(&id, config).await
    }

    /// `None`: it is gone.
    pub(crate) async fn found_sandbox(
        &self,
        id: &SandboxId,
        config: SandboxConfig,
    ) -> Result<Option<Sandbox>, Failure> {
        let question = cri::PodSandboxRequest { pod_sandbox_id: id.to_string() };
        let answer = match self.read(methods::POD_SANDBOX_STATUS, &question).await {
            Err(err) if err.is(Code::NotFound) => return Ok(None),
            answer => answer?,
        };
        let Some(status) = answer.status else { return Ok(None) };
        Ok(Some(Sandbox {
            id: id.clone(),
            addresses: convert::addresses(&config, status.network.as_ref()),
            config,
            created: convert::time(status.created_at),
            state: sandbox_state(status.state),
        }))
    }

    /// Asks for more only where something has changed.
    async fn listed_container(
        &self,
        listed: &cri::Container,
    ) -> Result<Option<Container>, Failure> {
        let id = ContainerId::new(listed.id.clone());
        let known = self.book.container(&id);
        if let Some(known) = &known
            && is_same(&known.state, listed.state)
        {
            return Ok(Some(known.clone()));
        }
        let config = match known {
            Some(known) => Some(known.config),
            None => convert::read_record::<ContainerConfig>(&listed.annotations),
        };
        let Some(config) = config else { return Ok(None) };
        let sandbox = SandboxId::new(listed.pod_sandbox_id.clone());
        self.found_container(&id, sandbox, config).await
    }

    /// `None`: it is gone, or the runtime does not know how it is.
    pub(crate) async fn found_container(
        &self,
        id: &ContainerId,
        sandbox: SandboxId,
        config: ContainerConfig,
    ) -> Result<Option<Container>, Failure> {
        let question = cri::ContainerRequest { container_id: id.to_string() };
        let answer = match self.read(methods::CONTAINER_STATUS, &question).await {
            Err(err) if err.is(Code::NotFound) => return Ok(None),
            answer => answer?,
        };
        let Some(status) = answer.status else { return Ok(None) };
        let state = match convert::state(&status) {
            Some(state) => state,
            None => match self.book.container(id) {
                Some(known) => known.state,
                None => return Ok(None),
            },
        };
        let created = convert::time(status.created_at);
        Ok(Some(Container { id: id.clone(), sandbox, config, created, state }))
    }
}

const SILENT: &str = "the container runtime does not answer";

fn sandbox_state(state: i32) -> SandboxState {
    if state == SANDBOX_READY { SandboxState::Ready } else { SandboxState::NotReady }
}

fn is_same(known: &ContainerState, listed: i32) -> bool {
    let number = match known {
        ContainerState::Created => container_state::CREATED,
        ContainerState::Running { .. } => container_state::RUNNING,
        ContainerState::Exited(_) => container_state::EXITED,
    };
    number == listed
}
