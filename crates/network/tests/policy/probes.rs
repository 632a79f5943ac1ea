//! Asking every pod from every other at once: who gets an answer.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use apimachinery::ObjectKey;
use linux::network_namespace::NetworkNamespace;
use network::policy::model::Protocol;

use crate::places::{Cluster, PORTS};

/// First, and when the result is not what it should be.
const PATIENCE: [Duration; 3] =
    [Duration::from_millis(250), Duration::from_secs(1), Duration::from_secs(3)];

/// By which address pods are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Service,
    Ipv4,
    Ipv6,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Probe {
    pub(crate) from: ObjectKey,
    pub(crate) to: ObjectKey,
    pub(crate) port: u16,
}

/// Each pod answers on both ports, until the test's process ends.
pub(crate) fn serve(cluster: &Cluster) {
    for place in cluster.places.values() {
        for port in PORTS {
            serve_tcp(&place.namespace, SocketAddr::new(place.addresses[0], port));
            serve_tcp(&place.namespace, SocketAddr::new(place.addresses[1], port));
            serve_udp(&place.namespace, SocketAddr::new(place.addresses[0], port));
            serve_udp(&place.namespace, SocketAddr::new(place.addresses[1], port));
        }
    }
}

pub(crate) fn serve_tcp(place: &NetworkNamespace, address: SocketAddr) {
    let listener = place.run(|| TcpListener::bind(address).unwrap()).unwrap();
    thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            thread::spawn(move || echo(stream));
        }
    });
}

fn echo(mut stream: TcpStream) {
    let mut buffer = [0; 100];
    while let Ok(length) = stream.read(&mut buffer) {
        if length == 0 || stream.write_all(&buffer[..length]).is_err() {
            return;
        }
    }
}

pub(crate) fn serve_udp(place: &NetworkNamespace, address: SocketAddr) {
    let socket = place.run(|| UdpSocket::bind(address).unwrap()).unwrap();
    thread::spawn(move || {
        let mut buffer = [0; 100];
        while let Ok((length, client)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..length], client);
        }
    });
}

fn address(cluster: &Cluster, to: &ObjectKey, way: Way) -> IpAddr {
    match way {
        Way::Service => cluster.service_of(to),
        Way::Ipv4 => cluster.places[to].addresses[0],
        Way::Ipv6 => cluster.places[to].addresses[1],
    }
}

/// From where the calling thread is.
pub(crate) fn asks(protocol: Protocol, to: SocketAddr, patience: Duration) -> bool {
    match protocol {
        Protocol::Tcp => TcpStream::connect_timeout(&to, patience).is_ok(),
        Protocol::Udp => {
            let any: SocketAddr =
                if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }.parse().unwrap();
            let socket = UdpSocket::bind(any).unwrap();
            socket.set_read_timeout(Some(patience)).unwrap();
            // There may be no way yet.
            socket.connect(to).is_ok()
                && socket.send(b"?").is_ok()
                && socket.recv(&mut [0; 10]).is_ok()
        }
        Protocol::Sctp => unreachable!("no server"),
    }
}

/// Those that were answered.
fn ask_all(
    cluster: &Cluster,
    probes: &BTreeSet<Probe>,
    (protocol, way): (Protocol, Way),
    patience: Duration,
) -> BTreeSet<Probe> {
    thread::scope(|scope| {
        let froms: BTreeSet<&ObjectKey> = probes.iter().map(|it| &it.from).collect();
        let of_pods: Vec<_> = froms
            .into_iter()
            .map(|from| {
                let own: Vec<&Probe> = probes.iter().filter(|it| it.from == *from).collect();
                // Threads stay in the namespace of whoever starts them.
                let ask_own = move || {
                    thread::scope(|scope| {
                        let ask = |probe: &'_ Probe| {
                            let to = SocketAddr::new(address(cluster, &probe.to, way), probe.port);
                            scope.spawn(move || asks(protocol, to, patience))
                        };
                        let asked: Vec<_> = own.iter().map(|it| ((*it).clone(), ask(it))).collect();
                        let answered = asked
                            .into_iter()
                            .filter_map(|(probe, it)| it.join().unwrap().then_some(probe));
                        answered.collect::<Vec<_>>()
                    })
                };
                scope.spawn(move || cluster.places[from].namespace.run(ask_own).unwrap())
            })
            .collect();
        of_pods.into_iter().flat_map(|it| it.join().unwrap()).collect()
    })
}

