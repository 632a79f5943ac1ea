//! What a new connection from the node costs through a Service, in modes ebpf and nftables, and to
//! the pod's own address: `cargo run --release -p service-proxy --example connect [CONNECTIONS]`.
//!
//! Works in network namespaces of its own; programs at the root of cgroups are for those alone, and
//! gone at the end. Needs root.
#![expect(clippy::print_stdout, reason = "prints what it measured")]

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

use apimachinery::ObjectKey;
use linux::network_namespace::NetworkNamespace;
use node_api::ClusterId;
use service_proxy::backends::{self, Backend, Mode, Networks};
use service_proxy::service_port::{Endpoint, Endpoints, Protocol, ServicePort, TrafficPolicy};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const ROUNDS: usize = 20;
const N_SERVICES: u8 = 200;
const POD: Ipv4Addr = Ipv4Addr::new(10, 244, 0, 2);
const PORT: u16 = 8080;
const SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);

fn main() -> Result<(), Failure> {
    let n_connections = std::env::args().nth(1).map_or(Ok(5000), |it| it.parse())?;
    let modes = ["nftables", "ebpf"].map(backends::mode);
    let mut nodes = Vec::new();
    for mode in modes {
        nodes.push(Node::new(mode?)?);
    }
    let per_round = n_connections / ROUNDS;
    let [mut direct, mut nftables, mut ebpf] = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        // One after the other within a round, so that what else the machine does meets all.
        direct.push(nodes[1].connect(per_round, (POD, PORT).into())?);
        nftables.push(nodes[0].connect(per_round, (SERVICE, 80).into())?);
        ebpf.push(nodes[1].connect(per_round, (SERVICE, 80).into())?);
    }
    let [direct, nftables, ebpf] = [direct, nftables, ebpf].map(median);
    println!("to the pod's own address  {direct:>9.1?} a connection");
    println!("to the Service, ebpf      {ebpf:>9.1?}: {:.2} of that", ratio(ebpf, direct));
    println!("to the Service, nftables  {nftables:>9.1?}: {:.2} of that", ratio(nftables, direct));
    println!("new connections by ebpf: {:.2} times those by nftables", ratio(nftables, ebpf));
    Ok(())
}

fn ratio(one: Duration, other: Duration) -> f64 {
    one.as_secs_f64() / other.as_secs_f64()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn cluster() -> ClusterId {
    ClusterId::new(std::num::NonZeroU32::MAX)
}

/// A node with one pod, that serves Services in one mode.
struct Node {
    namespace: NetworkNamespace,
    mode: &'static Mode,
    _pod: NetworkNamespace,
    _backend: Box<dyn Backend>,
}

impl Node {
    fn new(mode: &'static Mode) -> Result<Self, Failure> {
        let [namespace, pod] = [NetworkNamespace::create()?, NetworkNamespace::create()?];
        let there = pod.path();
        let descriptor = there.file_name().and_then(|it| it.to_str()).ok_or("no descriptor")?;
        let file = format!("/proc/{}/fd/{descriptor}", std::process::id());
        ip(&namespace, &format!("link add pod0 type veth peer name eth0 netns {file}"))?;
        for (namespace, link, address) in
            [(&namespace, "pod0", Ipv4Addr::new(10, 244, 0, 1)), (&pod, "eth0", POD)]
        {
            ip(namespace, "link set lo up")?;
            ip(namespace, &format!("addr add {address}/24 dev {link}"))?;
            ip(namespace, &format!("link set {link} up"))?;
        }
        // Packets to ClusterIPs have to be on a way before they are translated.
        ip(&namespace, &format!("route add default via {POD}"))?;
        let listener = pod.run(|| TcpListener::bind((POD, PORT)))??;
        std::thread::spawn(move || listener.incoming().flatten().for_each(drop));
        let networks = Networks {
            cluster: vec!["10.244.0.0/16".parse()?],
            services: vec!["10.96.0.0/12".parse()?],
            node_ports: None,
            worker: None,
        };
        let mut backend = namespace.run(|| (mode.open)(cluster(), &networks))??;
        for number in 1..=N_SERVICES {
            let name = ObjectKey::new("default", format!("service-{number}"));
            backend.set(&name, vec![port(number)]);
        }
        backend.resync()?;
        Ok(Self { namespace, mode, _pod: pod, _backend: backend })
    }

    /// How long each takes from the first packet to the end of the last.
    #[expect(clippy::disallowed_methods, reason = "measures real time")]
    fn connect(&self, times: usize, to: SocketAddr) -> Result<Duration, Failure> {
        self.namespace.run(|| {
            let start = std::time::Instant::now();
            for _ in 0..times {
                let stream = TcpStream::connect(to)?;
                // A reset leaves no port behind that would have to wait.
                rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO))?;
            }
            Ok(start.elapsed() / u32::try_from(times)?)
        })?
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Ok(Err(err)) = self.namespace.run(|| (self.mode.purge)(cluster())) {
            println!("left behind: {err}");
        }
    }
}

fn port(number: u8) -> ServicePort {
    let endpoint = Endpoint { address: POD.into(), port: PORT };
    ServicePort {
        name: String::new(),
        cluster_ip: Ipv4Addr::new(10, 96, 0, number).into(),
        protocol: Protocol::Tcp,
        port: 80,
        node_port: None,
        external_ips: BTreeSet::new(),
        load_balancer_ips: BTreeSet::new(),
        source_ranges: None,
        affinity: None,
        internal_policy: TrafficPolicy::Cluster,
        external_policy: TrafficPolicy::Cluster,
        health_check_node_port: None,
        endpoints: Endpoints { cluster: [endpoint].into(), ..Endpoints::default() },
    }
}

fn ip(namespace: &NetworkNamespace, words: &str) -> Result<(), Failure> {
    let output = namespace.run(|| Command::new("ip").args(words.split(' ')).output())??;
    let complaint = || format!("ip {words}: {}", String::from_utf8_lossy(&output.stderr));
    if output.status.success() { Ok(()) } else { Err(complaint().into()) }
}
