//! The node's role, as `kubectl get nodes` shows it: this machine runs the control plane, too.
//!
//! A kubelet may not give itself a role (NodeRestriction). So it is given here, whenever the Node
//! appears: at a start, and when somebody deleted it and the kubelet has registered again. Whoever
//! takes the label away keeps it away until then.

use std::sync::Arc;
use std::time::Duration;

use apimachinery::ApiError;
use client::{Client, PatchKind};
use informer::{EventHandler, Factory, Selection};
use k8s_openapi::api::core::v1::Node;
use lifecycle::Tasks;
use serde_json::json;
use stdx::{Backoff, World};
use tokio::sync::Notify;

const LABEL: &str = "node-role.kubernetes.io/control-plane";
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(30);

/// Returns at once.
pub(crate) fn spawn(client: Client, node_name: &str, tasks: &Tasks, world: &World) {
    let factory = Factory::new(client.clone(), world.clone(), tasks);
    let field_selector = format!("metadata.name={node_name}");
    let nodes = factory.informer_of::<Node>(Selection { field_selector, ..Selection::default() });
    let appeared = Arc::new(Notify::new());
    nodes.add_event_handler(Arc::new(Appearances(appeared.clone())));
    let name = node_name.to_owned();
    tasks.spawn("node-role", move |shutdown| async move {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => {}
            () = follow(&client, &name, &appeared) => {}
        }
    });
    factory.start();
}

/// Tells when a Node without the role appears.
struct Appearances(Arc<Notify>);

impl EventHandler<Node> for Appearances {
    fn on_add(&self, node: &Arc<Node>, _is_initial: bool) {
        if !node.metadata.labels.iter().flatten().any(|(key, _)| key == LABEL) {
            self.0.notify_one();
        }
    }

    fn on_update(&self, _old: &Arc<Node>, _new: &Arc<Node>) {}

    fn on_delete(&self, _last: &Arc<Node>) {}
}

/// Ends never.
async fn follow(client: &Client, name: &str, appeared: &Notify) {
    let mut backoff = Backoff::new(RETRY_FIRST, RETRY_MAX);
    loop {
        appeared.notified().await;
        while let Err(err) = give(client, name).await {
            let delay = backoff.step();
            tracing::warn!(error = %err, ?delay, "the node has no role yet");
            tokio::time::sleep(delay).await;
        }
        backoff.reset();
    }
}

/// A Node that is gone again needs none.
async fn give(client: &Client, name: &str) -> Result<(), ApiError> {
    let body = json!({"metadata": {"labels": {LABEL: ""}}}).to_string();
    match client.api::<Node>().patch("", name, PatchKind::Merge, body.into()).await {
        Err(err) if !err.is_not_found() => Err(err),
        _ => Ok(()),
    }
}
