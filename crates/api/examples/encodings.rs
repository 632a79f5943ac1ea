//! What a pod costs in each direction between its typed form, JSON, and protobuf: `cargo run
//! --release -p api --example encodings`.

#![expect(clippy::print_stdout, reason = "a program for people")]
#![expect(clippy::disallowed_methods, reason = "it measures the real time")]

use std::time::Instant;

use api::Resource as _;
use api::core::Pod;
use api::protobuf::{self, Envelope};
use serde_json::{Value, json};

const ROUNDS: u32 = 20_000;

fn measure<T>(what: &str, mut step: impl FnMut() -> T) {
    for _ in 0..ROUNDS / 10 {
        std::hint::black_box(step());
    }
    let started = Instant::now();
    for _ in 0..ROUNDS {
        std::hint::black_box(step());
    }
    println!("{what:<28} {:>6.1} µs", started.elapsed().as_secs_f64() * 1e6 / f64::from(ROUNDS));
}

fn container(name: &str) -> Value {
    json!({
        "name": name, "image": format!("registry.example.org/team/{name}:1.2.3"),
        "command": ["/bin/server", "--port=8080"],
        "ports": [{"containerPort": 8080, "name": "http", "protocol": "TCP"}],
        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
        "resources": {
            "limits": {"cpu": "1", "memory": "512Mi"},
            "requests": {"cpu": "100m", "memory": "128Mi"},
        },
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        "terminationMessagePath": "/dev/termination-log", "imagePullPolicy": "IfNotPresent",
    })
}

fn pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "web-5d8c7f9b6-x2x9q", "namespace": "default",
            "uid": "0c7c3a4e-8a1b-4f0e-9d35-2f6d1c0b9a77",
            "labels": {"app": "web", "pod-template-hash": "5d8c7f9b6"},
            "creationTimestamp": "2024-01-02T03:04:05Z",
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": true}],
        },
        "spec": {
            "containers": [container("server"), container("sidecar")],
            "volumes": [{"name": "data", "emptyDir": {}}],
            "nodeName": "node-1", "restartPolicy": "Always", "dnsPolicy": "ClusterFirst",
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}],
        },
        "status": {
            "phase": "Running", "podIP": "10.244.0.9",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2024-01-02T03:04:09Z"}],
        },
    })
}

fn main() {
    let pod = Pod::decode(pod().to_string().as_bytes()).expect("a pod");
    let json = pod.encode();
    let message = protobuf::message(Pod::FACTS.definition).expect("it is listed");
    let encode = || protobuf::encode_telling(message, ("v1", "Pod"), &json).expect("it encodes");
    let value = encode();
    let to_json = || {
        let envelope = Envelope::parse(&value.bytes).expect("an envelope");
        envelope.to_json(message).expect("JSON")
    };
    println!("{} bytes of JSON, {} of protobuf", json.len(), value.bytes.len());
    measure("typed to JSON", || pod.encode());
    measure("JSON to typed", || Pod::decode(&json).expect("a pod"));
    measure("JSON to protobuf", encode);
    measure("protobuf to JSON", to_json);
    measure("protobuf to typed to JSON", || Pod::decode(&to_json()).expect("a pod").encode());
}
