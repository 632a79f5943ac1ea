//! The places of a test: node, pods, world; and talking between them.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use std::{io, thread};

use linux::netlink::nftables::{
    Chain, ChainKind, Expression, Hook, HookPoint, Nftables, Register, Rule, Table, TableId, Value,
    draft::table_family, expression, priority,
};
use linux::netlink::route::{
    self, Destination, HardwareAddress, LinkChange, Peer, Route, RouteSocket, Scope, VethPair,
};
use linux::network_namespace::NetworkNamespace;
use linux::sysctl;
use network::{Config, NONE, Network, PodRange};
use node_api::network::{Attachment, HostPort, Namespace};
use node_api::{ClusterId, PodNetwork as _, PodRef, PodUid, SandboxId};
use stdx::{Cidr, Family};

pub(crate) const GATEWAY: &str = "10.244.1.1";
pub(crate) const NODE: &str = "192.0.2.1";
pub(crate) const WORLD: &str = "192.0.2.2";
/// In the cluster's network, on another node.
pub(crate) const OTHER_NODES_POD: &str = "10.244.2.9";

/// The same of IPv6.
pub(crate) const GATEWAY_6: &str = "fd00:10:244:1::1";
pub(crate) const NODE_6: &str = "2001:db8:2::1";
pub(crate) const WORLD_6: &str = "2001:db8:2::2";
pub(crate) const OTHER_NODES_POD_6: &str = "fd00:10:244:2::9";

/// In which families the pods of a test have addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Families {
    V4,
    V6,
    Both,
}

pub(crate) fn range(node: &str, cluster: &str) -> PodRange {
    PodRange { node: node.parse().unwrap(), cluster: cluster.parse().unwrap() }
}

fn ranges(families: Families) -> Vec<PodRange> {
    let v4 = range("10.244.1.0/24", "10.244.0.0/16");
    let v6 = range("fd00:10:244:1::/64", "fd00:10:244::/56");
    match families {
        Families::V4 => vec![v4],
        Families::V6 => vec![v6],
        Families::Both => vec![v4, v6],
    }
}

/// So long only a broken network lets us wait.
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) struct Node {
    pub(crate) namespace: NetworkNamespace,
    pub(crate) directory: tempfile::TempDir,
    families: Families,
    runtime: tokio::runtime::Runtime,
    network: Option<Network>,
}

/// The namespace that a file names; it has ended when the file is gone.
#[derive(Debug)]
pub(crate) struct At(pub(crate) PathBuf);

impl Namespace for At {
    fn open(&self) -> io::Result<Option<OwnedFd>> {
        match File::open(&self.0) {
            Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(None),
            opened => opened.map(|it| Some(it.into())),
        }
    }
}

pub(crate) struct Pod {
    pub(crate) namespace: NetworkNamespace,
    /// The first.
    pub(crate) address: IpAddr,
    pub(crate) addresses: Vec<IpAddr>,
}

pub(crate) fn cluster() -> ClusterId {
    "00c0ffee".parse().unwrap()
}

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub(crate) fn pod_ref(name: &str) -> PodRef {
    PodRef { namespace: "default".into(), name: name.into(), uid: PodUid::new(name) }
}

impl Node {
    /// With IPv4. `None`, said loudly, if this machine lets us make no network namespace.
    pub(crate) fn start() -> Option<Self> {
        Self::start_with(Families::V4)
    }

    /// `None` also if it has no IPv6 and that is asked for.
    pub(crate) fn start_with(families: Families) -> Option<Self> {
        let namespace = match NetworkNamespace::create() {
            Ok(namespace) => namespace,
            Err(err) => {
                println!("SKIPPED: {err}: {}", err.source);
                return None;
            }
        };
        bring_up_loopback(&namespace);
        let has_ipv6 = || sysctl::read("net/ipv6/conf/all/disable_ipv6").unwrap().is_some();
        if families != Families::V4 && !namespace.run(has_ipv6).unwrap() {
            println!("SKIPPED: this kernel has no IPv6");
            return None;
        }
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let mut node = Self { namespace, directory, families, runtime, network: None };
        node.open();
        Some(node)
    }

    pub(crate) fn config(&self) -> Config {
        Config {
            cluster: cluster(),
            node: "node-1".into(),
            addresses: Vec::new(),
            name_servers: Vec::new(),
            backend: NONE.into(),
            has_direct_routes: false,
            bgp: network::Bgp::default(),
            worker: None,
            bridge: "xebec0".into(),
            ranges: ranges(self.families),
            directory: self.directory.path().join("network"),
            settings: self.directory.path().to_owned(),
            mtu: None,
        }
    }

