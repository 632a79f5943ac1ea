//! A pod network that opens when the node's range is known: until then the node is not Ready, and
//! says what it waits for.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use lifecycle::{Shutdown, Tasks};
use node_api::network::{Attachment, Namespace, Status};
use node_api::{Error, Future, PodNetwork, SandboxId};
use tokio::sync::watch;

const WAITING: &str =
    "no addresses for pods yet: the Node has no spec.podCIDRs, and no --pod-cidr was given";

/// Implements [`PodNetwork`]; opened once.
pub(crate) struct LateNetwork {
    opened: OnceLock<Arc<dyn PodNetwork>>,
    status: watch::Sender<Status>,
    /// What the network is told first when it opens: the sandboxes that live.
    kept: Mutex<BTreeMap<SandboxId, Arc<dyn Namespace>>>,
}

impl LateNetwork {
    pub(crate) fn new() -> Self {
        let status = Status { fault: Some(WAITING.to_owned()), ..Status::default() };
        let (status, _) = watch::channel(status);
        Self { opened: OnceLock::new(), status, kept: Mutex::default() }
    }

    /// From now on it is the one behind it.
    pub(crate) async fn open(
        &self,
        network: Arc<dyn PodNetwork>,
        tasks: &Tasks,
    ) -> Result<(), Error> {
        let kept = std::mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner));
        if !kept.is_empty() {
            network.keep_only(kept).await?;
        }
        let (status, shown) = (network.status(), self.status.clone());
        if self.opened.set(network).is_ok() {
            tasks.spawn("pod-network-status", |shutdown| show(status, shown, shutdown));
        }
        Ok(())
    }

    /// Why it is not open yet, beside that its range is not known.
    pub(crate) fn fail(&self, why: String) {
        if self.opened.get().is_none() {
            self.status.send_modify(|it| it.fault = Some(why));
        }
    }
}

async fn show(
    mut status: watch::Receiver<Status>,
    shown: watch::Sender<Status>,
    shutdown: Shutdown,
) {
    loop {
        let now = status.borrow_and_update().clone();
        shown.send_if_modified(|it| std::mem::replace(it, now.clone()) != now);
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            changed = status.changed() => if changed.is_err() { return },
        }
    }
}

impl PodNetwork for LateNetwork {
    fn attach(&self, attachment: Attachment) -> Future<'_, Vec<IpAddr>> {
        match self.opened.get() {
            Some(network) => network.attach(attachment),
            None => {
                let why = self.status.borrow().fault.clone().unwrap_or_default();
                Box::pin(async move { Err(Error::Refused(format!("network is not ready: {why}"))) })
            }
        }
    }

    fn detach(&self, sandbox: &SandboxId) -> Future<'_, ()> {
        match self.opened.get() {
            Some(network) => network.detach(sandbox),
            // Nothing was attached yet.
            None => Box::pin(async { Ok(()) }),
        }
    }

    fn keep_only(&self, sandboxes: BTreeMap<SandboxId, Arc<dyn Namespace>>) -> Future<'_, ()> {
        if let Some(network) = self.opened.get() {
            return network.keep_only(sandboxes);
        }
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = sandboxes;
        Box::pin(async { Ok(()) })
    }

    fn status(&self) -> watch::Receiver<Status> {
        self.status.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All is well.
    struct Fine(watch::Sender<Status>);

    impl PodNetwork for Fine {
        fn attach(&self, _attachment: Attachment) -> Future<'_, Vec<IpAddr>> {
            Box::pin(async { Ok(Vec::new()) })
        }

        fn detach(&self, _sandbox: &SandboxId) -> Future<'_, ()> {
            Box::pin(async { Ok(()) })
        }

        fn keep_only(&self, _kept: BTreeMap<SandboxId, Arc<dyn Namespace>>) -> Future<'_, ()> {
            Box::pin(async { Ok(()) })
        }

        fn status(&self) -> watch::Receiver<Status> {
            self.0.subscribe()
        }
    }

    #[tokio::test]
    async fn the_node_waits_for_its_range_and_then_shows_its_network() {
        let (late, tasks) = (LateNetwork::new(), Tasks::new());
        let mut status = late.status();
        assert_eq!(status.borrow_and_update().not_ready().as_deref(), Some(WAITING));
        late.fail("the bridge xebec0 is somebody else's".to_owned());
        let why = status.borrow_and_update().not_ready();
        assert_eq!(why.as_deref(), Some("the bridge xebec0 is somebody else's"));
        late.detach(&SandboxId::new("s")).await.unwrap();
        let fine = Arc::new(Fine(watch::Sender::new(Status::default())));
        late.open(fine.clone(), &tasks).await.unwrap();
        status.wait_for(|it| it.not_ready().is_none()).await.unwrap();
        let lost = Status { fault: Some("its bridge is gone".to_owned()), ..Status::default() };
        fine.0.send_replace(lost);
        status.wait_for(|it| it.not_ready().is_some()).await.unwrap();
    }
}
