//! A part of the API that a server in a pod serves, as kubectl sees it.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::cluster::{Cluster, pod};

const SERVICE: &str = "v1.wardle.example.com";
const MOUNTS: &str = "    volumeMounts: [{name: certs, mountPath: /certs}, {name: proxies, mountPath: /proxies}]
    readinessProbe: {httpGet: {path: /healthz, port: 8443, scheme: HTTPS}, periodSeconds: 1}
  volumes: [{name: certs, secret: {secretName: certs}}, {name: proxies, configMap: {name: proxies}}]";

fn run_pod(cluster: &Cluster) {
    let command = "[extension-server, --tls-cert-file=/certs/tls.crt, --tls-private-key-file=/certs/tls.key, \
                   --requestheader-client-ca-file=/proxies/ca.crt]";
    cluster.apply("extension.yaml", &pod("extension", command, MOUNTS));
    cluster.wait_ready("app=extension", 1);
}

/// The server in a pod, registered.
fn register(cluster: &Cluster) {
    let names = vec!["extension.default.svc".to_owned()];
    let certified = rcgen::generate_simple_self_signed(names).unwrap();
    let certificate = STANDARD.encode(certified.cert.pem());
    let key = STANDARD.encode(certified.signing_key.serialize_pem());
    let facts = [
        "get",
        "configmap",
        "-n",
        "kube-system",
        "extension-apiserver-authentication",
        "-o",
        "json",
    ];
    let facts: Value = serde_json::from_str(&cluster.ok(&facts)).unwrap();
    let proxies = &facts["data"]["requestheader-client-ca-file"];
    let all = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "certs"},
            "type": "kubernetes.io/tls", "data": {"tls.crt": certificate, "tls.key": key}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "proxies"},
            "data": {"ca.crt": proxies}},
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "extension"},
            "spec": {"selector": {"app": "extension"}, "ports": [{"port": 443, "targetPort": 8443}]}},
        {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": SERVICE},
            "spec": {"group": "wardle.example.com", "version": "v1", "groupPriorityMinimum": 2000,
                "versionPriority": 200, "caBundle": certificate,
                "service": {"namespace": "default", "name": "extension"}}},
    ]});
    cluster.apply("registered.json", &all.to_string());
    run_pod(cluster);
}

fn until_available(cluster: &Cluster, expected: &str) {
    cluster.until(&["get", "apiservice", SERVICE], |it| it.contains(expected));
}

fn flunder(name: &str, reference: &str) -> String {
    format!(
        "apiVersion: wardle.example.com/v1\nkind: Flunder\nmetadata: {{name: {name}, namespace: default}}\nspec: {{reference: {reference}}}\n"
    )
}

#[test]
fn kubectl_uses_what_a_server_in_a_pod_serves() {
    let Some(cluster) = Cluster::start() else { return };
    register(&cluster);
    until_available(&cluster, "True");
    let resources = cluster.until(&["api-resources"], |it| it.contains("wardle.example.com/v1"));
    let line = resources.lines().find(|it| it.contains("wardle.example.com/v1")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words, ["flunders", "fl", "wardle.example.com/v1", "true", "Flunder"]);
    let explained = cluster.until(&["explain", "flunder.spec"], |it| it.contains("reference"));
    assert!(explained.contains("The name of another flunder."), "{explained}");

    let watching = ["get", "fl", "--watch", "-o", "name"];
    let mut watch = cluster.command(&watching).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let one = cluster.file("one.yaml", &flunder("one", "two"));
    assert!(cluster.ok(&["create", "-f", &one]).contains("flunder.wardle.example.com/one created"));
    assert_eq!(lines.next().unwrap().unwrap(), "flunder.wardle.example.com/one");
    watch.kill().unwrap();
    watch.wait().unwrap();
    assert_eq!(cluster.field(&["fl", "one"], ".spec.reference"), "two");
    assert!(cluster.ok(&["get", "flunders"]).contains("one"));
    assert!(cluster.refused(&["create", "-f", &one]).contains("AlreadyExists"));
    assert!(cluster.refused(&["get", "fl", "--as", "jane"]).contains("Forbidden"));

    // Gone: said so, and nothing else suffers. Back: served again, by itself.
    cluster.ok(&["delete", "pod", "extension"]);
    until_available(&cluster, "False (MissingEndpoints)");
    let refused = cluster.refused(&["get", "fl"]);
    assert!(
        refused.contains("ServiceUnavailable") || refused.contains("unable to handle the request"),
        "{refused}"
    );
    cluster.ok(&["get", "pods"]);
    run_pod(&cluster);
    until_available(&cluster, "True");
    let empty = cluster.until(&["get", "fl"], |it| !it.contains("unable"));
    assert!(!empty.contains("one"), "it keeps them in memory: {empty}");
    cluster.ok(&["delete", "apiservice", SERVICE]);
    cluster.until(&["api-resources"], |it| !it.contains("wardle"));
}