    /// Also what a restart is.
    pub(crate) fn open(&mut self) {
        self.open_with(self.config()).unwrap();
    }

    pub(crate) fn open_with(&mut self, config: Config) -> Result<(), node_api::Error> {
        self.network = None;
        self.network = Some(self.namespace.run(|| Network::open(config)).unwrap()?);
        Ok(())
    }

    pub(crate) fn network(&self) -> &Network {
        self.network.as_ref().unwrap()
    }

    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    pub(crate) fn routes(&self) -> RouteSocket {
        RouteSocket::open_in(&self.namespace.path()).unwrap()
    }

    pub(crate) fn attach(&self, name: &str, host_ports: &[HostPort]) -> Pod {
        let namespace = NetworkNamespace::create().unwrap();
        let path = namespace.path();
        let addresses = self.attach_to(self.network(), name, path, host_ports).unwrap();
        Pod { namespace, address: addresses[0], addresses }
    }

    /// The pod's first address.
    pub(crate) fn try_attach(
        &self,
        name: &str,
        namespace: PathBuf,
        host_ports: &[HostPort],
    ) -> Result<IpAddr, node_api::Error> {
        Ok(self.attach_to(self.network(), name, namespace, host_ports)?[0])
    }

    /// To the network of another cluster, perhaps.
    pub(crate) fn attach_to(
        &self,
        network: &Network,
        name: &str,
        namespace: PathBuf,
        host_ports: &[HostPort],
    ) -> Result<Vec<IpAddr>, node_api::Error> {
        let attachment = Attachment {
            pod: pod_ref(name),
            sandbox: SandboxId::new(name),
            namespace: Arc::new(At(namespace)),
            host_ports: host_ports.to_vec(),
        };
        self.runtime.block_on(network.attach(attachment))
    }

    pub(crate) fn detach(&self, name: &str) {
        self.runtime.block_on(self.network().detach(&SandboxId::new(name))).unwrap();
    }

    /// As a start does, with the namespaces of those that live.
    pub(crate) fn keep_only(&self, living: &[(&str, &NetworkNamespace)]) {
        let namespace = |it: &NetworkNamespace| -> Arc<dyn Namespace> { Arc::new(At(it.path())) };
        let sandboxes = living.iter().map(|(name, it)| (SandboxId::new(*name), namespace(it)));
        self.runtime.block_on(self.network().keep_only(sandboxes.collect())).unwrap();
    }

    /// A place outside, at the other end of the node's cable. What is not for the cluster's pods,
    /// it sends to nobody: answers reach only the node's own address.
    pub(crate) fn connect_world(&self) -> NetworkNamespace {
        let world = NetworkNamespace::create().unwrap();
        bring_up_loopback(&world);
        let file = File::open(world.path()).unwrap();
        let mut node_routes = self.routes();
        let mut world_routes = RouteSocket::open_in(&world.path()).unwrap();
        let peer = Peer {
            name: "cable",
            address: HardwareAddress([2, 0, 0, 0, 0, 2]),
            namespace: route::Namespace::File(file.as_fd()),
        };
        let address = HardwareAddress([2, 0, 0, 0, 0, 1]);
        let pair = VethPair { name: "uplink", address, group: 0, mtu: 1500, peer };
        node_routes.create_veth(&pair).unwrap();
        configure(&mut world_routes, "cable", &[WORLD, OTHER_NODES_POD]);
        configure(&mut world_routes, "cable", &[WORLD_6, OTHER_NODES_POD_6]);
        configure(&mut node_routes, "uplink", &[NODE]);
        configure(&mut node_routes, "uplink", &[NODE_6]);
        for gateway in [WORLD, WORLD_6].map(ip) {
            let default = Destination::default_of(gateway);
            put_route(&mut node_routes, "uplink", default, gateway);
        }
        // As another node would route.
        for (range, gateway) in [("10.244.1.0", NODE), ("fd00:10:244:1::", NODE_6)] {
            let prefix_length = prefix_length_of(ip(range));
            let destination = Destination { address: ip(range), prefix_length };
            put_route(&mut world_routes, "cable", destination, ip(gateway));
        }
        world
    }

