//! How pods are joined to their node where routes are told by BGP: as Calico does it; and what a
//! change of the way between nodes means for pods that run.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::sync::Arc;

use linux::netlink::route::{Destination, Link, Route, RouteSocket, Scope};
use linux::network_namespace::NetworkNamespace;
use linux::sysctl;
use network::{ROUTED, VXLAN};
use node_api::network::{Attachment, Namespace};
use node_api::{PodNetwork as _, SandboxId};

use crate::places::{At, Pod, Server, ask, ip, pod_ref, receive, udp};
use crate::switch::{Member, Switch, check, serve};

/// `default.nginx`
const LINK: &str = "calic440f455693";

fn link(node: &Member, name: &str) -> Link {
    node.routes().link(name).unwrap().unwrap_or_else(|| panic!("{name} is not there"))
}

fn setting(node: &Member, name: &str) -> String {
    node.namespace.run(|| sysctl::read(name).unwrap()).unwrap().unwrap()
}

fn names(node: &Member) -> Vec<String> {
    let links = node.routes().links().unwrap();
    let mut names: Vec<_> = links.into_iter().map(|it| it.name).collect();
    names.retain(|it| it.starts_with("veth") || it.starts_with("cali"));
    names.sort();
    names
}

/// After a restart: the sandboxes that live, by name.
fn keep(node: &Member, pods: &[(&str, &Pod)]) {
    let at = |it: &Pod| -> Arc<dyn Namespace> { Arc::new(At(it.namespace.path())) };
    let living = pods.iter().map(|(name, it)| (SandboxId::new(*name), at(it)));
    node.runtime.block_on(node.network().keep_only(living.collect())).unwrap();
}

#[test]
fn a_pods_link_is_as_calico_makes_it() {
    let Some(switch) = Switch::start() else { return };
    let node = switch.add_node(1, ROUTED);
    let pod = node.attach("nginx");
    let host = link(&node, LINK);
    assert_eq!(host.address.unwrap().to_string(), "ee:ee:ee:ee:ee:ee");
    for (name, value) in [
        ("net/ipv4/conf/calic440f455693/proxy_arp", "1"),
        ("net/ipv4/conf/calic440f455693/rp_filter", "1"),
        ("net/ipv4/neigh/calic440f455693/proxy_delay", "0"),
        ("net/ipv6/conf/calic440f455693/proxy_ndp", "1"),
    ] {
        assert_eq!(setting(&node, name), value, "{name}");
    }
    let mut in_pod = RouteSocket::open_in(&pod.namespace.path()).unwrap();
    let own = in_pod.addresses().unwrap();
    let own: Vec<_> = own.iter().filter(|it| it.scope == 0).collect();
    let own: Vec<_> = own.iter().map(|it| (it.address, it.prefix_length)).collect();
    assert_eq!(own, [(pod.addresses[0], 32), (pod.addresses[1], 128)]);
    let routes = in_pod.routes().unwrap();
    let gateways: Vec<(Destination, IpAddr)> =
        routes.iter().filter_map(|it| Some((it.destination, it.gateway?))).collect();
    let (v4, v6) = (ip("169.254.1.1"), ip("fe80::ecee:eeff:feee:eeee"));
    assert_eq!(gateways, [(Destination::DEFAULT, v4), (Destination::DEFAULT_IPV6, v6)]);
    let of_gateway = routes.iter().find(|it| it.destination == Destination::host(v4));
    assert_eq!(of_gateway.unwrap().scope, Scope::Link);

    let routes = node.routes().routes().unwrap();
    let to_pod = |it: &&Route| it.destination == Destination::host(pod.address);
    let to_pod = routes.iter().find(to_pod).unwrap();
    assert_eq!((to_pod.link, to_pod.scope), (Some(host.index), Scope::Link));
    let own = |it: &&Route| it.is_blackhole && it.protocol == Route::OF_BIRD;
    let blocks: Vec<_> = routes.iter().filter(own).map(|it| it.destination.to_string()).collect();
    assert_eq!(blocks, ["10.244.1.0/24", "fd00:10:244:1::/64"]);
}

