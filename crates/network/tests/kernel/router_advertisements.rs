//! A pod that says it is a router (CVE-2020-10749): the node does not listen.

use std::net::{Ipv6Addr, SocketAddrV6};
use std::os::fd::OwnedFd;
use std::time::Duration;

use linux::netlink::nftables::{Nftables, TableFamily, TableId};
use linux::netlink::route::RouteSocket;
use linux::sysctl;
use rustix::net::{AddressFamily, SendFlags, SocketType, ipproto, sockopt};

use crate::places::{Families, GATEWAY, Node, Pod, ip, receive, udp};

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

/// What was sent before has been seen by the node when this has.
fn settle(node: &Node, pod: &Pod) {
    let gateway = udp(&node.namespace, &format!("{GATEWAY}:80"));
    let client = udp(&pod.namespace, "10.244.1.2:0");
    client.send_to(b"after", format!("{GATEWAY}:80")).unwrap();
    assert_eq!(receive(&gateway).unwrap().0, "after");
}

fn check(node: &Node, pod: &Pod, router: &Router) {
    for _ in 0..3 {
        router.advertise();
        settle(node, pod);
    }
    assert_eq!(believed(node), 0);
}

/// The host's end of the only pod's link.
fn setting(node: &Node, name: &str) -> String {
    let links = node.routes().links().unwrap();
    let veth = links.into_iter().find(|it| it.name.starts_with("veth")).unwrap();
    format!("net/ipv6/conf/{}/{name}", veth.name)
}

fn delete_rules(node: &Node) {
    let id = TableId::new(TableFamily::Ip6, crate::places::cluster().table("network"));
    node.namespace.run(|| Nftables::open(id).unwrap().purge().unwrap()).unwrap();
}

fn set(node: &Node, name: &str, value: &str) {
    node.namespace.run(|| sysctl::write(name, value).unwrap()).unwrap();
}

fn get(node: &Node, name: &str) -> Option<String> {
    node.namespace.run(|| sysctl::read(name).unwrap()).unwrap()
}

/// The test is able to fail.
fn check_that_it_would_be_fooled(node: &Node, router: &Router) {
    let is_fooled = (0..100).any(|_| {
        router.advertise();
        std::thread::sleep(Duration::from_millis(20));
        believed(node) > 0
    });
    assert!(is_fooled);
}

#[test]
fn a_pod_is_no_router_to_the_node() {
    let Some(mut node) = Node::start() else { return };
    if get(&node, "net/ipv6/conf/all/disable_ipv6").as_deref() != Some("0") {
        return println!("SKIPPED: no IPv6 here");
    }
    let pod = node.attach("a", &[]);
    let router = Router::new(&pod);
    check(&node, &pod, &router);
    let setting = setting(&node, "disable_ipv6");
    // Either of the two is enough.
    set(&node, &setting, "0");
    check(&node, &pod, &router);
    delete_rules(&node);
    check_that_it_would_be_fooled(&node, &router);
    // A start puts it right, on links that are there already.
    node.open();
    assert_eq!(get(&node, &setting).as_deref(), Some("1"));
    check(&node, &pod, &router);
}

/// Where pods do have IPv6 the link listens, but not to that.
#[test]
fn a_pod_with_ipv6_is_no_router_to_the_node() {
    let Some(mut node) = Node::start_with(Families::Both) else { return };
    let pod = node.attach("a", &[]);
    let router = Router::new(&pod);
    check(&node, &pod, &router);
    let [accept, make] = ["accept_ra", "addr_gen_mode"].map(|it| setting(&node, it));
    assert_eq!((get(&node, &accept), get(&node, &make)), (Some("0".into()), Some("1".into())));
    // The rules are enough, and so is the setting.
    set(&node, &accept, "2");
    check(&node, &pod, &router);
    set(&node, &accept, "0");
    delete_rules(&node);
    check(&node, &pod, &router);
    set(&node, &accept, "2");
    check_that_it_would_be_fooled(&node, &router);
    node.open();
    assert_eq!(get(&node, &accept).as_deref(), Some("0"));
}
