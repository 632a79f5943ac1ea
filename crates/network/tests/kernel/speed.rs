//! How long attaching and detaching take. Printed, not asserted.

use std::time::Duration;

use tokio::time::Instant;

use crate::places::{Node, Server, ask};

#[test]
fn attaching_and_detaching_are_measured() {
    let Some(node) = Node::start() else { return };
    let n_pods = 100;
    let mut first = Duration::ZERO;
    let (mut attach, mut detach) = (Duration::ZERO, Duration::ZERO);
    let mut pods = Vec::new();
    for index in 0..n_pods {
        let namespace = linux::network_namespace::NetworkNamespace::create().unwrap();
        let name = format!("pod-{index}");
        let start = Instant::now();
        let address = node.try_attach(&name, namespace.path(), &[]).unwrap();
        attach += start.elapsed();
        let _server = Server::start(&namespace, "0.0.0.0:80");
        let start = Instant::now();
        ask(&node.namespace, &format!("{address}:80")).unwrap();
        first += start.elapsed();
        pods.push((name, namespace));
    }
    for (name, _namespace) in &pods {
        let start = Instant::now();
        node.detach(name);
        detach += start.elapsed();
    }
    println!(
        "pod network, mean of {n_pods}: attach {:?}, first connection {:?}, detach {:?}",
        attach / n_pods,
        first / n_pods,
        detach / n_pods
    );
}
