//! The loop: register, then renew the lease when it is due; the status only when it changed, or
//! seldom.

use std::sync::Arc;
use std::time::Duration;

use apimachinery::{ApiError, ObjectKey};
use informer::Lister;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use lifecycle::Shutdown;
use reconcile::EventType;
use stdx::Backoff;
use tokio::time::Instant;

use super::conditions::{self, Signals};
use super::node::{self, Facts, LEASE_NAMESPACE};
use crate::context::Context;

const RENEW: Duration = Duration::from_secs(10);
/// After a renewal that failed: four in a row would make a living node look dead.
const RETRY_FIRST: Duration = Duration::from_millis(200);
const RETRY_MAX: Duration = Duration::from_secs(5);
/// nodeStatusReportFrequency.
const REPORT: SignedDuration = SignedDuration::from_mins(5);
/// How often others may write the Node in between before it is tried again later (upstream:
/// `nodeStatusUpdateRetry`).
const CONFLICTS_MAX: u32 = 5;

struct Task {
    context: Arc<Context>,
    nodes: Lister<Node>,
    signals: Signals,
    lease: Option<Arc<Lease>>,
    /// As it was last written, and when.
    posted: Option<(Arc<Node>, Timestamp)>,
}

pub(super) async fn run(context: Arc<Context>, nodes: Lister<Node>, shutdown: Shutdown) {
    let sandboxes = &context.parts.sandboxes;
    let mut signals = Signals { network: sandboxes.network(), runtime: sandboxes.status() };
    let mut said = Vec::new();
    let mut task = Task { context, nodes, signals: signals.clone(), lease: None, posted: None };
    let mut backoff = Backoff::new(RETRY_FIRST, RETRY_MAX);
    let mut due = Instant::now();
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep_until(due) => {}
            () = conditions::differ(&mut signals, &said) => {}
        }
        said = conditions::all(&signals.observe());
        let turn = tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            turn = task.turn() => turn,
        };
        due = match turn {
            Ok(()) => {
                backoff.reset();
                Instant::now() + RENEW
            }
            Err(err) => {
                let delay = backoff.step();
                tracing::warn!(error = %err, ?delay, "the API does not hear from this node");
                Instant::now() + delay
            }
        };
    }
}

impl Task {
    async fn turn(&mut self) -> Result<(), ApiError> {
        if self.posted.is_none() {
            self.register().await?;
        }
        self.renew().await?;
        self.report().await
    }

    fn now(&self) -> Timestamp {
        self.context.world.clock.now()
    }

