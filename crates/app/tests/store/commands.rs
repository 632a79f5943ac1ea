//! Snapshots, restores to a point in time, status and compaction, with the cluster running and
//! stopped.

use serde_json::Value;

use crate::cluster::Cluster;
use crate::{json, store, store_refuses};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn value(cluster: &Cluster) -> String {
    cluster.ok(&["get", "configmap", "a", "-o", "jsonpath={.data.v}"])
}

fn version(cluster: &Cluster) -> String {
    cluster.ok(&["get", "configmap", "a", "-o", "jsonpath={.metadata.resourceVersion}"])
}

/// What a client that goes on with a restored cluster has of the old one.
struct Remembered {
    /// A resourceVersion that the snapshot has, and one that came after it.
    first: String,
    lost: String,
    /// The first page of a list.
    page: Value,
}

impl Remembered {
    /// The client is told to list again, and then goes on as if nothing had been.
    fn check_is_refused(&self, restored: &Cluster) {
        let expired = |query: &str| {
            let said = restored.curl(&format!("{CONFIG_MAPS}?{query}"), &[]);
            assert!(said.contains(r#""code":410"#), "{query}: {said}");
        };
        for version in [&self.first, &self.lost] {
            expired(&format!("watch=1&timeoutSeconds=20&resourceVersion={version}"));
            expired(&format!("resourceVersion={version}&resourceVersionMatch=Exact"));
            let newer =
                json(&restored.curl(&format!("{CONFIG_MAPS}?resourceVersion={version}"), &[]));
            assert_eq!(newer["kind"], "ConfigMapList", "any state since then will do");
        }
        let token = self.page["metadata"]["continue"].as_str().unwrap();
        expired(&format!("limit=1&continue={token}"));
        let list = json(&restored.curl(CONFIG_MAPS, &[]));
        let now = list["metadata"]["resourceVersion"].as_str().unwrap();
        assert!(now.parse::<u64>().unwrap() > 1_000_000_000, "{now}");
        let is_a = |it: &&Value| it["metadata"]["name"] == "a";
        let found = list["items"].as_array().unwrap().iter().find(is_a).unwrap();
        let mut object = found.clone();
        object["data"]["v"] = "4".into();
        let file = restored.file("a.json", &with_kind(object).to_string());
        restored.ok(&["replace", "-f", &file]);
        let query = format!("watch=1&timeoutSeconds=2&resourceVersion={now}");
        let events = restored.curl(&format!("{CONFIG_MAPS}?{query}"), &[]);
        let events: Vec<Value> = events.lines().map(json).collect();
        let told = events.iter().find(|it| is_a(&&it["object"])).unwrap();
        assert_eq!(
            (&told["type"], &told["object"]["data"]["v"]),
            (&"MODIFIED".into(), &"4".into())
        );
    }
}

/// Objects in lists have none.
fn with_kind(mut object: Value) -> Value {
    object["apiVersion"] = "v1".into();
    object["kind"] = "ConfigMap".into();
    object
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
    let page = json(&cluster.curl(&format!("{CONFIG_MAPS}?limit=1"), &[]));
    cluster.ok(&["patch", "configmap", "a", "-p", r#"{"data":{"v":"3"}}"#]);
    let remembered = Remembered { first: first.clone(), lost: version(&cluster), page };
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
        restored
    };
    remembered.check_is_refused(&check(&[], "2"));
    remembered.check_is_refused(&check(&["--revision", &first], "1"));
    let exact = check(&["--revision", &first, "--bump-revision", "0"], "1");
    assert_eq!(version(&exact), first, "nothing is as if it had been written again");
    exact.ok(&["patch", "configmap", "a", "-p", r#"{"data":{"v":"4"}}"#]);
    assert!(version(&exact).parse::<u64>().unwrap() < 1_000_000);
    drop(exact);
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
    let revision = |status: &Value| status["revision"].as_u64().unwrap();
    assert!(revision(&running) > running["oldestRevision"].as_u64().unwrap());
    assert!(running["keys"].as_u64().unwrap() > 50 && running["readOnly"].is_null(), "{running}");
    let keep = (revision(&running) - 1).to_string();
    let said = store(&data, &["compact", "--revision", &keep]);
    assert!(said.contains(&format!("history before revision {keep} is forgotten; ")), "{said}");
    assert!(!said.contains("; 0 B freed"), "{said}");
    let compacted = json(&store(&data, &["status", "-o", "json"]));
    assert_eq!(compacted["oldestRevision"].to_string(), keep);
    let size = |status: &Value| status["bytes"].as_u64().unwrap();
    assert!(size(&compacted) < size(&running), "{compacted} {running}");
    let refused = store_refuses(&data, &["compact", "--revision", "999999"]);
    assert!(refused.contains("999999"), "{refused}");
    assert_eq!(cluster.ok(&["get", "configmap", "a", "-o", "jsonpath={.data.v}"]), "4");
    cluster.stop();
    let stopped = json(&store(&data, &["status", "-o", "json"]));
    assert!(revision(&stopped) >= revision(&compacted));
    assert!(store(&data, &["status"]).contains("writable"));
    assert!(store_refuses(&cluster.path("none"), &["status"]).contains("no xebec data directory"));
}