/// Every pod asks every other on both ports; who should be answered is.
pub(crate) fn check(
    cluster: &Cluster,
    what: &str,
    (protocol, way): (Protocol, Way),
    expected: impl Fn(&ObjectKey, &ObjectKey, u16) -> bool,
) {
    let mut probes = BTreeSet::new();
    for from in cluster.places.keys() {
        for to in cluster.places.keys().filter(|it| *it != from) {
            for port in PORTS {
                probes.insert(Probe { from: from.clone(), to: to.clone(), port });
            }
        }
    }
    for patience in PATIENCE {
        let answered = ask_all(cluster, &probes, (protocol, way), patience);
        probes.retain(|it| answered.contains(it) != expected(&it.from, &it.to, it.port));
    }
    let wrong: Vec<String> = probes
        .iter()
        .map(|it| {
            let word = if expected(&it.from, &it.to, it.port) { "is not" } else { "is" };
            format!("{} {word} answered by {}:{}", it.from, it.to, it.port)
        })
        .collect();
    assert!(wrong.is_empty(), "{what}, {protocol} by {way:?}: {wrong:#?}");
}

/// Whether the kernel makes associations.
pub(crate) fn has_sctp(place: &NetworkNamespace) -> bool {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    let open =
        || socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, sctp());
    place.run(open).unwrap().is_ok()
}

fn sctp() -> Option<rustix::net::Protocol> {
    let number = std::num::NonZeroU32::new(u32::from(Protocol::Sctp.number()));
    number.map(rustix::net::Protocol::from_raw)
}

/// Whether the first packet of an association, to this port of the place, arrives there.
pub(crate) fn sctp_is_heard(from: &NetworkNamespace, to: &crate::places::Place, port: u16) -> bool {
    use rustix::net::{
        AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with,
        sockopt,
    };
    let open = || {
        let kind = (AddressFamily::INET, SocketType::RAW);
        socket_with(kind.0, kind.1, SocketFlags::CLOEXEC, sctp()).unwrap()
    };
    let server = to.namespace.run(open).unwrap();
    let patience = Some(Duration::from_millis(400));
    sockopt::set_socket_timeout(&server, sockopt::Timeout::Recv, patience).unwrap();
    let client = from.run(open).unwrap();
    sendto(&client, &init(port), SendFlags::empty(), &SocketAddr::new(to.addresses[0], 0)).unwrap();
    let mut packet = [0; 200];
    // Those of earlier questions may come first.
    while let Ok((length, _)) = recv(&server, &mut packet, RecvFlags::empty()) {
        let header = usize::from(packet[0] & 0x0f) * 4;
        if packet[..length].get(header + 2..header + 4) == Some(&port.to_be_bytes()) {
            return true;
        }
    }
    false
}

/// An SCTP packet with one chunk, INIT.
fn init(port: u16) -> Vec<u8> {
    let mut packet = vec![0x9c, 0x40];
    packet.extend(port.to_be_bytes());
    packet.extend([0; 8]);
    packet.extend([1, 0, 0, 20]);
    packet.extend([0, 0, 0, 7, 0, 1, 0, 0, 0, 10, 0, 10, 0, 0, 0, 1]);
    let sum = crc32c(&packet).to_le_bytes();
    packet[8..12].copy_from_slice(&sum);
    packet
}

fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 }
        })
    })
}
