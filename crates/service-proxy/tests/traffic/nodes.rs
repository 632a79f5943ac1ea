//! A node with pods, and a client outside, each a network namespace of its own; servers in the pods
//! that say who they are and whom they see.

use std::cell::RefCell;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::thread;
use std::time::Duration;

use linux::network_namespace::NetworkNamespace;
use node_api::ClusterId;
use rustix::io::Errno;
use stdx::Family;

/// Of all tests here.
pub(crate) const CLUSTERS: [&str; 3] = ["00c0ffee", "0badcafe", "5eedf00d"];

pub(crate) const TCP_PORT: u16 = 8080;
pub(crate) const UDP_PORT: u16 = 8053;

pub(crate) const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

/// Nothing here takes longer than microseconds, so this only bounds a test that fails.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long to listen for an answer that must not come.
const SILENCE: Duration = Duration::from_millis(400);

pub(crate) struct Nodes {
    pub(crate) node: NetworkNamespace,
    pub(crate) client: NetworkNamespace,
    pub(crate) pods: Vec<NetworkNamespace>,
    workers: tempfile::TempDir,
}

/// Who has which address. Every namespace has one of each family.
pub(crate) mod addresses {
    use super::{Family, IpAddr};

    fn parse(family: Family, ipv4: &str, ipv6: &str) -> IpAddr {
        let text = match family {
            Family::V4 => ipv4,
            Family::V6 => ipv6,
        };
        text.parse().unwrap()
    }

    pub(crate) fn gateway(family: Family) -> IpAddr {
        parse(family, "10.244.0.1", "fd00:10:244::1")
    }

    pub(crate) fn node(family: Family) -> IpAddr {
        parse(family, "192.0.2.1", "2001:db8::1")
    }

    pub(crate) fn client(family: Family) -> IpAddr {
        parse(family, "192.0.2.2", "2001:db8::2")
    }

    pub(crate) fn loopback(family: Family) -> IpAddr {
        parse(family, "127.0.0.1", "::1")
    }

    pub(crate) fn pod(family: Family, index: usize) -> IpAddr {
        let number = index + 2;
        parse(family, &format!("10.244.0.{number}"), &format!("fd00:10:244::{number:x}"))
    }

    /// An address in the range of ClusterIPs.
    pub(crate) fn service(family: Family, number: u8) -> IpAddr {
        parse(family, &format!("10.96.0.{number}"), &format!("fd00:10:96::{number:x}"))
    }

    /// An address that nobody has, and to which the client goes by the node.
    pub(crate) fn external(family: Family, number: u8) -> IpAddr {
        parse(family, &format!("198.51.100.{number}"), &format!("2001:db8:1::{number:x}"))
    }
}

/// Runs `ip` with these words in the namespace.
fn ip(namespace: &NetworkNamespace, words: &str) {
    let output = namespace.run(|| Command::new("ip").args(words.split(' ')).output());
    let output = output.unwrap().unwrap();
    assert!(output.status.success(), "ip {words}: {}", String::from_utf8_lossy(&output.stderr));
}

fn add_address(namespace: &NetworkNamespace, link: &str, address: IpAddr, length: u8) {
    ip(namespace, &format!("addr add {address}/{length} dev {link}"));
}

fn subnet_length(family: Family) -> u8 {
    match family {
        Family::V4 => 24,
        Family::V6 => 64,
    }
}

fn sysctl(namespace: &NetworkNamespace, path: &str, value: &str) {
    let path = format!("/proc/sys/net/{path}");
    namespace.run(|| std::fs::write(&path, value)).unwrap().unwrap();
}

/// A pair of interfaces: `here` in the one, `eth0` in the other.
fn join(namespace: &NetworkNamespace, here: &str, other: &NetworkNamespace) {
    let there = other.path();
    let descriptor = there.file_name().unwrap().to_str().unwrap();
    let file = format!("/proc/{}/fd/{descriptor}", std::process::id());
    ip(namespace, &format!("link add {here} type veth peer name eth0 netns {file}"));
    ip(namespace, &format!("link set {here} up"));
    ip(other, "link set lo up");
    ip(other, "link set eth0 up");
}

