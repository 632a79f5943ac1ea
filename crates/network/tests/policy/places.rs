//! The places of a test: two nodes, joined by a cable, with the pods a, b and c of the namespaces x,
//! y and z, and a Service for each.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use apimachinery::ObjectKey;
use linux::netlink::nftables::draft::{ENDPOINT, table_family, types};
use linux::netlink::nftables::{
    Chain, ChainKind, Data, Field, Hook, HookPoint, Key, Nftables, Rule, Set, Table, TableId,
    Value, priority,
};
use linux::netlink::route::{
    self, Destination, HardwareAddress, LinkChange, Peer as End, RouteSocket, VethPair,
};
use linux::network_namespace::NetworkNamespace;
use network::policy::Enforcer;
use network::policy::compile::compile;
use network::policy::model::{NamedPort, Pod, Protocol};
use network::policy::state::State;
use network::{Config, Gate, HOST_GW, Network, Peer, PodRange};
use node_api::network::{Attachment, Namespace};
use node_api::{ClusterId, PodNetwork as _, PodRef, PodUid, SandboxId};
use serde_json::{Value as Json, json};
use stdx::Family;

pub(crate) const NAMESPACES: [&str; 3] = ["x", "y", "z"];
pub(crate) const PODS: [&str; 3] = ["a", "b", "c"];
pub(crate) const PORTS: [u16; 2] = [80, 81];

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub(crate) fn cluster() -> ClusterId {
    "00c0ffee".parse().unwrap()
}

/// The namespace that a file names.
#[derive(Debug)]
struct At(PathBuf);

impl Namespace for At {
    fn open(&self) -> io::Result<Option<OwnedFd>> {
        File::open(&self.0).map(|it| Some(it.into()))
    }
}

/// The policies of one node, told to the kernel by hand.
pub(crate) struct Enforced(pub(crate) Mutex<Enforcer>);

impl Enforced {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Enforcer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Gate for Enforced {
    fn wait(&self) -> Result<(), node_api::Error> {
        Ok(())
    }

    fn attach(
        &self,
        sandbox: &SandboxId,
        pod: &PodRef,
        addresses: &[IpAddr],
    ) -> Result<(), node_api::Error> {
        let mut enforcer = self.lock();
        let key = ObjectKey::new(pod.namespace.clone(), pod.name.clone());
        enforcer.state.attach(sandbox, (&key, &pod.uid), addresses);
        enforcer.apply().unwrap();
        Ok(())
    }

