//! What `up` adds to the wiring of `control-plane`: clients in this process, its names, and how
//! long to wait for nodes.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Result, bail};
use api::core::node::NodeView;
use apiserver::Server;
use authn::pki::ServiceAccountKey;
use authn::tokens::Reference;
use control_plane::{Clients, FleetConfig, SignToken};
use informer::{EventHandler, Factory, Selection};
use stdx::{Family, World};
use tokio::sync::watch;

use crate::api_server::PATIENCE;
use crate::commands::network::Cidrs;

/// As `/version` shows it.
pub(crate) const KUBERNETES_VERSION: &str = concat!("v1.36.0+xebec-", env!("CARGO_PKG_VERSION"));

/// Groups, beside those that the server needs, that the controllers follow: without them they would
/// wait for ever.
pub(crate) const FOLLOWED: &[&str] =
    &["apps", "autoscaling", "batch", "certificates.k8s.io", "policy", "resource.k8s.io"];

/// The network that pods get addresses from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PodNetwork {
    pub(crate) address: Ipv4Addr,
    pub(crate) prefix_length: u8,
}

impl PodNetwork {
    /// Simulated pods have IPv4 addresses.
    pub(crate) fn of(pods: &Cidrs) -> Result<Self> {
        match pods.of(Family::V4).map(|it| (it.network(), it.prefix_length())) {
            Some((IpAddr::V4(address), prefix_length)) => Ok(Self { address, prefix_length }),
            _ => bail!("--simulate: simulated pods have IPv4 addresses, and pods have {pods}"),
        }
    }
}

/// Each component with a client in this process.
pub(crate) fn clients(server: &Arc<Server>) -> Clients {
    let server = server.clone();
    Clients::new(move |it| server.client(it.user(), it.field_manager()))
}

/// Signs tokens in Secrets of service accounts.
pub(crate) fn token_signer(key: &Arc<ServiceAccountKey>) -> Result<SignToken> {
    let signer = authn::legacy::Signer::new(key)?;
    Ok(Arc::new(move |secret, name, uid| {
        let account = Reference { name: name.to_owned(), uid: uid.to_owned() };
        Ok(signer.sign(&secret.namespace, &account, &secret.name)?)
    }))
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

/// Returns when this many nodes are Ready. Gives up when no further one has become so for a while,
/// and says what nodes say.
pub(crate) async fn wait_for_nodes(factory: &Arc<Factory>, wanted: usize) -> Result<()> {
    wait_for_nodes_of(factory, Selection::default(), wanted).await
}

/// The same of some nodes. The factory may start after this was called.
pub(crate) fn wait_for_nodes_of(
    factory: &Arc<Factory>,
    selection: Selection,
    wanted: usize,
) -> impl Future<Output = Result<()>> + use<> {
    let (ready, changes) = watch::channel(0);
    let nodes = factory.informer_of::<NodeView>(selection);
    let handler = Arc::new(ReadyNodes { states: Mutex::default(), ready });
    nodes.add_event_handler(handler.clone());
    async move {
        if wait_for_count(changes, wanted, PATIENCE).await {
            return Ok(());
        }
        match handler.first_complaint() {
            Some((name, why)) => bail!("the node {name} is not ready after {PATIENCE:?}: {why}"),
            None => bail!("the node has not registered after {PATIENCE:?}: `-v 2` logs why"),
        }
    }
}

/// Whether the count became so large before it stood still for too long.
async fn wait_for_count(
    mut changes: watch::Receiver<usize>,
    wanted: usize,
    patience: Duration,
) -> bool {
    loop {
        let count = *changes.borrow_and_update();
        if count >= wanted {
            return true;
        }
        let more = changes.wait_for(|it| *it > count);
        if !matches!(tokio::time::timeout(patience, more).await, Ok(Ok(_))) {
            return false;
        }
    }
}

/// What nodes say of themselves.
struct ReadyNodes {
    /// `None`: Ready; else why not.
    states: Mutex<BTreeMap<String, Option<String>>>,
    ready: watch::Sender<usize>,
}

impl ReadyNodes {
    fn observe(&self, node: &NodeView, exists: bool) {
        let name = node.name().to_owned();
        let complaint = match node.condition("Ready") {
            Some(ready) if ready.status == "True" => None,
            Some(ready) => Some(ready.message.clone().unwrap_or_default()),
            None => Some("it has not said anything of itself yet".to_owned()),
        };
        let mut states = self.states();
        let is_ready = usize::from(exists && complaint.is_none());
        let before = match exists {
            true => states.insert(name, complaint),
            false => states.remove(&name),
        };
        let was_ready = usize::from(matches!(before, Some(None)));
        if is_ready != was_ready {
            self.ready.send_modify(|count| *count = *count + is_ready - was_ready);
        }
    }

    fn first_complaint(&self) -> Option<(String, String)> {
        let states = self.states();
        let mut complaints =
            states.iter().filter_map(|(name, why)| Some((name.clone(), why.clone()?)));
        complaints.next()
    }

    fn states(&self) -> MutexGuard<'_, BTreeMap<String, Option<String>>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventHandler<NodeView> for ReadyNodes {
    fn on_add(&self, node: &Arc<NodeView>, _is_initial: bool) {
        self.observe(node, true);
    }

    fn on_update(&self, _old: &Arc<NodeView>, new: &Arc<NodeView>) {
        self.observe(new, true);
    }

    fn on_delete(&self, last: &Arc<NodeView>) {
        self.observe(last, false);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::watch;

    use super::wait_for_count;

    #[tokio::test]
    async fn a_start_gives_up_when_no_more_nodes_become_ready() {
        let (ready, changes) = watch::channel(1);
        assert!(!wait_for_count(changes.clone(), 2, Duration::from_millis(1)).await);
        let waiting = wait_for_count(changes, 3, Duration::MAX);
        let coming = async {
            for count in [2, 3] {
                ready.send_replace(count);
                tokio::task::yield_now().await;
            }
        };
        assert!(tokio::join!(waiting, coming).0);
    }
}