/// What does not go with the namespaces: workers, and programs of mode ebpf, which are at a cgroup.
impl Drop for Nodes {
    fn drop(&mut self) {
        for entry in std::fs::read_dir(self.workers.path()).unwrap() {
            packets::purge(&entry.unwrap().path()).unwrap();
        }
        let mode = service_proxy::backends::mode("ebpf").unwrap();
        for cluster in CLUSTERS {
            let purged = self.node.run(|| (mode.purge)(cluster.parse().unwrap()));
            if let Err(err) = purged.unwrap() {
                eprintln!("left behind: {}", stdx::error_chain(&err));
            }
        }
    }
}

impl Nodes {
    /// `None`, and says why, where namespaces cannot be made.
    pub(crate) fn new(n_pods: usize) -> Option<Self> {
        let create = || NetworkNamespace::create().map_err(|err| format!("{err}: {}", err.source));
        let has_ip = Command::new("ip").arg("-V").output().map_err(|err| format!("ip: {err}"));
        let namespaces: Result<Vec<_>, _> =
            has_ip.and_then(|_| (0..n_pods + 2).map(|_| create()).collect());
        let mut namespaces = match namespaces {
            Ok(namespaces) => namespaces,
            Err(err) => {
                eprintln!("SKIPPED: {err}");
                return None;
            }
        };
        let (node, client) = (namespaces.remove(0), namespaces.remove(0));
        let workers = tempfile::tempdir().unwrap();
        let nodes = Self { node, client, pods: namespaces, workers };
        nodes.connect();
        Some(nodes)
    }

    /// This program, in a process of its own.
    pub(crate) fn worker(&self, cluster: ClusterId) -> packets::Place {
        packets::Place {
            directory: self.workers.path().join(cluster.to_string()),
            program: std::env::current_exe().unwrap(),
            arguments: ["userspace::worker", "--exact", "--ignored"].map(Into::into).into(),
        }
    }

    fn connect(&self) {
        let node = &self.node;
        for namespace in self.pods.iter().chain([node, &self.client]) {
            // Nobody has an address twice, and a bridge that sends packets back would make it seem
            // so; and a shorter way than by the node is none.
            sysctl(namespace, "ipv6/conf/default/accept_dad", "0");
            sysctl(namespace, "ipv6/conf/default/accept_redirects", "0");
        }
        ip(node, "link set lo up");
        ip(node, "link add xebec0 type bridge");
        ip(node, "link set xebec0 up");
        sysctl(node, "ipv6/conf/all/forwarding", "1");
        sysctl(node, "ipv4/ip_forward", "1");
        sysctl(node, "ipv4/conf/xebec0/route_localnet", "1");
        join(node, "up0", &self.client);
        // The client is also the way out, so the node would tell it of a shorter way; and of ICMP
        // each host gets only so much.
        sysctl(node, "ipv4/conf/all/send_redirects", "0");
        sysctl(node, "ipv4/conf/up0/send_redirects", "0");
        for family in FAMILIES {
            let (node_address, client_address) =
                (addresses::node(family), addresses::client(family));
            let length = subnet_length(family);
            add_address(node, "xebec0", addresses::gateway(family), length);
            add_address(node, "up0", node_address, length);
            add_address(&self.client, "eth0", client_address, length);
            ip(&self.client, &format!("route add default via {node_address}"));
            ip(node, &format!("route add default via {client_address}"));
        }
        for (index, pod) in self.pods.iter().enumerate() {
            join(node, &format!("veth{index}"), pod);
            ip(node, &format!("link set veth{index} master xebec0"));
            // Where bridged packets pass netfilter, one that goes back to its pod is bridged, not
            // routed.
            ip(node, &format!("link set veth{index} type bridge_slave hairpin on"));
            for family in FAMILIES {
                let gateway = addresses::gateway(family);
                add_address(pod, "eth0", addresses::pod(family, index), family.bits());
                ip(pod, &format!("route add {gateway} dev eth0"));
                ip(pod, &format!("route add default via {gateway}"));
            }
            serve(pod, index);
        }
    }
}