/// Also of a pod that has forgotten its gateway's hardware address, or never was told.
#[test]
fn the_link_answers_for_the_gateway() {
    let Some(switch) = Switch::start() else { return };
    let node = switch.add_node(1, ROUTED);
    let (a, b) = (node.attach("nginx"), node.attach("b"));
    let _server = Server::start(&b.namespace, "0.0.0.0:80");
    let mut in_pod = RouteSocket::open_in(&a.namespace.path()).unwrap();
    let eth0 = in_pod.link("eth0").unwrap().unwrap();
    in_pod.delete_neighbor(&eth0, ip("169.254.1.1")).unwrap();
    let seen = ask(&a.namespace, &format!("{}:80", b.address)).unwrap();
    assert_eq!(seen, a.address.to_string());
    let known = in_pod.permanent_neighbors().unwrap();
    assert!(known.iter().all(|(_, it)| it.address != ip("169.254.1.1")), "{known:?}");
}

#[test]
fn pods_reach_pods_and_the_node_reaches_them() {
    let Some(switch) = Switch::start() else { return };
    let node = switch.add_node(1, ROUTED);
    let pods = [node.attach("nginx"), node.attach("b")];
    pods.iter().for_each(serve);
    for from in &pods {
        pods.iter().for_each(|to| check(from, to));
    }
    let seen = ask(&node.namespace, &format!("{}:80", pods[0].address)).unwrap();
    assert_eq!(seen, "10.244.1.1");
    let seen = ask(&node.namespace, &format!("[{}]:80", pods[0].addresses[1])).unwrap();
    assert_eq!(seen, "fd00:10:244:1::1");
}

#[test]
fn a_pod_sends_from_its_own_address_alone() {
    let Some(switch) = Switch::start() else { return };
    let node = switch.add_node(1, ROUTED);
    let pods = [node.attach("nginx"), node.attach("b")];
    let mut in_pod = RouteSocket::open_in(&pods[0].namespace.path()).unwrap();
    let eth0 = in_pod.link("eth0").unwrap().unwrap();
    in_pod.add_address(&eth0, ip("10.244.1.77"), 32).unwrap();
    let server = udp(&pods[1].namespace, "0.0.0.0:5000");
    let to = (pods[1].address, 5000);
    udp(&pods[0].namespace, "10.244.1.77:0").send_to(b"forged", to).unwrap();
    udp(&pods[0].namespace, &format!("{}:0", pods[0].address)).send_to(b"honest", to).unwrap();
    assert_eq!(receive(&server).unwrap().0, "honest");
}

#[test]
fn what_others_delete_is_back_at_once() {
    let Some(switch) = Switch::start() else { return };
    let node = switch.add_node(1, ROUTED);
    let pods = [node.attach("nginx"), node.attach("b")];
    pods.iter().for_each(serve);
    let _following = node.follow();
    let is_back = |what: &str, is_there: &dyn Fn() -> bool| {
        let is_back = (0..2000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            is_there()
        });
        assert!(is_back, "{what}");
    };
    let before = link(&node, LINK);
    node.routes().delete_link(&before).unwrap();
    let is_new = |it: Link| it.index != before.index && it.address == before.address;
    is_back("the link", &|| node.routes().link(LINK).unwrap().is_some_and(is_new));
    is_back("the pod", &|| ask(&pods[1].namespace, &format!("{}:80", pods[0].address)).is_ok());
    let block = |node: &Member| {
        let routes = node.routes().routes().unwrap();
        routes.into_iter().find(|it| it.is_blackhole && it.destination.address.is_ipv4())
    };
    node.routes().delete_route(&block(&node).unwrap()).unwrap();
    is_back("the block", &|| block(&node).is_some());
}

