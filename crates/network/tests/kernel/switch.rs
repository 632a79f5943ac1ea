//! Several nodes, each a network namespace with a network of its own: some joined by one switch,
//! others on another one behind a router. The router knows no pods.

use std::fs::File;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd as _;
use std::sync::Arc;

use lifecycle::Tasks;
use linux::netlink::route::{
    Destination, HardwareAddress, LinkChange, Namespace, NewTunnel, Peer as End, RouteSocket,
    TunnelKind, VethPair, Vxlan,
};
use linux::network_namespace::NetworkNamespace;
use linux::sysctl;
use network::{Bgp, Config, LeftOut, Network, Peer, Tried};
use node_api::network::Attachment;
use node_api::{PodNetwork as _, SandboxId};

use crate::places::{
    At, Families, Pod, bring_up_loopback, cluster, configure, ip, pod_ref, put_route, range,
};

/// Both switches and the router between them, in a namespace that is the world as well:
/// 192.0.2.100 and 2001:db8::100 on the near side.
pub(crate) struct Switch {
    pub(crate) world: NetworkNamespace,
}

pub(crate) const WORLD: &str = "192.0.2.100";
pub(crate) const WORLD_6: &str = "2001:db8::100";
const ROUTER: &str = "198.51.100.100";
const ROUTER_6: &str = "2001:db8:1::100";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Near,
    Far,
}

/// The n-th has pods in 10.244.n.0/24 and fd00:10:244:n::/64, and is at 192.0.2.n and 2001:db8::n,
/// or on the far side at 198.51.100.n and 2001:db8:1::n.
pub(crate) struct Member {
    pub(crate) n: u8,
    pub(crate) namespace: NetworkNamespace,
    side: Side,
    families: Families,
    backend: String,
    has_direct_routes: bool,
    bgp: Bgp,
    network: Option<Network>,
    pub(crate) runtime: tokio::runtime::Runtime,
    pub(crate) directory: tempfile::TempDir,
    /// Where it is, if it was told so.
    told: Option<Vec<IpAddr>>,
}

