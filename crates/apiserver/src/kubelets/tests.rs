//! Where a stream goes, and what is refused before anybody is called.

use std::sync::Arc;

use api::Resource as _;
use api::core::{Node, Pod};
use serde_json::{Value, json};

use super::location::{Stream, locate};
use super::{Kubelets, address};
use crate::http::query::Query;

fn pod(containers: &[&str], init: &[&str], node: &str) -> Pod {
    let named =
        |names: &[&str]| -> Vec<Value> { names.iter().map(|it| json!({"name": it})).collect() };
    let pod = json!({
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"nodeName": node, "containers": named(containers), "initContainers": named(init)},
    });
    Pod::decode(pod.to_string().as_bytes()).unwrap()
}

fn check(stream: Stream, pod: &Pod, query: &str, expected: &str) {
    let text = match locate(stream, pod, &Query::parse(Some(query))) {
        Ok(Some(location)) => format!("{} {}", location.node, location.path),
        Ok(None) => "nothing".to_owned(),
        Err(err) => err.message().to_owned(),
    };
    assert_eq!(text, expected);
}

#[test]
fn streams_have_upstreams_paths_on_a_kubelet() {
    let pod = pod(&["main"], &["setup"], "one");
    check(
        Stream::Exec,
        &pod,
        "command=sh&command=-c&command=a%26b&stdin=true&stdout=true&tty=true",
        "one /exec/default/web/main?input=1&tty=1&output=1&command=sh&command=%2Dc&command=a%26b",
    );
    check(Stream::Attach, &pod, "", "one /attach/default/web/main?output=1&error=1");
    check(Stream::PortForward, &pod, "ports=80,81", "one /portForward/default/web?port=80&port=81");
    check(
        Stream::Log,
        &pod,
        "container=setup&follow=true&tailLines=5",
        "one /containerLogs/default/web/setup?follow=true&tailLines=5",
    );
}

#[test]
fn what_cannot_be_is_refused() {
    let (two, waiting) = (pod(&["a", "b"], &["i"], "one"), pod(&["main"], &[], ""));
    check(
        Stream::Log,
        &two,
        "",
        "a container name must be specified for pod web, choose one of: [a b] or one of the init containers: [i]",
    );
    check(Stream::Exec, &two, "container=x", "container x is not valid for pod web");
    check(Stream::Exec, &waiting, "command=date", "pod web does not have a host assigned");
    check(Stream::Log, &waiting, "", "nothing");
    check(
        Stream::Log,
        &waiting,
        "tailLines=-1",
        "PodLogOptions \"\" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0",
    );
}

#[tokio::test]
async fn simulated_nodes_are_never_dialed() {
    let identity = rustls::ClientConfig::builder()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let kubelets = Kubelets::new(Some(Arc::new(identity)));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let node = |provider_id: &str| {
        let address = listener.local_addr().unwrap();
        let status = json!({
            "addresses": [{"type": "InternalIP", "address": address.ip().to_string()}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": address.port()}},
        });
        // Labels may be changed by many, so that they decide nothing.
        let node = json!({
            "metadata": {"name": "sim-0"}, "spec": {"providerID": provider_id}, "status": status,
        });
        Node::decode(node.to_string().as_bytes()).unwrap()
    };
    let refused = kubelets.dial(&node("simulated://sim-0")).await.unwrap_err();
    assert_eq!(refused.code(), 400);
    assert_eq!(
        refused.message(),
        "node \"sim-0\" is simulated: its pods have no containers to run commands in, to read logs of or to connect to"
    );
    // The first to come is the node that is not simulated, and nobody comes after it.
    let real = node("");
    let hang_up = async { drop(listener.accept().await) };
    let (dialed, ()) = tokio::join!(kubelets.dial(&real), hang_up);
    assert!(dialed.is_err(), "a listener without TLS");
    assert!(futures_util::FutureExt::now_or_never(listener.accept()).is_none());
}

#[test]
fn nodes_are_reached_at_their_inner_address() {
    let node =
        |status: Value| Node::decode(json!({"status": status}).to_string().as_bytes()).unwrap();
    let both = json!([
        {"type": "Hostname", "address": "n"}, {"type": "InternalIP", "address": "10.0.0.1"},
    ]);
    assert_eq!(address(&node(json!({"addresses": both}))), Some(("10.0.0.1".to_owned(), 10_250)));
    let port = json!({"kubeletEndpoint": {"Port": 1234}});
    let named = json!([{"type": "Hostname", "address": "n"}]);
    assert_eq!(
        address(&node(json!({"addresses": named, "daemonEndpoints": port}))),
        Some(("n".to_owned(), 1234))
    );
    assert_eq!(address(&node(json!({}))), None);
}
