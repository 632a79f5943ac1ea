//! What keeping a pod costs, whole and by a view: resident bytes each, and the time to read one.
//! `cargo run --release -p api --example views`.

#![expect(clippy::print_stdout, reason = "a program for people")]
#![expect(clippy::disallowed_methods, reason = "it measures the real time")]

use std::sync::Arc;
use std::time::Instant;

use api::core::Pod;
use api::core::pod::PodView;
use api::object::meta_of;
use api::{Meta, Resource as _, Stored, View};
use serde_json::json;

const PODS: usize = 20_000;

/// As a Deployment's pod is when it runs, with who wrote which of its fields.
fn pod(n: usize) -> Stored {
    let container = json!({
        "name": "server", "image": "registry.example.org/team/server:1.2.3", "command": ["/bin/server", "--port=8080"],
        "ports": [{"containerPort": 8080, "name": "http", "protocol": "TCP"}],
        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
        "resources": {"limits": {"memory": "512Mi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10},
        "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": true}],
        "terminationMessagePath": "/dev/termination-log", "imagePullPolicy": "IfNotPresent",
    });
    let condition = |name: &str| json!({"type": name, "status": "True", "lastTransitionTime": "2026-01-02T03:04:09Z"});
    let entry = |name: &str| {
        json!({"manager": name, "operation": "Update", "apiVersion": "v1", "time": "2026-01-02T03:04:05Z",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:status": {"f:conditions": {"k:{\"type\":\"Ready\"}": {".": {}, "f:status": {}}}}}})
    };
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("web-5d8c7f9b6-{n:05}"), "namespace": "default", "resourceVersion": "7",
            "uid": format!("0c7c3a4e-8a1b-4f0e-9d35-{n:012}"),
            "labels": {"app": "web", "tier": "front", "pod-template-hash": "5d8c7f9b6"},
            "creationTimestamp": "2026-01-02T03:04:05Z",
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d8c7f9b6", "uid": "u", "controller": true}],
            "managedFields": [entry("kube-controller-manager"), entry("kubelet")],
        },
        "spec": {
            "containers": [container],
            "volumes": [{"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}],
            "nodeName": format!("node-{}", n % 1_000), "restartPolicy": "Always", "dnsPolicy": "ClusterFirst",
            "schedulerName": "default-scheduler", "serviceAccountName": "default",
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}],
        },
        "status": {
            "phase": "Running", "podIP": format!("10.244.{}.{}", n / 250, n % 250),
            "conditions": [condition("PodScheduled"), condition("Initialized"), condition("ContainersReady"), condition("Ready")],
            "containerStatuses": [{"name": "server", "image": "i", "imageID": "d", "ready": true, "restartCount": 0}],
        },
    });
    let bytes = bytes::Bytes::from(pod.to_string());
    let decoded = Pod::decode(&bytes).expect("a pod");
    let fields = decoded.fields().into_iter().map(|(name, value)| (name.into(), value)).collect();
    Stored::new(meta_of(decoded.metadata(), fields), bytes)
}

/// Gives back what was kept: what is freed would be used again, and not be counted.
fn measure<V: View>(what: &str, pods: &[Stored]) -> Vec<Arc<V>> {
    let (before, started) = (resident(), Instant::now());
    let kept: Vec<Arc<V>> = pods.iter().map(|it| it.view().expect("a pod")).collect();
    let (time, used) = (started.elapsed(), resident() - before);
    println!(
        "{what:<40} {:>6} bytes, {:.1} µs to read",
        used / kept.len(),
        time.as_secs_f64() * 1e6 / kept.len() as f64
    );
    kept
}

/// What nobody but this holds: as over HTTPS, where no cache shares it.
fn measure_meta(pods: &[Stored]) -> Vec<Meta> {
    let before = resident();
    let kept: Vec<Meta> = pods.iter().map(|it| Meta::clone(&it.meta)).collect();
    println!("{:<40} {:>6} bytes", "Meta, which a view shares", (resident() - before) / kept.len());
    kept
}

fn main() {
    let before = resident();
    let pods: Vec<Stored> = (0..PODS).map(pod).collect();
    let size = pods[0].bytes.len();
    println!("{:<40} {:>6} bytes, of them {size} of JSON", "Stored", (resident() - before) / PODS);
    let meta = measure_meta(&pods);
    let views = measure::<PodView>("PodView", &pods);
    let whole = measure::<Pod>("Pod", &pods);
    drop((meta, views, whole));
}

/// Resident bytes of this process.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = text.lines().find(|it| it.starts_with("VmRSS:")).expect("a line");
    let digits: String = line.chars().filter(char::is_ascii_digit).collect();
    digits.parse::<usize>().expect("a number") * 1024
}
