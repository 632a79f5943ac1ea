//! Where a stream goes, and what is refused before anybody is called.

use api::core::Pod;
use api::{ApiObject, Resource as _};
use serde_json::{Value, json};

use super::location::{Stream, locate};
use super::options::{self, Wanted};
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
    let query = Query::parse(Some(query));
    let wanted = options::of_query(stream, &query).and_then(|options| match options {
        Some(options) => Ok(Wanted::of_options(&options)),
        None => Wanted::of_log(&query),
    });
    let text = match wanted.and_then(|it| locate(stream, pod, &it)) {
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
fn options_are_objects_as_upstream_s() {
    let of = |stream, query: &str| {
        let options = options::of_query(stream, &Query::parse(Some(query))).unwrap();
        options.map(|it| ApiObject::to_value(&it)).unwrap_or_default()
    };
    let exec = json!({
        "apiVersion": "v1", "kind": "PodExecOptions", "metadata": {},
        "stdin": true, "tty": true, "container": "c", "command": ["sh", "-c"],
    });
    assert_eq!(of(Stream::Exec, "command=sh&command=-c&stdin=1&tty=true&container=c"), exec);
    let attach = json!({
        "apiVersion": "v1", "kind": "PodAttachOptions", "metadata": {}, "stdout": true, "stderr": true,
    });
    assert_eq!(of(Stream::Attach, ""), attach);
    assert_eq!(of(Stream::PortForward, "ports=80,81")["ports"], json!([80, 81]));
    assert_eq!(of(Stream::Log, "follow=true"), Value::Null);
    let pod = pod(&["main"], &[], "one");
    let refusal = "strconv.ParseInt: parsing \"http\": invalid syntax";
    check(Stream::PortForward, &pod, "ports=http", refusal);
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