    fn facts(&self) -> Facts<'_> {
        Facts {
            config: &self.context.config,
            machine: &self.context.parts.machine,
            allocatable: self.context.allocatable,
            images: self.context.parts.images.list(),
            runtime: self.context.parts.sandboxes.version(),
            observed: self.signals.clone().observe(),
            now: self.now(),
        }
    }

    /// Creates the Node, or brings an existing one up to date: all of it, or what is said of its
    /// status alone if it is somebody else's to make.
    async fn register(&mut self) -> Result<(), ApiError> {
        let nodes = self.context.parts.client.api::<Node>();
        let registered = if self.context.config.is_registering {
            match nodes.create(node::registration(&self.facts())).await {
                Err(err) if err.is_already_exists() => self.take_over().await?,
                other => other?.object()?,
            }
        } else {
            let existing = nodes.get("", &self.context.config.node_name).await?;
            self.post(Arc::unwrap_or_clone(existing)).await?
        };
        let message = "Starting kubelet.".to_owned();
        self.context.recorder.event(&*registered, EventType::Normal, "Starting", message);
        self.posted = Some((registered, self.now()));
        Ok(())
    }

    /// Labels and range of an existing Node are completed, its status is replaced.
    async fn take_over(&self) -> Result<Arc<Node>, ApiError> {
        let nodes = self.context.parts.client.api::<Node>();
        let name = &self.context.config.node_name;
        let existing = nodes.get("", name).await?;
        let mut wanted = Node::clone(&existing);
        let ours = node::registration(&self.facts());
        let labels = wanted.metadata.labels.get_or_insert_default();
        labels.extend(ours.metadata.labels.unwrap_or_default());
        let spec = wanted.spec.get_or_insert_default();
        if spec.pod_cidr.is_none() {
            let ours = ours.spec.unwrap_or_default();
            (spec.pod_cidr, spec.pod_cidrs) = (ours.pod_cidr, ours.pod_cidrs);
        }
        let known = match wanted == *existing {
            true => existing,
            false => nodes.update(wanted).await?.object()?,
        };
        self.post(Arc::unwrap_or_clone(known)).await
    }

    async fn post(&self, mut node: Node) -> Result<Arc<Node>, ApiError> {
        let was_ready = conditions::is_ready(node.status.as_ref());
        node.status = Some(node::status(&self.facts(), node.status.as_ref()));
        let is_ready = conditions::is_ready(node.status.as_ref());
        let posted = self.context.parts.client.api::<Node>().update_status(node).await?.object()?;
        if was_ready.is_some() && was_ready != is_ready {
            let reason = if is_ready == Some(true) { "NodeReady" } else { "NodeNotReady" };
            let message = format!("Node {} status is now: {reason}", self.context.config.node_name);
            self.context.recorder.event(&*posted, EventType::Normal, reason, message);
        }
        Ok(posted)
    }

    async fn renew(&mut self) -> Result<(), ApiError> {
        let leases = self.context.parts.client.api::<Lease>();
        let known = match self.lease.take() {
            Some(lease) => Some(lease),
            None => match leases.get(LEASE_NAMESPACE, &self.context.config.node_name).await {
                Ok(lease) => Some(lease),
                Err(err) if err.is_not_found() => None,
                Err(err) => return Err(err),
            },
        };
        let renewed = match (known, &self.posted) {
            (Some(lease), _) => {
                let mut lease = Arc::unwrap_or_clone(lease);
                lease.spec.get_or_insert_default().renew_time = Some(MicroTime(self.now()));
                leases.update(lease).await?
            }
            (None, Some((node, _))) => leases.create(node::lease(node, self.now())).await?,
            (None, None) => return Ok(()),
        };
        self.lease = Some(renewed.object()?);
        Ok(())
    }

    /// The Node as it is now. One that is gone is registered anew at the next turn.
    async fn live(&mut self) -> Result<Arc<Node>, ApiError> {
        let name = &self.context.config.node_name;
        let live = self.context.parts.client.api::<Node>().get("", name).await;
        if live.as_ref().is_err_and(ApiError::is_not_found) {
            (self.posted, self.lease) = (None, None);
        }
        live
    }

    /// Says how the node is, if that changed, if others say otherwise, or if it was not said for
    /// long.
    async fn report(&mut self) -> Result<(), ApiError> {
        let Some(at) = self.posted.as_ref().map(|(_, at)| *at) else { return Ok(()) };
        let key = ObjectKey::cluster(&self.context.config.node_name);
        let shown = match self.nodes.get(&key) {
            Some(shown) => shown,
            // The cache may lag behind the registration; or somebody has removed the Node.
            None => self.live().await?,
        };
        let status = node::status(&self.facts(), shown.status.as_ref());
        let is_right = shown.status.as_ref().is_some_and(|it| !node::differs(it, &status));
        if is_right && self.now().duration_since(at) < REPORT {
            return Ok(());
        }
        let mut posted = self.post(Node::clone(&shown)).await;
        for _ in 0..CONFLICTS_MAX {
            // Somebody wrote in between, of whom the cache need not know yet.
            if posted.as_ref().is_err_and(ApiError::is_conflict) {
                let live = self.live().await?;
                posted = self.post(Arc::unwrap_or_clone(live)).await;
            }
        }
        match posted {
            Ok(node) => {
                self.posted = Some((node, self.now()));
                Ok(())
            }
            Err(err) => {
                if err.is_not_found() {
                    (self.posted, self.lease) = (None, None);
                }
                Err(err)
            }
        }
    }
}
