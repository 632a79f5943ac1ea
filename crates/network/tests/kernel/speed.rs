//! How long attaching and detaching take. Printed, not asserted.

use std::time::Duration;

use stdx::{Clock as _, SystemClock};

use crate::places::{Node, Server, ask};

#[test]
fn attaching_and_detaching_are_measured() {
    let Some(node) = Node::start() else { return };
    let clock = SystemClock::default();
    let n_pods = 100;
    let mut first = Duration::ZERO;
    let (mut attach, mut detach) = (Duration::ZERO, Duration::ZERO);
    let mut pods = Vec::new();
    for index in 0..n_pods {
        let namespace = linux::network_namespace::NetworkNamespace::create().unwrap();
        let name = format!("pod-{index}");
        let start = clock.monotonic();
        let address = node.try_attach(&name, namespace.path(), &[]).unwrap();
        attach += clock.monotonic() - start;
        let _server = Server::start(&namespace, "0.0.0.0:80");
        let start = clock.monotonic();
        ask(&node.namespace, &format!("{address}:80")).unwrap();
        first += clock.monotonic() - start;
        pods.push((name, namespace));
    }
    for (name, _namespace) in &pods {
        let start = clock.monotonic();
        node.detach(name);
        detach += clock.monotonic() - start;
    }
    println!(
        "pod network, mean of {n_pods}: attach {:?}, first connection {:?}, detach {:?}",
        attach / n_pods,
        first / n_pods,
        detach / n_pods
    );
}
