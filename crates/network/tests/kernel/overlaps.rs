//! Addresses of pods that somebody else on the machine has.

use linux::netlink::route::Destination;
use network::{Config, HOST_GW};

use crate::places::{Node, ip, put_route};
use crate::switch::Switch;

#[test]
fn a_range_that_meets_a_route_or_a_name_server_is_refused_and_a_free_one_proposed() {
    let Some(mut node) = Node::start() else { return };
    let _world = node.connect_world();
    assert_eq!(node.network().purge().len(), 0);
    let free = "10.245.0.0/16 is free here (--pod-cidr of the cluster)";
    let refused = |node: &mut Node, config: Config, what: &str| {
        let links = node.routes().links().unwrap().len();
        let err = node.open_with(config).unwrap_err().to_string();
        let expected = format!("the addresses of pods, 10.244.0.0/16, meet {what}: {free}");
        assert!(err.contains(&expected), "{err}");
        assert_eq!(node.routes().links().unwrap().len(), links);
    };
    let name_servers = vec![ip("10.244.3.53")];
    let config = Config { name_servers, ..node.config() };
    refused(&mut node, config, "the name server 10.244.3.53 that this machine asks");
    let range = Destination { address: ip("10.244.7.0"), prefix_length: 24 };
    put_route(&mut node.routes(), "uplink", range, ip(crate::places::WORLD));
    let config = node.config();
    refused(&mut node, config, "the route 10.244.7.0/24 over uplink");
}

#[test]
fn where_pods_run_it_is_said_and_they_go_on() {
    let Some(switch) = Switch::start() else { return };
    let mut node = switch.add_node(1, HOST_GW);
    let pod = node.attach("a");
    let following = node.follow();
    let range = Destination { address: ip("10.244.7.0"), prefix_length: 24 };
    put_route(&mut node.routes(), "uplink", range, ip(crate::switch::WORLD));
    // Whatever happens next is looked at; a route of others is not of ours.
    let uplink = node.routes().link("uplink").unwrap().unwrap();
    node.routes().add_address(&uplink, ip("192.0.2.66"), 24).unwrap();
    let mut changes = node.network().changes();
    let waiting = async {
        while node.network().overlaps().is_empty() {
            changes.changed().await.unwrap();
        }
    };
    node.runtime.block_on(waiting);
    assert!(node.network().overlaps()[0].contains("the route 10.244.7.0/24 over uplink"));
    following.cancel();
    node.open();
    let _server = crate::places::Server::start(&pod.namespace, "0.0.0.0:80");
    let seen = crate::places::ask(&node.namespace, &format!("{}:80", pod.address)).unwrap();
    assert_eq!(seen, "10.244.1.1");
}
