//! Snapshots, restores to a point in time, status and compaction, with the cluster running and stopped.

use crate::cluster::Cluster;
use crate::{json, store, store_refuses};

fn value(cluster: &Cluster) -> String {
    cluster.ok(&["get", "configmap", "a", "-o", "jsonpath={.data.v}"])
}

#[test]
fn a_snapshot_is_taken_while_the_cluster_runs_and_restored_to_any_of_its_revisions() {
    let Some(mut cluster) = Cluster::start(0) else { return };
    let data = cluster.path("data");
    cluster.ok(&["create", "configmap", "a", "--from-literal=v=1"]);
    let first =
        cluster.ok(&["get", "configmap", "a", "-o", "jsonpath={.metadata.resourceVersion}"]);
    cluster.ok(&["patch", "configmap", "a", "-p", r#"{"data":{"v":"2"}}"#]);
    let file = cluster.path("snapshot").display().to_string();
    let said = store(&data, &["snapshot", &file]);
    assert!(said.contains("snapshot of revision"), "{said}");
    assert!(
        store_refuses(&data, &["snapshot", &file]).contains("exists"),
        "nothing is overwritten"
    );
    cluster.ok(&["patch", "configmap", "a", "-p", r#"{"data":{"v":"3"}}"#]);
    assert!(store_refuses(&data, &["check"]).contains("stop it first"));
    assert!(store(&data, &["check", &file]).contains("sound"));
    cluster.stop();
    assert!(store(&data, &["check"]).contains("sound"));
    assert!(store_refuses(&data, &["restore", &file]).contains("has a store already"));

    let check = |flags: &[&str], expected: &str| {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("data");
        store(&target, &[&["restore", &file], flags].concat());
        let restored = Cluster::start_with(directory, 0, &[]).unwrap();
        assert_eq!(value(&restored), expected, "{flags:?}");
        // It is a store like any other: it can be written.
        restored.ok(&["patch", "configmap", "a", "-p", r#"{"data":{"v":"4"}}"#]);
    };
    check(&[], "2");
    check(&["--revision", &first], "1");
    let nowhere = cluster.path("nowhere");
    let refused = store_refuses(&nowhere, &["restore", &file, "--revision", "999999"]);
    assert!(refused.contains("999999"), "{refused}");
    cluster.restart(0);
    assert_eq!(value(&cluster), "3");
}

#[test]
fn status_and_compaction_ask_the_server_that_runs() {
    let Some(mut cluster) = Cluster::start(0) else { return };
    let data = cluster.path("data");
    cluster.ok(&["create", "configmap", "a", "--from-literal=v=1"]);
    for index in 0..5 {
        let patch = format!(r#"{{"data":{{"v":"{index}"}}}}"#);
        cluster.ok(&["patch", "configmap", "a", "-p", &patch]);
    }
    let running = json(&store(&data, &["status", "-o", "json"]));
    let revision = |status: &serde_json::Value| status["revision"].as_u64().unwrap();
    assert!(revision(&running) > running["oldestRevision"].as_u64().unwrap());
    assert!(running["keys"].as_u64().unwrap() > 50 && running["readOnly"].is_null(), "{running}");
    let keep = (revision(&running) - 1).to_string();
    assert!(store(&data, &["compact", "--revision", &keep]).contains(&keep));
    let compacted = json(&store(&data, &["status", "-o", "json"]));
    assert_eq!(compacted["oldestRevision"].to_string(), keep);
    let refused = store_refuses(&data, &["compact", "--revision", "999999"]);
    assert!(refused.contains("999999"), "{refused}");
    assert_eq!(cluster.ok(&["get", "configmap", "a", "-o", "jsonpath={.data.v}"]), "4");
    cluster.stop();
    let stopped = json(&store(&data, &["status", "-o", "json"]));
    assert!(revision(&stopped) >= revision(&compacted));
    assert!(store(&data, &["status"]).contains("writable"));
    assert!(store_refuses(&cluster.path("none"), &["status"]).contains("no xebec data directory"));
}
