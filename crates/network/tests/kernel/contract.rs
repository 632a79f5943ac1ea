//! What every pod network promises.

use std::sync::{Arc, Mutex};

use linux::network_namespace::NetworkNamespace;
use node_api::contract::network::{Namespaces, all};
use node_api::network::Namespace;
use stdx::Family;

use crate::places::{At, Families, Node};

#[derive(Default)]
struct Made(Mutex<Vec<NetworkNamespace>>);

impl Namespaces for Made {
    fn make(&self, _name: &str) -> Arc<dyn Namespace> {
        let namespace = NetworkNamespace::create().unwrap();
        let at = At(namespace.path());
        self.0.lock().unwrap().push(namespace);
        Arc::new(at)
    }
}

#[test]
fn the_contract_of_node_api_is_kept() {
    let check = |families: Families, expected: &[Family]| {
        let Some(node) = Node::start_with(families) else { return };
        node.block_on(all(node.network(), &Made::default(), expected, 8080));
    };
    check(Families::V4, &[Family::V4]);
    check(Families::V6, &[Family::V6]);
    check(Families::Both, &[Family::V4, Family::V6]);
}
