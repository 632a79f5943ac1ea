//! How long attaching and detaching take. Printed, not asserted.

use std::time::Duration;

use tokio::time::Instant;

use crate::places::{Families, Node, Server, ask};

fn measure<T>(times: &mut Vec<Duration>, run: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = run();
    times.push(start.elapsed());
    result
}

/// Other work on the machine lengthens some; the least is what the work itself takes.
fn summary(mut times: Vec<Duration>) -> String {
    times.sort();
    format!("median {:?}, least {:?}", times[times.len() / 2], times[0])
}

#[test]
fn attaching_and_detaching_are_measured() {
    for families in [Families::V4, Families::Both] {
        println!("{families:?}:");
        measure_in(families);
    }
}

fn measure_in(families: Families) {
    let Some(node) = Node::start_with(families) else { return };
    let (mut attach, mut first, mut detach) = (Vec::new(), Vec::new(), Vec::new());
    let mut pods = Vec::new();
    for index in 0..50 {
        let namespace = linux::network_namespace::NetworkNamespace::create().unwrap();
        let name = format!("pod-{index}");
        let address =
            measure(&mut attach, || node.try_attach(&name, namespace.path(), &[]).unwrap());
        let _server = Server::start(&namespace, "0.0.0.0:80");
        measure(&mut first, || ask(&node.namespace, &format!("{address}:80")).unwrap());
        pods.push((name, namespace));
    }
    for (name, _namespace) in &pods {
        measure(&mut detach, || node.detach(name));
    }
    println!("of {} pods: attach {}", pods.len(), summary(attach));
    println!("of {} pods: first connection {}", pods.len(), summary(first));
    println!("of {} pods: detach {}", pods.len(), summary(detach));
}
