//! Attaching and detaching: the same again, failures, ends.

use std::collections::BTreeSet;

use linux::network_namespace::NetworkNamespace;

use crate::places::{GATEWAY, Node, Server, ask, range};

fn link_names(node: &Node) -> BTreeSet<String> {
    node.routes().links().unwrap().into_iter().map(|it| it.name).collect()
}

#[test]
fn the_same_sandbox_again_gets_the_same_address() {
    let Some(node) = Node::start() else { return };
    let pod = node.attach("a", &[]);
    let links = link_names(&node);
    let again = node.try_attach("a", pod.namespace.path(), &[]).unwrap();
    assert_eq!((again, link_names(&node)), (pod.address, links.clone()));
    let _server = Server::start(&pod.namespace, "0.0.0.0:80");
    assert_eq!(ask(&node.namespace, "10.244.1.2:80").unwrap(), GATEWAY);
    // In another namespace, too: then the link is a new one.
    let other = NetworkNamespace::create().unwrap();
    let moved = node.try_attach("a", other.path(), &[]).unwrap();
    assert_eq!((moved, link_names(&node)), (pod.address, links));
    let _server = Server::start(&other, "0.0.0.0:81");
    assert_eq!(ask(&node.namespace, "10.244.1.2:81").unwrap(), GATEWAY);
}

#[test]
fn addresses_rest_before_they_are_given_again() {
    let Some(node) = Node::start() else { return };
    let address = |name: &str| node.attach(name, &[]).address.to_string();
    assert_eq!((address("a"), address("b")), ("10.244.1.2".into(), "10.244.1.3".into()));
    node.detach("a");
    node.detach("b");
    assert_eq!((address("c"), address("d")), ("10.244.1.4".into(), "10.244.1.5".into()));
}

#[test]
fn when_all_addresses_are_used_that_is_said() {
    let Some(mut node) = Node::start() else { return };
    let ranges = vec![range("10.244.1.0/29", "10.244.0.0/16")];
    node.open_with(network::Config { ranges, ..node.config() }).unwrap();
    let pods: Vec<_> = (0..5).map(|it| node.attach(&format!("pod-{it}"), &[])).collect();
    let links = link_names(&node);
    let namespace = NetworkNamespace::create().unwrap();
    let err = node.try_attach("one-more", namespace.path(), &[]).unwrap_err();
    assert_eq!(err.to_string(), "no pod address is free in 10.244.1.0/29");
    assert_eq!(link_names(&node), links);
    node.detach("pod-3");
    assert_eq!(node.attach("one-more", &[]).address, pods[3].address);
}

#[test]
fn a_failed_attachment_leaves_nothing_behind() {
    let Some(node) = Node::start() else { return };
    let before = (link_names(&node), node.routes().routes().unwrap());
    let path = std::path::PathBuf::from("/proc/self/fd/none");
    let err = node.try_attach("a", path, &[]).unwrap_err();
    assert_eq!(err.to_string(), "sandbox a has ended");
    // A namespace in which the link cannot be made: it has one of that name.
    let full = NetworkNamespace::create().unwrap();
    let mut routes = linux::netlink::route::RouteSocket::open_in(&full.path()).unwrap();
    routes.create_bridge("eth0", 0, 1500).unwrap();
    assert!(node.try_attach("a", full.path(), &[]).is_err());
    assert_eq!((link_names(&node), node.routes().routes().unwrap()), before);
    let directory = node.directory.path().join("network");
    let files: Vec<_> =
        std::fs::read_dir(directory).unwrap().map(|it| it.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    let text = std::fs::read_to_string(&files[0]).unwrap();
    assert!(text.contains(r#""sandboxes": {}"#), "{text}");
}

#[test]
fn a_link_goes_with_the_namespace_and_detaching_is_still_possible() {
    let Some(node) = Node::start() else { return };
    let before = link_names(&node);
    let pod = node.attach("a", &[]);
    assert_eq!(link_names(&node).len(), before.len() + 1);
    drop(pod.namespace);
    // The kernel takes namespaces down in its own time.
    let is_gone = (0..500).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        link_names(&node) == before
    });
    assert!(is_gone);
    node.detach("a");
    node.detach("a");
    node.detach("never there");
    assert_eq!(link_names(&node), before);
}

#[test]
fn a_name_that_is_no_bridge_is_refused_with_advice() {
    let Some(mut node) = Node::start() else { return };
    let config = network::Config { bridge: "lo".into(), ..node.config() };
    let err = node.open_with(config).unwrap_err();
    assert!(stdx::error_chain(&err).contains("lo is there and is no bridge"), "{err:?}");
    let ranges = vec![range("10.244.1.0/31", "10.244.0.0/16")];
    let config = network::Config { ranges, ..node.config() };
    assert!(node.open_with(config).unwrap_err().to_string().contains("10.244.1.0/31"));
}