    fn detach(&self, sandbox: &SandboxId, pod: &PodRef) -> Result<(), node_api::Error> {
        let mut enforcer = self.lock();
        let key = ObjectKey::new(pod.namespace.clone(), pod.name.clone());
        enforcer.state.detach(sandbox, &key);
        enforcer.apply().unwrap();
        Ok(())
    }
}

pub(crate) struct Node {
    n: u8,
    pub(crate) namespace: NetworkNamespace,
    network: Network,
    pub(crate) enforced: Arc<Enforced>,
    runtime: tokio::runtime::Runtime,
    _directory: tempfile::TempDir,
}

/// What attaching gave, and the API's view of it.
pub(crate) struct Place {
    pub(crate) namespace: NetworkNamespace,
    pub(crate) addresses: Vec<IpAddr>,
}

pub(crate) fn node_name(n: u8) -> String {
    format!("node-{n}")
}

/// In the network of the nodes.
fn addresses(n: u8) -> [IpAddr; 2] {
    [ip(&format!("192.0.2.{n}")), ip(&format!("2001:db8::{n}"))]
}

impl Node {
    fn start(n: u8) -> Self {
        let namespace = NetworkNamespace::create().unwrap();
        bring_up_loopback(&namespace);
        let directory = tempfile::tempdir().unwrap();
        let range = |node: String, cluster: &str| PodRange {
            node: node.parse().unwrap(),
            cluster: cluster.parse().unwrap(),
        };
        let config = Config {
            cluster: cluster(),
            node: node_name(n),
            addresses: addresses(n).into(),
            name_servers: Vec::new(),
            has_direct_routes: false,
            bgp: network::Bgp::default(),
            backend: HOST_GW.to_owned(),
            worker: None,
            bridge: "xebec0".into(),
            ranges: vec![
                range(format!("10.244.{n}.0/24"), "10.244.0.0/16"),
                range(format!("fd00:10:244:{n}::/64"), "fd00:10:244::/56"),
            ],
            directory: directory.path().join("network"),
            settings: directory.path().to_owned(),
            mtu: None,
        };
        let network = namespace.run(|| Network::open(config)).unwrap().unwrap();
        let state = State::new(node_name(n), &[Family::V4, Family::V6]);
        let enforcer = namespace.run(|| Enforcer::open(cluster(), state)).unwrap().unwrap();
        let enforced = Arc::new(Enforced(Mutex::new(enforcer)));
        network.guard(enforced.clone()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        Self { n, namespace, network, enforced, runtime, _directory: directory }
    }

    fn as_peer(&self) -> Peer {
        let n = self.n;
        let ranges = [format!("10.244.{n}.0/24"), format!("fd00:10:244:{n}::/64")];
        Peer {
            node: node_name(n),
            pod_cidrs: ranges.map(|it| it.parse().unwrap()).into(),
            addresses: addresses(self.n).into(),
            annotations: BTreeMap::new(),
            is_ready: false,
        }
    }

    fn set_peers(&self, other: &Self) {
        self.runtime.block_on(self.network.set_peers(vec![other.as_peer()])).unwrap();
    }

    pub(crate) fn attach(&self, namespace: &str, name: &str) -> Place {
        self.attach_at(namespace, name, NetworkNamespace::create().unwrap())
    }

    pub(crate) fn attach_at(&self, namespace: &str, name: &str, place: NetworkNamespace) -> Place {
        let uid = PodUid::new(format!("{namespace}/{name}"));
        let attachment = Attachment {
            pod: PodRef { namespace: namespace.into(), name: name.into(), uid },
            sandbox: SandboxId::new(format!("{namespace}-{name}")),
            namespace: Arc::new(At(place.path())),
            host_ports: Vec::new(),
        };
        let addresses = self.runtime.block_on(self.network.attach(attachment)).unwrap();
        Place { namespace: place, addresses }
    }

    pub(crate) fn detach(&self, namespace: &str, name: &str) {
        let sandbox = SandboxId::new(format!("{namespace}-{name}"));
        self.runtime.block_on(self.network.detach(&sandbox)).unwrap();
    }

    pub(crate) fn gateway(&self) -> IpAddr {
        self.network.gateways()[0]
    }
}

/// The two nodes and the nine pods, a and c on the first node, b on the second.
pub(crate) struct Cluster {
    pub(crate) nodes: [Node; 2],
    pub(crate) places: BTreeMap<ObjectKey, Place>,
    /// As the API has them.
    pods: Mutex<BTreeMap<ObjectKey, Pod>>,
}

pub(crate) fn key(namespace: &str, name: &str) -> ObjectKey {
    ObjectKey::new(namespace, name)
}

impl Cluster {
    /// `None`, said loudly, if this machine lets us make no network namespace.
    pub(crate) fn start() -> Option<Self> {
        if let Err(err) = NetworkNamespace::create() {
            println!("SKIPPED: {err}: {}", err.source);
            return None;
        }
        let nodes = [1, 2].map(Node::start);
        join(&nodes);
        let mut cluster = Self { nodes, places: BTreeMap::new(), pods: Mutex::default() };
        for namespace in NAMESPACES {
            cluster.set_namespace(namespace, json!({"ns": namespace}));
            for name in PODS {
                cluster.add_pod(namespace, name);
            }
        }
        cluster.add_services();
        cluster.tell();
        Some(cluster)
    }

