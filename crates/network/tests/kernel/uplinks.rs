//! The way out of a node changes: its address, its cable.

use linux::netlink::route::{Destination, LinkChange};
use network::{HOST_GW, VXLAN};

use crate::places::{Families, ip, put_route};
use crate::switch::{Member, Side, Switch, WORLD, WORLD_6, check, introduce, serve};

const PUBLIC: &str = "flannel.alpha.coreos.com/public-ip";

fn public(node: &Member) -> String {
    node.network().published()[PUBLIC].clone()
}

fn wait_until(node: &Member, is_it: impl Fn() -> bool) {
    let mut changes = node.network().changes();
    let waiting = async {
        while !is_it() {
            changes.changed().await.unwrap();
        }
    };
    node.runtime.block_on(waiting);
}

#[test]
fn a_node_that_nobody_told_where_it_is_follows_its_uplink() {
    for backend in [VXLAN, HOST_GW] {
        let Some(switch) = Switch::start_for(backend) else { continue };
        let [mut one, two] = [1, 2].map(|it| switch.add_node(it, backend));
        one.restart_at(&[]);
        assert_eq!(public(&one), "192.0.2.1");
        let _following = [one.follow(), two.follow()];
        introduce(&[&one, &two]);
        let pods = [&one, &two].map(|it| it.attach("a"));
        pods.iter().for_each(serve);
        check(&pods[0], &pods[1]);

        let mut routes = one.routes();
        let uplink = routes.link("uplink").unwrap().unwrap();
        routes.add_address(&uplink, ip("192.0.2.77"), 24).unwrap();
        routes.delete_address(&uplink, ip("192.0.2.1"), 24).unwrap();
        put_route(&mut routes, "uplink", Destination::DEFAULT, ip(WORLD));
        wait_until(&one, || public(&one) == "192.0.2.77");
        introduce(&[&one, &two]);
        check(&pods[0], &pods[1]);
        check(&pods[1], &pods[0]);
    }
}

#[test]
fn a_node_may_be_told_by_its_node_object_which_address_is_its_own() {
    let Some(switch) = Switch::start_for(VXLAN) else { return };
    let [one, two] = [1, 2].map(|it| switch.add_node(it, VXLAN));
    let mut routes = one.routes();
    let uplink = routes.link("uplink").unwrap().unwrap();
    routes.add_address(&uplink, ip("192.0.2.88"), 24).unwrap();
    let mut own = one.as_peer();
    let name = "flannel.alpha.coreos.com/node-public-ip";
    own.annotations.insert(name.into(), "192.0.2.88".into());
    one.set(vec![own.clone(), two.as_peer()]);
    assert_eq!(public(&one), "192.0.2.88");
    let local = || one.routes().link("flannel.1").unwrap().unwrap().tunnel;
    assert!(format!("{:?}", local()).contains("192.0.2.88"), "{:?}", local());
    // One that it has not is no address of its own.
    own.annotations.insert(name.into(), "192.0.2.99".into());
    one.set(vec![own, two.as_peer()]);
    assert_eq!(public(&one), "192.0.2.1");
}

#[test]
fn a_cable_that_was_out_is_in_again_and_pods_reach_each_other() {
    for backend in [VXLAN, HOST_GW] {
        let Some(switch) = Switch::start_for(backend) else { continue };
        let [one, two] = [1, 2].map(|it| switch.add(it, Side::Near, Families::V4, backend, false));
        let _following = [one.follow(), two.follow()];
        introduce(&[&one, &two]);
        let pods = [&one, &two].map(|it| it.attach("a"));
        pods.iter().for_each(serve);
        check(&pods[0], &pods[1]);
        let mut routes = one.routes();
        let uplink = routes.link("uplink").unwrap().unwrap();
        for is_up in [false, true] {
            let change = LinkChange { is_up: Some(is_up), ..LinkChange::default() };
            routes.change_link(&uplink, change).unwrap();
        }
        for gateway in [WORLD, WORLD_6].map(ip).into_iter().filter(|it| it.is_ipv4()) {
            put_route(&mut routes, "uplink", Destination::default_of(gateway), gateway);
        }
        let is_back = (0..50).any(|_| {
            let address = format!("{}:80", pods[1].address);
            crate::places::ask(&pods[0].namespace, &address).is_ok()
        });
        assert!(is_back, "{backend}");
        check(&pods[1], &pods[0]);
    }
}
