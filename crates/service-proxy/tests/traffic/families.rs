//! Services of both families at once, and clusters that serve one family no more.

use linux::netlink::nftables::{Nftables, TableFamily, TableId};
use service_proxy::backends::{self, Networks};
use stdx::Family;

use super::nodes::{FAMILIES, Nodes, tcp, udp};
use super::{Case, REFUSED, change, cluster, modes, web};

#[test]
fn a_service_of_two_families_answers_in_both_and_loses_one_alone() {
    for mode in modes() {
        let [ipv4, ipv6] = FAMILIES.map(|family| Case { mode, family });
        let both = || [ipv4.both(&[0]), ipv6.both(&[0])].concat();
        let Some((nodes, mut backend)) = ipv4.setup(2, both()) else { return };
        for case in [ipv4, ipv6] {
            let answer = Ok(case.masqueraded(0));
            assert_eq!(tcp(&nodes.client, case.at_cluster_ip(80)), answer);
            assert_eq!(udp(&nodes.client, case.at_node(30053)), answer);
        }
        // The endpoints of one family are not those of the other.
        change(&mut *backend, [ipv4.both(&[1]), ipv6.both(&[0])].concat());
        assert_eq!(tcp(&nodes.client, ipv4.at_node(30080)), Ok(ipv4.masqueraded(1)));
        assert_eq!(tcp(&nodes.client, ipv6.at_node(30080)), Ok(ipv6.masqueraded(0)));
        change(&mut *backend, ipv4.both(&[1]));
        assert_eq!(tcp(&nodes.client, ipv4.at_cluster_ip(80)), Ok(ipv4.masqueraded(1)));
        assert_eq!(tcp(&nodes.client, ipv6.at_cluster_ip(80)), REFUSED);
        assert_eq!(tcp(&nodes.client, ipv6.at_node(30080)), REFUSED);
    }
}

#[test]
fn a_family_that_is_served_no_more_leaves_nothing() {
    let mode = backends::mode("nftables").unwrap();
    let [ipv4, ipv6] = FAMILIES.map(|family| Case { mode, family });
    let Some((nodes, backend)) = ipv4.setup(1, [ipv4.both(&[0]), ipv6.both(&[0])].concat()) else {
        return;
    };
    drop(backend);
    let networks = Networks {
        cluster: vec!["10.244.0.0/16".parse().unwrap()],
        services: vec!["10.96.0.0/12".parse().unwrap()],
        node_ports: None,
        worker: None,
    };
    assert!(!networks.serves(Family::V6));
    let mut backend = nodes.node.run(|| (mode.open)(cluster(), &networks)).unwrap().unwrap();
    backend.adopt().unwrap();
    backend.set(&web(), [ipv4.both(&[0]), ipv6.both(&[0])].concat());
    backend.resync().unwrap();
    assert_eq!(tcp(&nodes.client, ipv4.at_node(30080)), Ok(ipv4.masqueraded(0)));
    assert_eq!(observe(&nodes, TableFamily::Ip6), None);
    assert!(observe(&nodes, TableFamily::Ip).is_some());
}

fn observe(nodes: &Nodes, family: TableFamily) -> Option<usize> {
    let id = TableId::new(family, cluster().table("services"));
    let observed = nodes.node.run(|| Nftables::open(id).unwrap().observe()).unwrap().unwrap();
    observed.map(|it| it.chains.len())
}
