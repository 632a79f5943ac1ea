//! Where a stream goes, and what is refused before anybody is called.

use api::Resource as _;
use api::core::Pod;
use serde_json::{Value, json};

use super::location::{Stream, locate};
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