impl Switch {
    pub(crate) fn start() -> Option<Self> {
        let world = match NetworkNamespace::create() {
            Ok(world) => world,
            Err(err) => {
                println!("SKIPPED: {err}: {}", err.source);
                return None;
            }
        };
        let has_ipv6 = || sysctl::read("net/ipv6/conf/all/disable_ipv6").unwrap().is_some();
        if !world.run(has_ipv6).unwrap() {
            println!("SKIPPED: this kernel has no IPv6");
            return None;
        }
        bring_up_loopback(&world);
        let mut routes = RouteSocket::open_in(&world.path()).unwrap();
        for (switch, addresses) in [("near", [WORLD, WORLD_6]), ("far", [ROUTER, ROUTER_6])] {
            routes.create_bridge(switch, 0, 1500).unwrap();
            addresses.iter().for_each(|it| configure(&mut routes, switch, &[it]));
        }
        let forward = || {
            for name in ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"] {
                sysctl::write(name, "1").unwrap();
            }
        };
        world.run(forward).unwrap();
        Some(Self { world })
    }

    /// The same, if this kernel has what the back end needs; else says loudly that it has not.
    pub(crate) fn start_for(backend: &str) -> Option<Self> {
        let switch = Self::start()?;
        let kind = match backend {
            network::VXLAN => {
                let local = ip(WORLD);
                TunnelKind::Vxlan(Vxlan { vni: 1, port: 8472, local, is_learning: false })
            }
            network::IPIP => TunnelKind::Ipip { local: [192, 0, 2, 100].into() },
            network::WIREGUARD => TunnelKind::Wireguard,
            network::UDP if !std::path::Path::new("/dev/net/tun").exists() => {
                println!("SKIPPED: {backend}: there is no /dev/net/tun");
                return None;
            }
            _ => return Some(switch),
        };
        let mut routes = RouteSocket::open_in(&switch.world.path()).unwrap();
        let tunnel = NewTunnel { name: "try", group: 0, mtu: None, address: None, kind };
        if let Err(err) = routes.create_tunnel(&tunnel) {
            println!("SKIPPED: {backend}: {err}: {}", err.source);
            return None;
        }
        let link = routes.link("try").unwrap().unwrap();
        routes.delete_link(&link).unwrap();
        Some(switch)
    }

    /// With both families, next to the world.
    pub(crate) fn add_node(&self, n: u8, backend: &str) -> Member {
        self.add(n, Side::Near, Families::Both, backend, false)
    }

    pub(crate) fn add(
        &self,
        n: u8,
        side: Side,
        families: Families,
        backend: &str,
        has_direct_routes: bool,
    ) -> Member {
        let namespace = NetworkNamespace::create().unwrap();
        bring_up_loopback(&namespace);
        let (directory, backend) = (tempfile::tempdir().unwrap(), backend.to_owned());
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let network = None;
        let mut member = Member {
            n,
            namespace,
            side,
            families,
            backend,
            has_direct_routes,
            bgp: Bgp::default(),
            network,
            runtime,
            directory,
            told: None,
        };
        self.plug_in(&member);
        member.open();
        member
    }

    /// Its place is free for another one.
    pub(crate) fn unplug(&self, member: &Member) {
        let mut routes = RouteSocket::open_in(&self.world.path()).unwrap();
        let port = routes.link(&format!("port{}", member.n)).unwrap().unwrap();
        routes.delete_link(&port).unwrap();
    }

    fn plug_in(&self, member: &Member) {
        let n = member.n;
        let mut switch = RouteSocket::open_in(&self.world.path()).unwrap();
        let file = File::open(member.namespace.path()).unwrap();
        let name = format!("port{n}");
        let pair = VethPair {
            name: &name,
            address: HardwareAddress([2, 0, 0, 0, 1, n]),
            group: 0,
            mtu: 1500,
            peer: End {
                name: "uplink",
                address: HardwareAddress([2, 0, 0, 0, 2, n]),
                namespace: Namespace::File(file.as_fd()),
            },
        };
        switch.create_veth(&pair).unwrap();
        let (bridge, gateways) = match member.side {
            Side::Near => ("near", [WORLD, WORLD_6]),
            Side::Far => ("far", [ROUTER, ROUTER_6]),
        };
        let bridge = switch.link(bridge).unwrap().unwrap();
        let port = switch.link(&name).unwrap().unwrap();
        let change = LinkChange { master: Some(bridge.index), ..LinkChange::default() };
        switch.change_link(&port, change).unwrap();
        let mut routes = member.routes();
        for address in member.addresses() {
            configure(&mut routes, "uplink", &[&address.to_string()]);
        }
        for gateway in gateways.map(ip) {
            put_route(&mut routes, "uplink", Destination::default_of(gateway), gateway);
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        packets::purge(&self.worker().directory).unwrap();
    }
}

impl Member {
    pub(crate) fn network(&self) -> &Network {
        self.network.as_ref().unwrap()
    }

    fn addresses(&self) -> Vec<IpAddr> {
        let n = self.n;
        let (v4, v6) = match self.side {
            Side::Near => (format!("192.0.2.{n}"), format!("2001:db8::{n}")),
            Side::Far => (format!("198.51.100.{n}"), format!("2001:db8:1::{n}")),
        };
        vec![ip(&v4), ip(&v6)]
    }

    pub(crate) fn config(&self) -> Config {
        let n = self.n;
        let v4 = range(&format!("10.244.{n}.0/24"), "10.244.0.0/16");
        let v6 = range(&format!("fd00:10:244:{n}::/64"), "fd00:10:244::/56");
        Config {
            cluster: cluster(),
            node: format!("node-{n}"),
            addresses: self.told.clone().unwrap_or_else(|| self.addresses()),
            name_servers: Vec::new(),
            backend: self.backend.clone(),
            has_direct_routes: self.has_direct_routes,
            bgp: self.bgp.clone(),
            worker: Some(self.worker()),
            bridge: "xebec0".into(),
            ranges: match self.families {
                Families::V4 => vec![v4],
                Families::V6 => vec![v6],
                Families::Both => vec![v4, v6],
            },
            directory: self.directory.path().join("network"),
            settings: self.directory.path().to_owned(),
            mtu: None,
        }
    }

    /// This program, in a process of its own.
    pub(crate) fn worker(&self) -> packets::Place {
        packets::Place {
            directory: self.directory.path().join("worker"),
            program: std::env::current_exe().unwrap(),
            arguments: ["udp::worker", "--exact", "--ignored"].map(Into::into).into(),
        }
    }

