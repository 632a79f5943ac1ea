//! The wiring: which component gets which identity, which client, which informers. The only place where siblings meet.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};

use apimachinery::User;
use apiserver::Server;
use client::Client;
use informer::{EventHandler, Factory};
use k8s_openapi::api::core::v1::Node;
use lifecycle::Tasks;
use simulator::Fleet;
use stdx::World;

/// As `/version` shows it.
pub(crate) const KUBERNETES_VERSION: &str = concat!("v1.36.0+xebec-", env!("CARGO_PKG_VERSION"));

/// The network that pods get addresses from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PodNetwork {
    pub(crate) address: Ipv4Addr,
    pub(crate) prefix_length: u8,
}

/// Starts the controllers against `server`, each under the identity that upstream gives it.
pub(crate) fn start_controllers(
    server: &Arc<Server>,
    tasks: &Tasks,
    world: &World,
    root_ca: &str,
) -> Arc<Factory> {
    let tasks = tasks.child("controller-manager");
    let manager =
        server.client(User::new("system:kube-controller-manager", &[]), "kube-controller-manager");
    let factory = Factory::new(manager, world.clone(), &tasks);
    let server = server.clone();
    let client_for = move |name: &str| -> Client {
        let user = User::new(
            format!("system:serviceaccount:kube-system:{name}"),
            &["system:serviceaccounts", "system:serviceaccounts:kube-system"],
        );
        server.client(user, "kube-controller-manager")
    };
    controllers::start_all(&controllers::Context {
        tasks,
        world: world.clone(),
        factory: factory.clone(),
        client_for: Arc::new(client_for),
        root_ca: root_ca.to_owned(),
        config: controllers::Config::default(),
    });
    factory.start();
    factory
}

pub(crate) fn start_scheduler(server: &Arc<Server>, tasks: &Tasks, world: &World) {
    let tasks = tasks.child("scheduler");
    let client = server.client(User::new("system:kube-scheduler", &[]), "kube-scheduler");
    let factory = Factory::new(client.clone(), world.clone(), &tasks);
    scheduler::start(scheduler::Config::default(), &tasks, world, &factory, &client);
    factory.start();
}

/// Each simulated node writes as itself; the fleet reads pods through the given factory.
pub(crate) fn start_fleet(
    server: &Arc<Server>,
    tasks: &Tasks,
    world: &World,
    factory: &Arc<Factory>,
    nodes: usize,
    network: PodNetwork,
) -> Fleet {
    let config = simulator::Config {
        nodes,
        pod_network: network.address,
        pod_prefix_length: network.prefix_length,
        version: KUBERNETES_VERSION.to_owned(),
    };
    let client_for = |name: &str| {
        server.client(User::new(format!("system:node:{name}"), &["system:nodes"]), "kubelet")
    };
    Fleet::start(config, &tasks.child("simulator"), world, factory, client_for)
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
