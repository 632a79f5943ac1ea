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
use reconcile::Election;
use simulator::Fleet;
use stdx::World;
use telemetry::Registry;

/// As `/version` shows it.
pub(crate) const KUBERNETES_VERSION: &str = concat!("v1.36.0+xebec-", env!("CARGO_PKG_VERSION"));

/// Upstream's names of the two, which are also those of their Leases.
pub(crate) const CONTROLLER_MANAGER: &str = "kube-controller-manager";
pub(crate) const SCHEDULER: &str = "kube-scheduler";

/// Groups, beside those that the server needs, that the controllers follow: without them they would wait for ever.
pub(crate) const FOLLOWED: &[&str] = &["apps"];

/// The network that pods get addresses from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PodNetwork {
    pub(crate) address: Ipv4Addr,
    pub(crate) prefix_length: u8,
}

/// What runs once in a cluster, however many servers it has.
#[derive(Clone)]
pub(crate) struct Singletons {
    pub(crate) server: Arc<Server>,
    pub(crate) world: World,
    /// What pods get as kube-root-ca.crt.
    pub(crate) root_ca: String,
    /// Where both are shown.
    pub(crate) metrics: Registry,
}

impl Singletons {
    /// Runs them here, for ever. Returns the controllers' informers.
    pub(crate) fn start(&self, tasks: &Tasks) -> Arc<Factory> {
        self.start_scheduler(&tasks.child("scheduler"));
        self.start_controllers(&tasks.child("controller-manager"))
    }

    /// Runs each of the two here whenever this server leads in it, as seen by its Lease, which has upstream's name. Upstream's
    /// processes end when they lose it; this one has a node and an API to serve, so what it ran ends, and it stands again.
    pub(crate) fn start_when_elected(&self, tasks: &Tasks) {
        let controllers = self.clone();
        self.stand(tasks, CONTROLLER_MANAGER, move |tasks| {
            let _ = controllers.start_controllers(tasks);
        });
        let scheduler = self.clone();
        self.stand(tasks, SCHEDULER, move |tasks| scheduler.start_scheduler(tasks));
    }

    fn stand(
        &self,
        tasks: &Tasks,
        name: &'static str,
        start: impl Fn(&Tasks) + Send + Sync + 'static,
    ) {
        let start = Arc::new(start);
        let election = Election {
            client: self.server.client(User::new(format!("system:{name}"), &[]), name),
            world: self.world.clone(),
            name,
            identity: identity(&self.world),
        };
        reconcile::with_leaderships(tasks, election, move |tasks| {
            let start = start.clone();
            async move { start(&tasks) }
        });
    }

    /// Each under the identity that upstream gives it.
    fn start_controllers(&self, tasks: &Tasks) -> Arc<Factory> {
        let factory = self.factory(tasks);
        let server = self.server.clone();
        let client_for = move |name: &str| -> Client {
            let user = User::new(
                format!("system:serviceaccount:kube-system:{name}"),
                &["system:serviceaccounts", "system:serviceaccounts:kube-system"],
            );
            server.client(user, CONTROLLER_MANAGER)
        };
        controllers::start_all(&controllers::Context {
            tasks: tasks.clone(),
            world: self.world.clone(),
            factory: factory.clone(),
            client_for: Arc::new(client_for),
            root_ca: self.root_ca.clone(),
            config: controllers::Config::default(),
            metrics: self.metrics.clone(),
        });
        factory.start();
        factory
    }

    /// Informers that see what the controllers see.
    pub(crate) fn factory(&self, tasks: &Tasks) -> Arc<Factory> {
        let user = User::new(format!("system:{CONTROLLER_MANAGER}"), &[]);
        Factory::new(self.server.client(user, CONTROLLER_MANAGER), self.world.clone(), tasks)
    }

    fn start_scheduler(&self, tasks: &Tasks) {
        let client = self.server.client(User::new(format!("system:{SCHEDULER}"), &[]), SCHEDULER);
        let factory = Factory::new(client.clone(), self.world.clone(), tasks);
        let (config, metrics) = (scheduler::Config::default(), &self.metrics);
        scheduler::start(config, tasks, &self.world, &factory, &client, metrics);
        factory.start();
    }
}

/// As upstream's: the machine, and what tells this process from others on it.
pub(crate) fn identity(world: &World) -> String {
    format!("{}_{}", crate::node::node_name(), world.random.uuid())
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
