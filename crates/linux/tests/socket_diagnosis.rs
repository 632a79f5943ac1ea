//! Real UDP sockets that are found and ended, in a network namespace of our own.
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests")]

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};

use linux::netlink::socket_diagnosis::SocketDiagnosis;
use linux::network_namespace::{self, NetworkNamespace};
use rustix::io::Errno;

fn exercise(own: &str, peer: &str) {
    linux::loopback::bring_up().unwrap();
    let own: IpAddr = own.parse().unwrap();
    let peer: SocketAddr = peer.parse().unwrap();
    let [stale, fresh, unconnected] = [(); 3].map(|()| UdpSocket::bind((own, 0)).unwrap());
    stale.connect(peer).unwrap();
    fresh.connect(SocketAddr::new(peer.ip(), peer.port() + 1)).unwrap();
    let mut diagnosis = SocketDiagnosis::open().unwrap();
    let found = diagnosis.connected_udp().unwrap();
    assert_eq!(found.len(), 2, "{unconnected:?} is not: {found:?}");
    let canonical = SocketAddr::new(peer.ip().to_canonical(), peer.port());
    let of_stale = found.iter().find(|it| it.peer == canonical).unwrap();
    match diagnosis.destroy(of_stale) {
        Err(err) if err.is(Errno::OPNOTSUPP) => {
            eprintln!("SKIPPED: no CONFIG_INET_DIAG_DESTROY");
            return;
        }
        destroyed => assert!(destroyed.unwrap()),
    }
    assert_eq!(stale.recv(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionAborted);
    assert!(stale.peer_addr().is_err());
    assert!(!diagnosis.destroy(of_stale).unwrap(), "it is gone already");
    assert_eq!(diagnosis.connected_udp().unwrap().len(), 1);
    assert!(fresh.peer_addr().is_ok());
}

#[test]
fn a_connected_socket_is_ended_by_what_it_is_connected_to() {
    for (own, peer) in [
        ("127.0.0.1", "127.0.0.9:9"),
        ("::1", "[::1]:9"),
        // A socket of both families.
        ("::", "[::ffff:127.0.0.9]:9"),
    ] {
        match NetworkNamespace::create() {
            Ok(namespace) => namespace.run(|| exercise(own, peer)).unwrap(),
            Err(err) => eprintln!("SKIPPED: {err}: {}", err.source),
        }
    }
}

#[test]
fn each_namespace_has_a_number_of_its_own() {
    let (Ok(one), Ok(other)) = (NetworkNamespace::create(), NetworkNamespace::create()) else {
        eprintln!("SKIPPED: no network namespaces");
        return;
    };
    let cookie = |it: &NetworkNamespace| it.run(network_namespace::cookie).unwrap().unwrap();
    assert_eq!(cookie(&one), cookie(&one));
    assert_ne!(cookie(&one), cookie(&other));
}