    /// Starts anew, and speaks BGP so.
    pub(crate) fn speak(&mut self, bgp: Bgp) {
        self.bgp = bgp;
        self.open();
    }

    /// Starts anew with another way between nodes.
    pub(crate) fn restart_as(&mut self, backend: &str) {
        self.backend = backend.to_owned();
        self.open();
    }

    /// Starts anew, and is there, or finds out where it is.
    pub(crate) fn restart_at(&mut self, addresses: &[&str]) {
        self.told = Some(addresses.iter().map(|it| ip(it)).collect());
        self.open();
    }

    /// Returns when no peer is left out.
    pub(crate) fn wait_for_all(&self) {
        let mut left_out = self.network().left_out();
        self.runtime.block_on(left_out.wait_for(Vec::is_empty)).unwrap();
    }

    /// Also what a restart is.
    pub(crate) fn open(&mut self) {
        self.network = None;
        let config = self.config();
        self.network = Some(self.namespace.run(|| Network::open(config)).unwrap().unwrap());
    }

    /// From now on what others break is mended, while the value lives.
    pub(crate) fn follow(&self) -> Tasks {
        let tasks = self.runtime.block_on(async { Tasks::new() });
        self.runtime.block_on(async { self.network().follow(&tasks) }).unwrap();
        tasks
    }

    /// As its Node says.
    pub(crate) fn as_peer(&self) -> Peer {
        Peer {
            node: format!("node-{}", self.n),
            pod_cidrs: self.config().ranges.iter().map(|it| it.node).collect(),
            addresses: self.addresses(),
            annotations: self.network().published(),
            is_ready: false,
        }
    }

    /// Those work: the ways to them are tried.
    pub(crate) fn set_ready_peers(&self, peers: &[&Self]) {
        self.set(peers.iter().map(|it| Peer { is_ready: true, ..it.as_peer() }).collect());
    }

    /// Returns when what came of trying the ways is so.
    pub(crate) fn wait_for_tried(&self, is_it: impl Fn(&Tried) -> bool) -> Tried {
        let mut changes = self.network().changes();
        let waiting = async {
            loop {
                let tried = self.network().tried();
                if is_it(&tried) {
                    return tried;
                }
                changes.changed().await.unwrap();
            }
        };
        self.runtime.block_on(waiting)
    }

    pub(crate) fn set_peers(&self, peers: &[&Self]) {
        self.set(peers.iter().map(|it| it.as_peer()).collect());
    }

    pub(crate) fn set(&self, peers: Vec<Peer>) {
        self.runtime.block_on(self.network().set_peers(peers)).unwrap();
    }

    pub(crate) fn left_out(&self) -> Vec<LeftOut> {
        self.network().left_out().borrow().clone()
    }

    pub(crate) fn attach(&self, name: &str) -> Pod {
        let namespace = NetworkNamespace::create().unwrap();
        bring_up_loopback(&namespace);
        let attachment = Attachment {
            pod: pod_ref(name),
            sandbox: SandboxId::new(name),
            namespace: Arc::new(At(namespace.path())),
            host_ports: Vec::new(),
        };
        let addresses = self.runtime.block_on(self.network().attach(attachment)).unwrap();
        Pod { namespace, address: addresses[0], addresses }
    }

    pub(crate) fn routes(&self) -> RouteSocket {
        RouteSocket::open_in(&self.namespace.path()).unwrap()
    }
}

/// Every one is told of all.
pub(crate) fn introduce(members: &[&Member]) {
    members.iter().for_each(|it| it.set_peers(members));
    members.iter().for_each(|it| assert_eq!(it.left_out(), [], "node-{}", it.n));
}

/// The pod asks the other at each of its addresses, and is seen as itself.
pub(crate) fn check(from: &Pod, to: &Pod) {
    for (own, other) in from.addresses.iter().zip(&to.addresses) {
        let address = SocketAddr::new(*other, 80).to_string();
        let seen = crate::places::ask(&from.namespace, &address);
        assert_eq!(seen.as_deref().ok(), Some(own.to_string().as_str()), "{address}: {seen:?}");
    }
}

pub(crate) fn serve(pod: &Pod) {
    for address in &pod.addresses {
        let address = SocketAddr::new(*address, 80).to_string();
        crate::places::Server::start(&pod.namespace, &address);
    }
}