/// Another sandbox of a pod takes its link, and who comes late to end the first one ends nothing.
#[test]
fn a_pods_latest_sandbox_has_its_link() {
    let Some(switch) = Switch::start() else { return };
    let node = switch.add_node(1, ROUTED);
    let attach = |sandbox: &str, namespace: &NetworkNamespace| {
        let attachment = Attachment {
            pod: pod_ref("nginx"),
            sandbox: SandboxId::new(sandbox),
            namespace: Arc::new(At(namespace.path())),
            host_ports: Vec::new(),
        };
        node.runtime.block_on(node.network().attach(attachment)).unwrap()[0]
    };
    let detach =
        |sandbox| node.runtime.block_on(node.network().detach(&SandboxId::new(sandbox))).unwrap();
    let [first, second] = [(); 2].map(|()| NetworkNamespace::create().unwrap());
    let old = attach("first", &first);
    let new = attach("second", &second);
    assert_ne!(old, new);
    let _server = Server::start(&second, "0.0.0.0:80");
    assert_eq!(names(&node), [LINK]);
    detach("first");
    assert_eq!(ask(&node.namespace, &format!("{new}:80")).unwrap(), "10.244.1.1");
    detach("second");
    assert_eq!(names(&node), [] as [&str; 0]);
}

/// In both directions; connections go on.
#[test]
fn pods_that_run_stay_reachable_when_the_way_between_nodes_changes() {
    let Some(switch) = Switch::start_for(VXLAN) else { return };
    for (from, to) in [(VXLAN, ROUTED), (ROUTED, VXLAN)] {
        let mut node = switch.add_node(1, from);
        let (old, other) = (node.attach("nginx"), node.attach("b"));
        [&old, &other].into_iter().for_each(serve);
        let listener = old.namespace.run(|| TcpListener::bind("0.0.0.0:90").unwrap()).unwrap();
        let address = (old.address, 90);
        let mut client = other.namespace.run(|| TcpStream::connect(address).unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let links = names(&node);

        node.restart_as(to);
        keep(&node, &[("nginx", &old), ("b", &other)]);
        client.write_all(b"still here").unwrap();
        let mut buffer = [0; 10];
        server.read_exact(&mut buffer).unwrap();
        assert_eq!(&buffer, b"still here", "{from} {to}");
        let new = node.attach("c");
        serve(&new);
        let pods = [&old, &other, &new];
        for from in pods {
            pods.into_iter().for_each(|to| check(from, to));
        }
        // Those that were there have the links that they had.
        assert!(links.iter().all(|it| names(&node).contains(it)), "{links:?} {:?}", names(&node));
        let kind = if to == ROUTED { "cali" } else { "veth" };
        let found = names(&node);
        let new: Vec<_> = found.iter().filter(|it| !links.contains(it)).collect();
        assert!(new.len() == 1 && new[0].starts_with(kind), "{new:?}");
        let is_block = |it: &Route| it.link.is_none() && it.is_blackhole == (to == ROUTED);
        let routes = node.routes().routes().unwrap();
        let blocks: Vec<_> = routes.iter().filter(|it| it.link.is_none()).collect();
        assert!(blocks.len() == 2 && blocks.iter().all(|it| is_block(it)), "{blocks:?}");
        switch.unplug(&node);
    }
}

#[test]
fn purging_leaves_nothing_of_them_behind() {
    let Some(switch) = Switch::start() else { return };
    let mut node = switch.add_node(1, ROUTED);
    let traces = |node: &Member| (names(node), node.routes().routes().unwrap());
    assert_eq!(node.network().purge().len(), 0);
    let before = traces(&node);
    node.open();
    let _pod = node.attach("nginx");
    assert_eq!(names(&node), [LINK]);
    assert_eq!(node.network().purge().len(), 0);
    assert_eq!(traces(&node), before);
}
