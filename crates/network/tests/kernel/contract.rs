//! What every pod network promises.

use std::sync::{Arc, Mutex};

use linux::network_namespace::NetworkNamespace;
use node_api::contract::network::{Namespaces, all};
use node_api::network::Namespace;

use crate::places::{At, Node};

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
    let Some(node) = Node::start() else { return };
    node.block_on(all(node.network(), &Made::default(), 8080));
}