    pub(crate) fn node_of(&self, pod: &ObjectKey) -> &Node {
        &self.nodes[usize::from(pod.name == "b")]
    }

    fn add_pod(&mut self, namespace: &str, name: &str) {
        let key = key(namespace, name);
        let place = self.node_of(&key).attach(namespace, name);
        let node = node_name(self.node_of(&key).n);
        let names = Protocol::ALL.into_iter().flat_map(|protocol| {
            PORTS.map(|number| NamedPort {
                name: format!("serve-{number}-{}", protocol.to_string().to_lowercase()).into(),
                protocol,
                number,
            })
        });
        let pod = Pod {
            uid: key.to_string().into(),
            labels: [("pod", name)].into_iter().collect(),
            node: node.as_str().into(),
            addresses: place.addresses.clone(),
            ports: names.collect(),
            ..Pod::default()
        };
        self.places.insert(key.clone(), place);
        self.set_pod(&key, Some(pod));
    }

    fn set_pod(&self, key: &ObjectKey, pod: Option<Pod>) {
        for node in &self.nodes {
            node.enforced.lock().state.set_pod(key, pod.clone());
        }
        let mut pods = self.pods.lock().unwrap();
        match pod {
            Some(pod) => pods.insert(key.clone(), pod),
            None => pods.remove(key),
        };
    }

    pub(crate) fn label(&self, namespace: &str, name: &str, labels: &[(&str, &str)]) {
        let key = key(namespace, name);
        let mut pod = self.pods.lock().unwrap()[&key].clone();
        pod.labels = labels.iter().copied().collect();
        self.set_pod(&key, Some(pod));
    }

    pub(crate) fn set_namespace(&self, name: &str, labels: Json) {
        let mut labels: BTreeMap<String, String> = serde_json::from_value(labels).unwrap();
        labels.insert("kubernetes.io/metadata.name".to_owned(), name.to_owned());
        for node in &self.nodes {
            node.enforced.lock().state.set_namespace(name, Some(labels.iter().collect()));
        }
    }

    pub(crate) fn set_policy(&self, namespace: &str, name: &str, spec: Option<Json>) {
        let policy = spec.map(|spec| {
            let object = json!({"metadata": {"namespace": namespace, "name": name}, "spec": spec});
            compile(&serde_json::from_value(object).unwrap())
        });
        for node in &self.nodes {
            node.enforced.lock().state.set_policy(&key(namespace, name), policy.clone());
        }
    }

    /// As it was at first.
    pub(crate) fn reset(&self) {
        for namespace in NAMESPACES {
            self.set_namespace(namespace, json!({"ns": namespace}));
            for name in PODS {
                self.label(namespace, name, &[("pod", name)]);
            }
        }
        for node in &self.nodes {
            let mut enforcer = node.enforced.lock();
            for policy in enforcer.state.policy_keys() {
                enforcer.state.set_policy(&policy, None);
            }
        }
        self.tell();
    }

    pub(crate) fn tell(&self) {
        for node in &self.nodes {
            let mut enforcer = node.enforced.lock();
            enforcer.apply().unwrap();
            enforcer.end_forbidden().unwrap();
        }
    }

    /// Whether any node has a table of policies, of any family.
    pub(crate) fn has_tables(&self) -> bool {
        self.nodes.iter().any(|node| {
            let tables = || {
                let id = TableId::new(table_family(Family::V4), "any");
                Nftables::open(id).unwrap().tables().unwrap()
            };
            let tables = node.namespace.run(tables).unwrap();
            tables.iter().any(|it| it.name == cluster().table("policy"))
        })
    }

    /// Each pod's own: translated on the node of whoever asks.
    pub(crate) fn service_of(&self, pod: &ObjectKey) -> IpAddr {
        let index = self.places.keys().position(|it| it == pod).unwrap();
        ip(&format!("10.96.0.{}", index + 1))
    }

