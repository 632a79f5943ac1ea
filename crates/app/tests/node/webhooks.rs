//! Admission webhooks that run as pods behind a Service, as users run them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::cluster::{Cluster, pod};

const MOUNTS: &str = "    volumeMounts: [{name: certs, mountPath: /certs}]
    readinessProbe: {httpGet: {path: /healthz, port: 8443, scheme: HTTPS}, periodSeconds: 1}
  volumes: [{name: certs, secret: {secretName: certs}}]";

/// A pod `hook` behind a Service of that name, with a certificate; what its authority is.
fn run_hook(cluster: &Cluster) -> String {
    let names = vec!["hook.default.svc".to_owned()];
    let certified = rcgen::generate_simple_self_signed(names).unwrap();
    let certificate = STANDARD.encode(certified.cert.pem());
    let key = STANDARD.encode(certified.signing_key.serialize_pem());
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "certs"},
        "type": "kubernetes.io/tls", "data": {"tls.crt": certificate, "tls.key": key},
    });
    cluster.apply("certs.json", &secret.to_string());
    cluster.apply("hook.yaml", &pod("hook", "[webhook]", MOUNTS));
    cluster.apply(
        "service.yaml",
        "{apiVersion: v1, kind: Service, metadata: {name: hook}, spec: {selector: {app: hook}, \
         ports: [{port: 443, targetPort: 8443}]}}",
    );
    cluster.wait_ready("app=hook", 1);
    cluster.wait_served("hook", 1);
    certificate
}

fn configure(cluster: &Cluster, kind: &str, authority: &str, path: &str, rule: &Value) {
    let service = json!({"namespace": "default", "name": "hook", "path": path});
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": format!("{kind}WebhookConfiguration"),
        "metadata": {"name": path.trim_matches('/').replace('/', "-")},
        "webhooks": [{
            "name": "hook.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"service": service, "caBundle": authority}, "rules": [rule],
        }],
    });
    cluster.apply("configuration.json", &configuration.to_string());
}

fn rule(operation: &str, resource: &str) -> Value {
    json!({
        "operations": [operation], "apiGroups": [""], "apiVersions": ["v1"],
        "resources": [resource],
    })
}

#[test]
fn a_webhook_in_a_pod_changes_and_refuses() {
    let Some(cluster) = Cluster::start() else { return };
    let authority = run_hook(&cluster);
    let maps = rule("CREATE", "configmaps");
    configure(&cluster, "Mutating", &authority, "/data/added", &maps);
    configure(&cluster, "Validating", &authority, "/deny-marked/mark", &maps);
    cluster.ok(&["create", "configmap", "fine", "--from-literal=k=v"]);
    assert_eq!(cluster.field(&["configmap", "fine"], ".data.added"), "yes");
    let refused = cluster.refused(&["create", "configmap", "bad", "--from-literal=mark=deny"]);
    let text =
        "admission webhook \"hook.example.com\" denied the request: the object is marked by mark";
    assert!(refused.contains(text), "{refused}");
    // Streams are asked about, too.
    let exec = ["exec", "hook", "--", "toolbox", "true"];
    cluster.ok(&exec);
    configure(
        &cluster,
        "Validating",
        &authority,
        "/deny/no-streams",
        &rule("CONNECT", "pods/exec"),
    );
    let refused = cluster.refused(&exec);
    assert!(refused.contains("denied the request: no-streams"), "{refused}");
    // Without its pod it fails closed, at once and by name; with it, it is back.
    cluster.ok(&["delete", "pod", "hook"]);
    let refused = cluster.refused(&["create", "configmap", "late", "--from-literal=k=v"]);
    let text = "Post \"https://hook.default.svc:443/data/added?timeout=10s\": no endpoints available for service \"hook\"";
    assert!(refused.contains(text), "{refused}");
    cluster.apply("hook.yaml", &pod("hook", "[webhook]", MOUNTS));
    cluster.wait_ready("app=hook", 1);
    cluster.wait_served("hook", 1);
    cluster.ok(&["create", "configmap", "late", "--from-literal=k=v"]);
}

/// For everything, with nobody there: the node stays ready, leaders lead, and it can be undone.
#[test]
fn a_webhook_that_nobody_answers_for_does_not_take_the_cluster() {
    let Some(mut cluster) = Cluster::start() else { return };
    let all = json!({
        "operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"],
    });
    configure(&cluster, "Validating", "", "/nobody", &all);
    let refused = cluster.refused(&["create", "configmap", "m"]);
    assert!(refused.contains("service \"hook\" not found"), "{refused}");
    let lease =
        ["get", "lease", "-n", "kube-node-lease", "-o", "jsonpath={.items[0].spec.renewTime}"];
    cluster.kill();
    cluster.up();
    let before = cluster.ok(&lease);
    cluster.until(&lease, |it| it != before);
    let ready = "jsonpath={.items[0].status.conditions[?(@.type==\"Ready\")].status}";
    cluster.until(&["get", "nodes", "-o", ready], |it| it == "True");
    cluster.ok(&["delete", "validatingwebhookconfiguration", "nobody"]);
    cluster.ok(&["create", "configmap", "m"]);
}