/// Each connection and each datagram is answered with `pod N from ADDRESS`. A connection stays
/// open, and answers each byte.
fn serve(pod: &NetworkNamespace, index: usize) {
    let sockets = pod.run(|| {
        // Both families, as nobody says otherwise.
        let any = Ipv6Addr::UNSPECIFIED;
        (TcpListener::bind((any, TCP_PORT)).unwrap(), UdpSocket::bind((any, UDP_PORT)).unwrap())
    });
    let (listener, socket) = sockets.unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || answer(stream, index));
        }
    });
    thread::spawn(move || {
        while let Ok((_, from)) = socket.recv_from(&mut [0; 64]) {
            let _ = socket
                .send_to(format!("pod {index} from {}", from.ip().to_canonical()).as_bytes(), from);
        }
    });
}

fn answer(mut stream: TcpStream, index: usize) -> Option<()> {
    let from = stream.peer_addr().ok()?.ip().to_canonical();
    while stream.read_exact(&mut [0]).is_ok() {
        stream.write_all(format!("pod {index} from {from}\n").as_bytes()).ok()?;
    }
    None
}

/// A connection to a server of ours.
pub(crate) struct Connection(TcpStream);

impl Connection {
    pub(crate) fn open(from: &NetworkNamespace, to: SocketAddr) -> Result<Self, ErrorKind> {
        let connect = || TcpStream::connect_timeout(&to, PATIENCE);
        let stream = from.run(connect).unwrap().map_err(|err| err.kind())?;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Ok(Self(stream))
    }

    pub(crate) fn ask(&mut self) -> Result<String, ErrorKind> {
        self.0.write_all(b"?").map_err(|err| err.kind())?;
        let mut text = String::new();
        while !text.ends_with('\n') {
            let mut byte = [0];
            self.0.read_exact(&mut byte).map_err(|err| err.kind())?;
            text.push(byte[0].into());
        }
        Ok(text.trim_end().to_owned())
    }
}

/// One question over a connection of its own.
pub(crate) fn tcp(from: &NetworkNamespace, to: SocketAddr) -> Result<String, ErrorKind> {
    Connection::open(from, to)?.ask()
}

pub(crate) fn unspecified(to: SocketAddr) -> IpAddr {
    match to {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// A flow of datagrams.
pub(crate) struct Flow<'a> {
    socket: RefCell<UdpSocket>,
    from: &'a NetworkNamespace,
    to: SocketAddr,
}

impl<'a> Flow<'a> {
    pub(crate) fn open(from: &'a NetworkNamespace, to: SocketAddr) -> Self {
        Self { socket: RefCell::new(Self::connect(from, to)), from, to }
    }

    fn connect(from: &NetworkNamespace, to: SocketAddr) -> UdpSocket {
        let socket = from.run(|| {
            let socket = UdpSocket::bind((unspecified(to), 0)).unwrap();
            socket.connect(to).map(|()| socket)
        });
        let socket = socket.unwrap().unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    }

    /// Where sockets are translated, one whose endpoint is gone is ended, and who has it opens
    /// another: that is the same flow to whoever uses it.
    pub(crate) fn ask(&self) -> Result<String, ErrorKind> {
        let is_ended = |err: &io::Error| {
            let errno = err.raw_os_error().map(Errno::from_raw_os_error);
            matches!(errno, Some(Errno::CONNABORTED | Errno::DESTADDRREQ))
        };
        let mut answer = self.ask_once();
        if answer.as_ref().is_err_and(is_ended) {
            self.socket.replace(Self::connect(self.from, self.to));
            answer = self.ask_once();
        }
        answer.map_err(|err| err.kind())
    }

    fn ask_once(&self) -> io::Result<String> {
        let socket = self.socket.borrow();
        socket.send(b"?")?;
        let mut buffer = [0; 64];
        let length = socket.recv(&mut buffer)?;
        Ok(String::from_utf8_lossy(&buffer[..length]).into_owned())
    }
}

pub(crate) fn udp(from: &NetworkNamespace, to: SocketAddr) -> Result<String, ErrorKind> {
    Flow::open(from, to).ask()
}

/// Nobody answers, not even by refusing.
pub(crate) fn is_silent(from: &NetworkNamespace, to: SocketAddr) -> bool {
    let connect = || TcpStream::connect_timeout(&to, SILENCE);
    from.run(connect).unwrap().is_err_and(|err| err.kind() == ErrorKind::TimedOut)
}