    fn add_services(&self) {
        const FRONTEND: &[Field] = &[Field::Destination, Field::Protocol, Field::DestinationPort];
        let mut elements: BTreeMap<Key, Option<Data>> = BTreeMap::new();
        for (pod, place) in &self.places {
            for (protocol, port) in [6, 17].into_iter().flat_map(|it| PORTS.map(|port| (it, port)))
            {
                let frontend =
                    Value::new().address(self.service_of(pod)).protocol(protocol).port(port);
                let endpoint = Value::new().address(place.addresses[0]).port(port);
                elements.insert(frontend.into(), Some(Data::Value(endpoint)));
            }
        }
        let family = Family::V4;
        let rule = Rule::draft(family, "services").dnat_by("endpoints", FRONTEND);
        let hook = Hook::new(ChainKind::Nat, HookPoint::Prerouting, priority::DESTINATION_NAT);
        let table = Table {
            chains: [("services".to_owned(), Chain::at(hook, vec![rule]))].into(),
            sets: [("endpoints", Set::map(types(family, FRONTEND), types(family, ENDPOINT)))]
                .into(),
            elements: [("endpoints", elements)].into(),
        };
        for node in &self.nodes {
            let id = TableId::new(table_family(family), "test-services");
            let converge = || Nftables::open(id).unwrap().converge(&table).unwrap();
            node.namespace.run(converge).unwrap();
        }
    }

    /// Addresses of nodes, as their own processes have them.
    pub(crate) fn set_nodes(&self) {
        for node in &self.nodes {
            for n in [1, 2] {
                let addresses: BTreeSet<IpAddr> =
                    [format!("192.0.2.{n}"), format!("10.244.{n}.1")].map(|it| ip(&it)).into();
                node.enforced.lock().state.set_node(&node_name(n), Some(addresses));
            }
        }
    }
}

/// By a cable, at 192.0.2.n and 2001:db8::n.
fn join(nodes: &[Node; 2]) {
    let [one, two] = nodes;
    let file = File::open(two.namespace.path()).unwrap();
    let pair = VethPair {
        name: "uplink",
        address: HardwareAddress([2, 0, 0, 0, 0, 1]),
        group: 0,
        mtu: 1500,
        peer: End {
            name: "uplink",
            address: HardwareAddress([2, 0, 0, 0, 0, 2]),
            namespace: route::Namespace::File(file.as_fd()),
        },
    };
    RouteSocket::open_in(&one.namespace.path()).unwrap().create_veth(&pair).unwrap();
    for (node, other) in [(one, two), (two, one)] {
        let mut routes = RouteSocket::open_in(&node.namespace.path()).unwrap();
        let link = routes.link("uplink").unwrap().unwrap();
        let up = LinkChange { is_up: Some(true), ..LinkChange::default() };
        routes.change_link(&link, up).unwrap();
        routes.add_address(&link, ip(&format!("192.0.2.{}", node.n)), 24).unwrap();
        routes.add_address(&link, ip(&format!("2001:db8::{}", node.n)), 64).unwrap();
        for gateway in other.as_peer().addresses {
            let route = route::Route {
                destination: Destination::default_of(gateway),
                link: Some(link.index),
                is_blackhole: false,
                gateway: Some(gateway),
                is_onlink: false,
                source: None,
                scope: route::Scope::Universe,
                metric: 0,
                mtu: None,
                protocol: route::Route::BY_HAND,
            };
            routes.put_route(&route).unwrap();
        }
    }
    one.set_peers(two);
    two.set_peers(one);
}

fn bring_up_loopback(namespace: &NetworkNamespace) {
    let mut routes = RouteSocket::open_in(&namespace.path()).unwrap();
    let loopback = routes.link("lo").unwrap().unwrap();
    let up = LinkChange { is_up: Some(true), ..LinkChange::default() };
    routes.change_link(&loopback, up).unwrap();
}
