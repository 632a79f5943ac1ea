//! What `up` adds to the wiring of `control-plane`: clients in this process, its names, and how long to wait for nodes.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};

use apiserver::Server;
use control_plane::{Clients, FleetConfig};
use informer::{EventHandler, Factory};
use k8s_openapi::api::core::v1::Node;
use stdx::World;

/// As `/version` shows it.
pub(crate) const KUBERNETES_VERSION: &str = concat!("v1.36.0+xebec-", env!("CARGO_PKG_VERSION"));

/// The network that pods get addresses from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PodNetwork {
    pub(crate) address: Ipv4Addr,
    pub(crate) prefix_length: u8,
}

/// Each component with a client in this process.
pub(crate) fn clients(server: &Arc<Server>) -> Clients {
    let server = server.clone();
    Clients::new(move |it| server.client(it.user(), it.field_manager()))
}

/// As upstream's: the machine, and what tells this process from others on it.
pub(crate) fn identity(world: &World) -> String {
    format!("{}_{}", crate::node::node_name(), world.random.uuid())
}

/// Simulated nodes, of the version that this server shows.
pub(crate) fn fleet(nodes: usize, network: PodNetwork) -> FleetConfig {
    FleetConfig {
        nodes,
        pod_network: network.address,
        pod_prefix_length: network.prefix_length,
        version: KUBERNETES_VERSION.to_owned(),
    }
}

/// Returns when this many nodes are Ready.
pub(crate) async fn wait_for_nodes(factory: &Arc<Factory>, wanted: usize) {
    let (ready, mut changes) = tokio::sync::watch::channel(0);
    let nodes = factory.informer::<Node>();
    nodes.add_event_handler(Arc::new(ReadyNodes { names: Mutex::default(), ready }));
    // The sender lives in the handler, which lives as long as the informer.
    let _ = changes.wait_for(|it| *it >= wanted).await;
}

/// Counts nodes whose condition Ready is True.
struct ReadyNodes {
    names: Mutex<BTreeSet<String>>,
    ready: tokio::sync::watch::Sender<usize>,
}

impl ReadyNodes {
    fn observe(&self, node: &Node, exists: bool) {
        let name = node.metadata.name.clone().unwrap_or_default();
        let conditions =
            node.status.as_ref().and_then(|it| it.conditions.as_deref()).unwrap_or_default();
        let is_ready =
            exists && conditions.iter().any(|it| it.type_ == "Ready" && it.status == "True");
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if is_ready {
            names.insert(name);
        } else {
            names.remove(&name);
        }
        self.ready.send_replace(names.len());
    }
}

impl EventHandler<Node> for ReadyNodes {
    fn on_add(&self, node: &Arc<Node>, _is_initial: bool) {
        self.observe(node, true);
    }

    fn on_update(&self, _old: &Arc<Node>, new: &Arc<Node>) {
        self.observe(new, true);
    }

    fn on_delete(&self, last: &Arc<Node>) {
        self.observe(last, false);
    }
}
