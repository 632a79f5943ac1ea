//! Manifest in; problems, defaults and cells out.

use serde_json::{Value, json};

use super::ReplicaSet;
use crate::testing::{check, check_created, check_row};

fn replica_set() -> Value {
    json!({"metadata": {"name": "web"}, "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "nginx"}]},
        },
    }})
}

#[test]
fn a_minimal_one_is_valid() {
    check_created::<ReplicaSet>(replica_set(), "/spec/replicas", json!(1));
    check_created::<ReplicaSet>(replica_set(), "/status", json!({"replicas": 0}));
    check::<ReplicaSet>(replica_set(), &[]);
}

#[test]
fn the_row_counts_pods() {
    let mut manifest = replica_set();
    manifest["status"] = json!({"replicas": 2, "readyReplicas": 1});
    check_row::<ReplicaSet>(
        manifest,
        "2026-01-01T00:00:00Z",
        json!(["web", 1, 2, 1, "<unknown>", "web", "nginx", "app=web"]),
    );
}
