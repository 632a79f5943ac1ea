//! What outlives a back end, what it takes over, and what it leaves to others.

use apimachinery::ObjectKey;
use linux::netlink::nftables::draft::table_family;
use linux::netlink::nftables::{Nftables, TableId};
use node_api::ClusterId;
use service_proxy::backends::Error;
use service_proxy::service_port::{Protocol, ServicePort};

use super::nodes::{Connection, Nodes, addresses, tcp};
use super::{Case, REFUSED, change, cluster, everywhere, web};

#[test]
fn connections_go_on_while_rules_change_and_after_a_restart() {
    everywhere(|case| {
        let Some((nodes, mut backend)) = case.setup(2, case.both(&[0])) else { return };
        let mut inside = Connection::open(&nodes.node, case.at_cluster_ip(80)).unwrap();
        let mut outside = Connection::open(&nodes.client, case.at_node(30080)).unwrap();
        let expected = Ok(case.masqueraded(0));
        assert_eq!((inside.ask(), outside.ask()), (expected.clone(), expected.clone()));
        change(&mut *backend, case.both(&[1]));
        assert_eq!((inside.ask(), outside.ask()), (expected.clone(), expected.clone()));
        change(&mut *backend, Vec::new());
        drop(backend);
        let mut backend = case.open(&nodes);
        backend.adopt().unwrap();
        backend.set(&web(), case.both(&[1]));
        backend.resync().unwrap();
        assert_eq!((inside.ask(), outside.ask()), (expected.clone(), expected));
        assert_eq!(tcp(&nodes.client, case.at_node(30080)), Ok(case.masqueraded(1)));
    });
}

fn table(nodes: &Nodes, case: Case) -> Nftables {
    let id = TableId::new(table_family(case.family), cluster().table("services"));
    nodes.node.run(|| Nftables::open(id)).unwrap().unwrap()
}

#[test]
fn a_restart_changes_nothing_and_a_table_that_somebody_removed_is_made_again() {
    everywhere(|case| {
        if case.mode.name != "nftables" {
            return;
        }
        let Some((nodes, mut backend)) = case.setup(3, case.both(&[0, 1, 2])) else { return };
        // Slots that a fresh start would not choose.
        change(&mut *backend, case.both(&[1, 2]));
        change(&mut *backend, case.both(&[0, 1, 2]));
        let mut nftables = table(&nodes, case);
        let before = nftables.observe().unwrap();
        let mut backend = case.open(&nodes);
        backend.adopt().unwrap();
        backend.set(&web(), case.both(&[0, 1, 2]));
        backend.resync().unwrap();
        assert_eq!(nftables.observe().unwrap(), before);
        nftables.purge().unwrap();
        backend.set(&web(), case.both(&[0]));
        let Err(Error::Apply { source }) = backend.apply() else { panic!("no such table") };
        assert!(source.is(rustix::io::Errno::NOENT), "{source:?}");
        backend.resync().unwrap();
        assert_eq!(tcp(&nodes.client, case.at_node(30080)), Ok(case.masqueraded(0)));
        nodes.node.run(|| service_proxy::purge(cluster())).unwrap().unwrap();
        assert_eq!(nftables.observe().unwrap(), None);
    });
}

#[test]
fn each_cluster_has_its_own_rules_and_leaves_those_of_others() {
    everywhere(|case| {
        // Upstream's chains have one name whatever the cluster.
        if case.mode.name == "iptables" {
            return;
        }
        let Some((nodes, mut backend)) = case.setup(2, case.both(&[0])) else { return };
        let other: ClusterId = "0badcafe".parse().unwrap();
        let mut beside = case.open_as(&nodes, other);
        beside.adopt().unwrap();
        let db = ObjectKey::new("default", "db");
        let (node_port, cluster_ip) = (Some(31080), addresses::service(case.family, 77));
        let elsewhere =
            ServicePort { node_port, cluster_ip, ..case.port(Protocol::Tcp, &[1], &[1]) };
        beside.set(&db, vec![elsewhere]);
        beside.resync().unwrap();
        backend.resync().unwrap();
        let ask = |port| tcp(&nodes.client, case.at_node(port));
        assert_eq!(ask(30080), Ok(case.masqueraded(0)));
        assert_eq!(ask(31080), Ok(case.masqueraded(1)));
        let before = table(&nodes, case).observe().unwrap();
        nodes.node.run(|| service_proxy::purge(other)).unwrap().unwrap();
        assert_eq!(table(&nodes, case).observe().unwrap(), before);
        assert_eq!(ask(30080), Ok(case.masqueraded(0)));
        assert_eq!(ask(31080), REFUSED);
    });
}
