//! A pod that says it is a router (CVE-2020-10749): the node does not listen.

use std::net::{Ipv6Addr, SocketAddrV6};
use std::os::fd::OwnedFd;
use std::time::Duration;

use linux::netlink::nftables::{Nftables, TableFamily, TableId};
use linux::netlink::route::RouteSocket;
use linux::sysctl;
use rustix::net::{AddressFamily, SendFlags, SocketType, ipproto, sockopt};

use crate::places::{GATEWAY, Node, Pod, ip, receive, udp};

const PREFIX: &str = "2001:db8::";
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// RFC 4861, 4.2: a default router for half an hour, and a prefix to make an address of.
fn advertisement() -> Vec<u8> {
    let mut packet = vec![134, 0, 0, 0, 64, 0, 0x07, 0x08];
    packet.extend([0; 8]);
    packet.extend([3, 4, 64, 0xc0, 0, 0, 0x0e, 0x10, 0, 0, 0x0e, 0x10, 0, 0, 0, 0]);
    packet.extend(PREFIX.parse::<Ipv6Addr>().unwrap().octets());
    packet
}

struct Router {
    socket: OwnedFd,
    to: SocketAddrV6,
}

impl Router {
    fn new(pod: &Pod) -> Self {
        let mut routes = RouteSocket::open_in(&pod.namespace.path()).unwrap();
        let link = routes.link("eth0").unwrap().unwrap();
        let open = || {
            rustix::net::socket(AddressFamily::INET6, SocketType::RAW, Some(ipproto::ICMPV6))
                .unwrap()
        };
        let socket = pod.namespace.run(open).unwrap();
        sockopt::set_ipv6_multicast_hops(&socket, 255).unwrap();
        Self { socket, to: SocketAddrV6::new(ALL_NODES, 0, 0, link.index) }
    }

    /// The pod's own address takes a second until it may be used.
    fn advertise(&self) {
        for _ in 0..200 {
            let sent =
                rustix::net::sendto(&self.socket, &advertisement(), SendFlags::empty(), &self.to);
            if sent.is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("the pod cannot send an advertisement");
    }
}

/// Addresses and routes of the node that came from it.
fn believed(node: &Node) -> usize {
    let mut routes = node.routes();
    let prefix = ip(PREFIX);
    let is_of_prefix =
        |it: std::net::IpAddr| it.to_string().starts_with("2001:db8:") || it == prefix;
    let addresses = routes.addresses().unwrap();
    let addresses = addresses.iter().filter(|it| is_of_prefix(it.address)).count();
    let found = routes.routes().unwrap();
    let found = found.iter().filter(|it| it.destination.address.is_ipv6());
    addresses
        + found.filter(|it| it.gateway.is_some() || is_of_prefix(it.destination.address)).count()
}

#[test]
fn a_pod_is_no_router_to_the_node() {
    let Some(mut node) = Node::start() else { return };
    let has_ipv6 = || sysctl::read("net/ipv6/conf/all/disable_ipv6").unwrap();
    if node.namespace.run(has_ipv6).unwrap().as_deref() != Some("0") {
        return println!("SKIPPED: no IPv6 here");
    }
    let pod = node.attach("a", &[]);
    let router = Router::new(&pod);
    let gateway = udp(&node.namespace, &format!("{GATEWAY}:80"));
    let client = udp(&pod.namespace, "10.244.1.2:0");
    // What was sent before has been seen by the node when this has.
    let settle = || {
        client.send_to(b"after", format!("{GATEWAY}:80")).unwrap();
        assert_eq!(receive(&gateway).unwrap().0, "after");
    };
    let check = |node: &Node| {
        for _ in 0..3 {
            router.advertise();
            settle();
        }
        assert_eq!(believed(node), 0);
    };
    check(&node);
    let links = node.routes().links().unwrap();
    let veth = links.into_iter().find(|it| it.name.starts_with("veth")).unwrap();
    let setting = format!("net/ipv6/conf/{}/disable_ipv6", veth.name);
    // Either of the two is enough.
    node.namespace.run(|| sysctl::write(&setting, "0").unwrap()).unwrap();
    check(&node);
    let id = TableId::new(TableFamily::Ip6, crate::places::cluster().table("network"));
    let delete_table = || Nftables::open(id).unwrap().purge().unwrap();
    node.namespace.run(delete_table).unwrap();
    // Without both the node believes it: the test is able to fail.
    let is_fooled = (0..100).any(|_| {
        router.advertise();
        std::thread::sleep(Duration::from_millis(20));
        believed(&node) > 0
    });
    assert!(is_fooled);
    // A start puts it right, on links that are there already.
    node.open();
    assert_eq!(
        node.namespace.run(|| sysctl::read(&setting).unwrap()).unwrap().as_deref(),
        Some("1")
    );
    check(&node);
}
