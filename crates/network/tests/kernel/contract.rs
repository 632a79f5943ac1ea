//! What every pod network promises.

use std::path::PathBuf;
use std::sync::Mutex;

use linux::network_namespace::NetworkNamespace;
use node_api::contract::network::{Namespaces, all};

use crate::places::Node;

#[derive(Default)]
struct Made(Mutex<Vec<NetworkNamespace>>);

impl Namespaces for Made {
    fn make(&self, _name: &str) -> PathBuf {
        let namespace = NetworkNamespace::create().unwrap();
        let path = namespace.path();
        self.0.lock().unwrap().push(namespace);
        path
    }
}

#[test]
fn the_contract_of_node_api_is_kept() {
    let Some(node) = Node::start() else { return };
    node.block_on(all(node.network(), &Made::default(), 8080));
}