    /// A Service, as simple as can be: everything to this address and port goes to one pod.
    pub(crate) fn add_service(&self, address: &str, pod: IpAddr, port: u16) {
        let family = Family::of(pod);
        let mut rule: Rule =
            Rule::draft(family, "service").destination_in(Cidr::host(ip(address))).into();
        let (kind, from) = (expression::Nat::Destination, Register(0));
        let last = Register(family.bits() / 32);
        rule.expressions.extend([
            Expression::Immediate { into: from, value: Value::new().address(pod) },
            Expression::Immediate { into: last, value: Value::new().port(port) },
            Expression::Nat { kind, address: from, port: Some(last), flags: 0 },
        ]);
        let hook = Hook::new(ChainKind::Nat, HookPoint::Prerouting, priority::DESTINATION_NAT);
        let chains = [("services".to_owned(), Chain::at(hook, vec![rule]))].into();
        let id = TableId::new(table_family(family), "test-services");
        let table = Table { chains, ..Table::default() };
        self.namespace.run(|| Nftables::open(id).unwrap().converge(&table).unwrap()).unwrap();
    }
}

pub(crate) fn bring_up_loopback(namespace: &NetworkNamespace) {
    let mut routes = RouteSocket::open_in(&namespace.path()).unwrap();
    let loopback = routes.link("lo").unwrap().unwrap();
    routes
        .change_link(&loopback, LinkChange { is_up: Some(true), ..LinkChange::default() })
        .unwrap();
}

/// The first address is the link's own network, the others are addresses of the place.
pub(crate) fn configure(routes: &mut RouteSocket, link: &str, addresses: &[&str]) {
    let link = routes.link(link).unwrap().unwrap();
    routes.change_link(&link, LinkChange { is_up: Some(true), ..LinkChange::default() }).unwrap();
    for (index, address) in addresses.iter().enumerate() {
        let address = ip(address);
        let all = Family::of(address).bits();
        let prefix_length = if index == 0 { prefix_length_of(address) } else { all };
        routes.add_address(&link, address, prefix_length).unwrap();
    }
}

/// That of the networks of a test.
fn prefix_length_of(address: IpAddr) -> u8 {
    if address.is_ipv4() { 24 } else { 64 }
}

pub(crate) fn put_route(
    routes: &mut RouteSocket,
    link: &str,
    destination: Destination,
    gateway: IpAddr,
) {
    let link = routes.link(link).unwrap().unwrap();
    let route = Route {
        destination,
        link: Some(link.index),
        is_blackhole: false,
        gateway: Some(gateway),
        is_onlink: false,
        source: None,
        scope: Scope::Universe,
        metric: 0,
        mtu: None,
        protocol: Route::BY_HAND,
    };
    routes.put_route(&route).unwrap();
}

/// A TCP server for one question at a time: it answers with the address from which it is asked.
pub(crate) struct Server;

impl Server {
    pub(crate) fn start(place: &NetworkNamespace, address: &str) -> Self {
        let listener = place.run(|| TcpListener::bind(address).unwrap()).unwrap();
        // Ends with the test's process.
        thread::spawn(move || {
            while let Ok((mut stream, client)) = listener.accept() {
                let _ = stream.write_all(client.ip().to_string().as_bytes());
            }
        });
        Self
    }
}

/// From where a server sees this place when it asks at this address.
pub(crate) fn ask(place: &NetworkNamespace, address: &str) -> Result<String, io::Error> {
    let address = address.parse().unwrap();
    place
        .run(|| {
            let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            let mut text = String::new();
            stream.read_to_string(&mut text)?;
            Ok(text)
        })
        .unwrap()
}

pub(crate) fn udp(place: &NetworkNamespace, address: &str) -> UdpSocket {
    let socket = place.run(|| UdpSocket::bind(address).unwrap()).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// Sends until it is heard. A link that was made just now loses packets until the kernel has started
/// its queue, which it does a moment after the link is up (`linkwatch`, in `net/core/link_watch.c`).
pub(crate) fn deliver(client: &UdpSocket, text: &str, server: &UdpSocket) {
    const TRIES: u32 = 25;
    server.set_read_timeout(Some(PATIENCE / TRIES)).unwrap();
    let heard = (0..TRIES).find_map(|_| {
        let _ = client.send(text.as_bytes());
        receive(server).ok()
    });
    assert_eq!(heard.expect("it is heard").0, text);
}

/// The next packet, as text, and from where it came.
pub(crate) fn receive(socket: &UdpSocket) -> Result<(String, SocketAddr), io::Error> {
    let mut buffer = [0; 100];
    let (length, sender) = socket.recv_from(&mut buffer)?;
    Ok((String::from_utf8_lossy(&buffer[..length]).into_owned(), sender))
}

/// What the commands say, in this place.
pub(crate) fn shell(place: &NetworkNamespace, commands: &str) -> Result<String, String> {
    let run = || Command::new("sh").args(["-euc", commands]).stdin(Stdio::null()).output().unwrap();
    let output = place.run(run).unwrap();
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout).unwrap()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}
