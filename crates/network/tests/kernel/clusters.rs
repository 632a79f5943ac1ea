//! Two clusters in one network namespace: each sees, changes and removes what is its own.

use linux::netlink::nftables::{Nftables, TableFamily, TableId};
use linux::netlink::route::{Link, Route};
use linux::network_namespace::NetworkNamespace;
use linux::sysctl;
use network::{Config, Network};
use node_api::ClusterId;
use node_api::network::{HostPort, Protocol};

use crate::places::{GATEWAY, Node, Server, ask, range};

const OTHER_GATEWAY: &str = "10.245.1.1";

fn other() -> ClusterId {
    "0badcafe".parse().unwrap()
}

/// Another cluster with its own bridge and range.
fn config_of_other(node: &Node) -> Config {
    Config {
        cluster: other(),
        bridge: "xebec1".into(),
        ranges: vec![range("10.245.1.0/24", "10.245.0.0/16")],
        directory: node.directory.path().join("other"),
        ..node.config()
    }
}

fn open(node: &Node, config: Config) -> Result<Network, node_api::Error> {
    node.namespace.run(|| Network::open(config)).unwrap()
}

fn host_port(host_port: u16, address: Option<&str>) -> HostPort {
    let host_address = address.map(|it| it.parse().unwrap());
    HostPort { protocol: Protocol::Tcp, host_address, host_port, container_port: 8080 }
}

/// What this cluster has in the kernel.
fn own(node: &Node, cluster: ClusterId) -> (Vec<Link>, Vec<Route>, bool) {
    let mut links = node.routes().links().unwrap();
    links.retain(|it| it.group == cluster.link_group());
    let mut routes = node.routes().routes().unwrap();
    routes.retain(|it| {
        let is_on_link = links.iter().any(|link| Some(link.index) == it.link);
        is_on_link || (it.link.is_none() && it.metric == cluster.link_group())
    });
    let id = TableId::new(TableFamily::Ip, cluster.table("network"));
    let observe = || Nftables::open(id).unwrap().observe().unwrap();
    (links, routes, node.namespace.run(observe).unwrap().is_some())
}

#[test]
fn two_clusters_live_beside_each_other_and_leave_each_other_alone() {
    let Some(mut node) = Node::start() else { return };
    let a = node.attach("a", &[host_port(80, None)]);
    let _server = Server::start(&a.namespace, "0.0.0.0:8080");
    let network = open(&node, config_of_other(&node)).unwrap();
    let pod = NetworkNamespace::create().unwrap();
    let b = node.attach_to(&network, "b", pod.path(), &[host_port(81, None)]).unwrap()[0];
    let _server_b = Server::start(&pod, "0.0.0.0:8080");
    let check = |node: &Node| {
        assert_eq!(ask(&node.namespace, "127.0.0.1:80").unwrap(), GATEWAY);
        assert_eq!(ask(&node.namespace, "127.0.0.1:81").unwrap(), OTHER_GATEWAY);
        assert_eq!(ask(&node.namespace, &format!("{b}:8080")).unwrap(), OTHER_GATEWAY);
    };
    check(&node);
    let (first, second) = (own(&node, crate::places::cluster()), own(&node, other()));
    assert_eq!((first.0.len(), second.0.len()), (2, 2));
    assert!(!second.1.is_empty() && second.2);

    // A restart of one, and all that it frees, is nothing to the other.
    node.open();
    node.keep_only(&[("a", &a.namespace)]);
    assert_eq!(
        (own(&node, crate::places::cluster()), own(&node, other())),
        (first, second.clone())
    );
    check(&node);

    assert_eq!(node.network().purge().len(), 0);
    assert_eq!(own(&node, other()), second);
    assert_eq!(own(&node, crate::places::cluster()), (vec![], vec![], false));
    assert_eq!(ask(&node.namespace, "127.0.0.1:81").unwrap(), OTHER_GATEWAY);
    // The other's pods still need what the first has switched on.
    let forwarding = node.namespace.run(|| sysctl::read("net/ipv4/ip_forward").unwrap()).unwrap();
    assert_eq!(forwarding.as_deref(), Some("1"));
}

#[test]
fn a_host_port_that_another_cluster_has_is_refused_with_its_id() {
    let Some(node) = Node::start() else { return };
    let _pod = node.attach("a", &[host_port(80, None), host_port(82, Some("127.0.0.1"))]);
    let network = open(&node, config_of_other(&node)).unwrap();
    let check = |port: HostPort, expected: Option<&str>| {
        let pod = NetworkNamespace::create().unwrap();
        let name = format!("pod-{}-{:?}", port.host_port, port.host_address);
        let result = node.attach_to(&network, &name, pod.path(), &[port]);
        assert_eq!(result.err().map(|it| it.to_string()).as_deref(), expected);
    };
    let taken = "host port 80/TCP is taken by cluster 00c0ffee";
    check(host_port(80, None), Some(taken));
    check(host_port(80, Some("127.0.0.1")), Some(taken));
    let taken = "host port 82/TCP is taken by cluster 00c0ffee";
    check(host_port(82, Some("127.0.0.1")), Some(taken));
    check(host_port(82, None), Some(taken));
    check(host_port(82, Some("127.0.0.2")), None);
    check(HostPort { protocol: Protocol::Udp, ..host_port(80, None) }, None);
    check(host_port(81, None), None);
    node.detach("a");
    check(host_port(80, None), None);
}

#[test]
fn a_bridge_of_somebody_else_is_refused_by_name_and_nothing_is_changed() {
    let Some(node) = Node::start() else { return };
    let _pod = node.attach("a", &[]);
    let traces = |node: &Node| {
        let mut routes = node.routes();
        (routes.links().unwrap(), routes.addresses().unwrap(), routes.routes().unwrap())
    };
    let before = traces(&node);
    let config = || Config { bridge: "xebec0".into(), ..config_of_other(&node) };
    let err = open(&node, config()).err().unwrap();
    let text = stdx::error_chain(&err).to_string();
    assert!(text.contains("xebec0 is not of this cluster (0badcafe)"), "{text}");
    assert!(text.contains("in link group 00c0ffee"), "{text}");
    assert_eq!(traces(&node), before);
    assert!(!node.directory.path().join("other").exists());
    assert_eq!(own(&node, other()), (vec![], vec![], false));

    // Neither does it go when whoever has no right to it leaves.
    let network = node.namespace.run(|| Network::open_to_purge(config())).unwrap().unwrap();
    assert_eq!(network.purge().len(), 0);
    assert_eq!(traces(&node), before);
}
