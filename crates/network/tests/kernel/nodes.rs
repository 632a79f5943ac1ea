//! Nodes that share a link, with host-gw: pods of different nodes reach each other by their own
//! addresses, in both families; and what peers that come, go, move or lie do.

use linux::netlink::route::Destination;
use network::{HOST_GW, NONE, Peer};

use crate::places::{Families, Server, ask, configure, ip, put_route};
use crate::switch::{Side, Switch, WORLD, WORLD_6, check, introduce, serve};

#[test]
fn pods_of_different_nodes_reach_each_other_as_themselves_and_the_world_as_their_node() {
    let Some(switch) = Switch::start() else { return };
    let nodes = [1, 2, 3].map(|it| switch.add_node(it, HOST_GW));
    introduce(&nodes.each_ref());
    let pods = nodes.each_ref().map(|it| it.attach("a"));
    pods.iter().for_each(serve);
    for from in &pods {
        for to in &pods {
            check(from, to);
        }
    }
    Server::start(&switch.world, &format!("{WORLD}:80"));
    Server::start(&switch.world, &format!("[{WORLD_6}]:80"));
    for (node, pod) in nodes.iter().zip(&pods) {
        let n = node.n;
        let seen = ask(&pod.namespace, &format!("{WORLD}:80")).unwrap();
        assert_eq!(seen, format!("192.0.2.{n}"));
        let seen = ask(&pod.namespace, &format!("[{WORLD_6}]:80")).unwrap();
        assert_eq!(seen, format!("2001:db8::{n}"));
    }
}

#[test]
fn a_peer_that_goes_takes_its_routes_along_and_others_keep_theirs() {
    let Some(switch) = Switch::start() else { return };
    let [one, two, three] = [1, 2, 3].map(|it| switch.add_node(it, HOST_GW));
    let of_peers = || {
        let routes = one.routes().routes().unwrap();
        let ours = routes.iter().filter(|it| it.protocol == 120 && it.gateway.is_some());
        let mut shown: Vec<_> = ours.map(|it| it.destination.to_string()).collect();
        shown.sort();
        shown
    };
    one.set_peers(&[&two, &three]);
    two.set_peers(&[&one]);
    let (a, b) = (one.attach("a"), two.attach("b"));
    serve(&b);
    let all = ["10.244.2.0/24", "10.244.3.0/24", "fd00:10:244:2::/64", "fd00:10:244:3::/64"];
    assert_eq!(of_peers(), all);
    check(&a, &b);
    one.set_peers(&[&two]);
    assert_eq!(of_peers(), ["10.244.2.0/24", "fd00:10:244:2::/64"]);
    check(&a, &b);
    one.set_peers(&[]);
    assert_eq!(of_peers(), [""; 0]);
    assert_eq!(one.network().purge().len(), 0);
}

#[test]
fn a_start_keeps_the_ways_until_it_is_known_who_is_there() {
    let Some(switch) = Switch::start() else { return };
    let [mut one, two] = [1, 2].map(|it| switch.add_node(it, HOST_GW));
    introduce(&[&one, &two]);
    let (a, b) = (one.attach("a"), two.attach("b"));
    [&a, &b].into_iter().for_each(serve);
    let before = one.routes().routes().unwrap();
    one.open();
    assert_eq!(one.routes().routes().unwrap(), before);
    check(&a, &b);
    check(&b, &a);
    one.set_peers(&[]);
    assert_ne!(one.routes().routes().unwrap(), before);
}

#[test]
fn a_peer_that_moves_is_followed() {
    let Some(switch) = Switch::start() else { return };
    let [one, two] = [1, 2].map(|it| switch.add_node(it, HOST_GW));
    two.set_peers(&[&one]);
    let (a, b) = (one.attach("a"), two.attach("b"));
    serve(&b);
    one.set_peers(&[&two]);
    check(&a, &b);
    let mut routes = two.routes();
    configure(&mut routes, "uplink", &["192.0.2.22"]);
    configure(&mut routes, "uplink", &["2001:db8::22"]);
    let mut moved = two.as_peer();
    for (name, address) in [("public-ip", "192.0.2.22"), ("public-ipv6", "2001:db8::22")] {
        moved.annotations.insert(format!("flannel.alpha.coreos.com/{name}"), address.into());
    }
    one.set(vec![moved]);
    let found = one.routes().routes().unwrap();
    let gateways: Vec<_> =
        found.iter().filter(|it| it.protocol == 120).filter_map(|it| it.gateway).collect();
    assert_eq!(gateways, [ip("192.0.2.22"), ip("2001:db8::22")]);
    check(&a, &b);
}

