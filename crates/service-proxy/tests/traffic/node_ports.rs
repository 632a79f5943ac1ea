//! Node ports on some addresses of the node alone (`--nodeport-addresses`).

use service_proxy::backends::Networks;
use stdx::Cidr;

use super::nodes::{Nodes, addresses, tcp};
use super::{REFUSED, at, cluster, everywhere, networks, web};

#[test]
fn node_ports_are_served_on_the_chosen_addresses_alone() {
    everywhere(|case| {
        let Some(nodes) = Nodes::new(1) else { return };
        let chosen = Cidr::host(addresses::node(case.family));
        let networks = Networks { node_ports: Some(vec![chosen]), ..networks() };
        let mut backend = case.open_in(&nodes, cluster(), &networks);
        backend.set(&web(), case.both(&[0]));
        backend.resync().unwrap();
        let gateway = at(addresses::gateway(case.family), 30080);
        assert_eq!(tcp(&nodes.client, case.at_node(30080)), Ok(case.masqueraded(0)));
        assert_eq!(tcp(&nodes.node, case.at_node(30080)), Ok(case.masqueraded(0)));
        assert_eq!(tcp(&nodes.pods[0], gateway), REFUSED);
        assert_eq!(tcp(&nodes.node, gateway), REFUSED);
        assert_eq!(tcp(&nodes.pods[0], case.at_cluster_ip(80)), Ok(case.masqueraded(0)));
        // No endpoints: what others serve at the same port elsewhere is left alone.
        backend.set(&web(), case.both(&[]));
        backend.apply().unwrap();
        assert_eq!(tcp(&nodes.client, case.at_node(30080)), REFUSED);
        let (there, own) = (addresses::gateway(case.family), 30080);
        let listener = nodes.node.run(|| std::net::TcpListener::bind((there, own)).unwrap());
        let listener = listener.unwrap();
        let connected = nodes.pods[0].run(|| std::net::TcpStream::connect((there, own)));
        assert!(connected.unwrap().is_ok(), "{:?}", listener.local_addr());
    });
}
