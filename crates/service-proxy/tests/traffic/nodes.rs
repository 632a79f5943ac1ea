//! A node with pods, and a client outside, each a network namespace of its own; servers in the pods
//! that say who they are and whom they see.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::thread;
use std::time::Duration;

use linux::network_namespace::NetworkNamespace;

pub(crate) const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 244, 0, 1);
pub(crate) const NODE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
pub(crate) const CLIENT: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
pub(crate) const TCP_PORT: u16 = 8080;
pub(crate) const UDP_PORT: u16 = 8053;

/// Nothing here takes longer than microseconds, so this only bounds a test that fails.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long to listen for an answer that must not come.
const SILENCE: Duration = Duration::from_millis(400);

pub(crate) struct Nodes {
    pub(crate) node: NetworkNamespace,
    pub(crate) client: NetworkNamespace,
    pub(crate) pods: Vec<NetworkNamespace>,
}

pub(crate) fn pod_address(pod: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 244, 0, u8::try_from(pod + 2).unwrap())
}

/// Runs `ip` with these words in the namespace.
fn ip(namespace: &NetworkNamespace, words: &str) {
    let output = namespace.run(|| Command::new("ip").args(words.split(' ')).output());
    let output = output.unwrap().unwrap();
    assert!(output.status.success(), "ip {words}: {}", String::from_utf8_lossy(&output.stderr));
}

fn sysctl(namespace: &NetworkNamespace, path: &str, value: &str) {
    let path = format!("/proc/sys/net/ipv4/{path}");
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
        let nodes = Self { node, client, pods: namespaces };
        nodes.connect();
        Some(nodes)
    }

    fn connect(&self) {
        let node = &self.node;
        ip(node, "link set lo up");
        ip(node, "link add xebec0 type bridge");
        ip(node, &format!("addr add {GATEWAY}/24 dev xebec0"));
        ip(node, "link set xebec0 up");
        sysctl(node, "ip_forward", "1");
        sysctl(node, "conf/xebec0/route_localnet", "1");
        join(node, "up0", &self.client);
        // The client is also the way out, so the node would tell it of a shorter way; and of ICMP
        // each host gets only so much.
        sysctl(node, "conf/all/send_redirects", "0");
        sysctl(node, "conf/up0/send_redirects", "0");
        ip(node, &format!("addr add {NODE}/24 dev up0"));
        ip(&self.client, &format!("addr add {CLIENT}/24 dev eth0"));
        ip(&self.client, &format!("route add default via {NODE}"));
        ip(node, &format!("route add default via {CLIENT}"));
        for (index, pod) in self.pods.iter().enumerate() {
            join(node, &format!("veth{index}"), pod);
            ip(node, &format!("link set veth{index} master xebec0"));
            // Where bridged packets pass netfilter, one that goes back to its pod is bridged, not
            // routed.
            ip(node, &format!("link set veth{index} type bridge_slave hairpin on"));
            ip(pod, &format!("addr add {}/32 dev eth0", pod_address(index)));
            ip(pod, &format!("route add {GATEWAY} dev eth0 scope link"));
            ip(pod, &format!("route add default via {GATEWAY}"));
            serve(pod, index);
        }
    }
}

/// Each connection and each datagram is answered with `pod N from ADDRESS`. A connection stays
/// open, and answers each byte.
fn serve(pod: &NetworkNamespace, index: usize) {
    let sockets = pod.run(|| {
        let any = Ipv4Addr::UNSPECIFIED;
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
            let _ = socket.send_to(format!("pod {index} from {}", from.ip()).as_bytes(), from);
        }
    });
}

fn answer(mut stream: TcpStream, index: usize) -> Option<()> {
    let from = stream.peer_addr().ok()?.ip();
    while stream.read_exact(&mut [0]).is_ok() {
        stream.write_all(format!("pod {index} from {from}\n").as_bytes()).ok()?;
    }
    None
}

/// A connection to a server of ours.
pub(crate) struct Connection(TcpStream);

impl Connection {
    pub(crate) fn open(from: &NetworkNamespace, to: SocketAddrV4) -> Result<Self, ErrorKind> {
        let connect = || TcpStream::connect_timeout(&to.into(), PATIENCE);
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
pub(crate) fn tcp(from: &NetworkNamespace, to: SocketAddrV4) -> Result<String, ErrorKind> {
    Connection::open(from, to)?.ask()
}

/// A flow of datagrams.
pub(crate) struct Flow(UdpSocket);

impl Flow {
    pub(crate) fn open(from: &NetworkNamespace, to: SocketAddrV4) -> Self {
        let socket = from.run(|| {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
            socket.connect(to).map(|()| socket)
        });
        let socket = socket.unwrap().unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(socket)
    }

    pub(crate) fn ask(&self) -> Result<String, ErrorKind> {
        self.0.send(b"?").map_err(|err| err.kind())?;
        let mut buffer = [0; 64];
        let length = self.0.recv(&mut buffer).map_err(|err| err.kind())?;
        Ok(String::from_utf8_lossy(&buffer[..length]).into_owned())
    }
}

pub(crate) fn udp(from: &NetworkNamespace, to: SocketAddrV4) -> Result<String, ErrorKind> {
    Flow::open(from, to).ask()
}

/// Nobody answers, not even by refusing.
pub(crate) fn is_silent(from: &NetworkNamespace, to: SocketAddrV4) -> bool {
    let connect = || TcpStream::connect_timeout(&to.into(), SILENCE);
    from.run(connect).unwrap().is_err_and(|err| err.kind() == ErrorKind::TimedOut)
}