#[test]
fn a_peer_that_lies_is_left_out_and_the_others_are_served() {
    let Some(switch) = Switch::start() else { return };
    let [one, two] = [1, 2].map(|it| switch.add_node(it, HOST_GW));
    two.set_peers(&[&one]);
    let (a, b) = (one.attach("a"), two.attach("b"));
    serve(&b);
    one.set_peers(&[&two]);
    let before = one.routes().routes().unwrap();
    let lies: &[(&[&str], &[&str], &str)] = &[
        (&["192.0.2.0/24"], &["192.0.2.9"], "the range is outside the cluster's network"),
        (&["10.244.2.0/25"], &["192.0.2.9"], "the range 10.244.2.0/24 is node node-2's"),
        (&["10.244.1.0/25"], &["192.0.2.9"], "which is this node's"),
        (&["10.244.9.0/24"], &["192.0.2.1"], "its address 192.0.2.1 is this node's"),
        (&["10.244.9.0/24"], &["10.244.2.7"], "on no network that this node is on"),
        (&["10.244.9.0/24"], &["198.51.100.9"], "on no network that this node is on"),
        (&["10.244.9.0/24"], &[], "it has no IPv4 address"),
    ];
    for (ranges, addresses, why) in lies {
        let liar = Peer {
            node: "liar".into(),
            pod_cidrs: ranges.iter().map(|it| it.parse().unwrap()).collect(),
            addresses: addresses.iter().map(|it| ip(it)).collect(),
            ..Peer::default()
        };
        // Also where it is told first: who has a range keeps it.
        one.set(vec![liar, two.as_peer()]);
        let left_out = one.left_out();
        assert_eq!((left_out.len(), left_out[0].node.as_str()), (1, "liar"), "{left_out:?}");
        assert!(left_out[0].why.contains(why), "{left_out:?}");
        assert_eq!(one.routes().routes().unwrap(), before, "{why}");
    }
    check(&a, &b);
}

#[test]
fn without_a_way_to_other_nodes_peers_are_left_out() {
    let Some(switch) = Switch::start() else { return };
    let two = switch.add_node(2, HOST_GW);
    let alone = switch.add_node(3, NONE);
    alone.set_peers(&[&two]);
    assert_eq!(alone.left_out().len(), 2);
    assert!(alone.left_out()[0].why.contains("no way to other nodes"));
    alone.set_peers(&[]);
    assert_eq!(alone.left_out(), []);
}

#[test]
fn a_node_behind_a_router_is_left_out_until_this_node_is_on_its_network() {
    let Some(switch) = Switch::start() else { return };
    let one = switch.add_node(1, HOST_GW);
    let far = switch.add(2, Side::Far, Families::V4, HOST_GW, false);
    let _following = one.follow();
    one.set_peers(&[&far]);
    assert_eq!(one.left_out().len(), 1);
    configure(&mut one.routes(), "uplink", &["198.51.100.1"]);
    let mut left_out = one.network().left_out();
    one.runtime.block_on(left_out.wait_for(Vec::is_empty)).unwrap();
}

#[test]
fn routes_of_others_to_the_same_nodes_stay() {
    let Some(switch) = Switch::start() else { return };
    let [one, two] = [1, 2].map(|it| switch.add_node(it, HOST_GW));
    let destination = Destination { address: ip("10.9.0.0"), prefix_length: 16 };
    put_route(&mut one.routes(), "uplink", destination, ip("192.0.2.2"));
    let before = one.routes().routes().unwrap();
    one.set_peers(&[&two]);
    assert_ne!(one.routes().routes().unwrap(), before);
    one.set_peers(&[]);
    assert_eq!(one.routes().routes().unwrap(), before);
}
