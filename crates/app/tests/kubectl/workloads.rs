//! Objects posted by hand, and what survives `kill -9`.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::cluster::Cluster;

#[test]
fn pods_of_a_posted_replication_controller_appear() {
    let Some(cluster) = Cluster::start(2) else { return };
    let body = json!({
        "apiVersion": "v1", "kind": "ReplicationController",
        "metadata": { "name": "old-school" },
        "spec": { "replicas": 2, "selector": { "app": "old" }, "template": {
            "metadata": { "labels": { "app": "old" } },
            "spec": { "containers": [{ "name": "main", "image": "xebec.local/toolbox" }] },
        } },
    });
    let answer = cluster.curl(
        "/api/v1/namespaces/default/replicationcontrollers",
        &["-X", "POST", "-H", "Content-Type: application/json", "-d", &body.to_string()],
    );
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["kind"], "ReplicationController", "{answer}");
    cluster.until(&["get", "pods", "-l", "app=old", "--no-headers"], |it| {
        it.matches("Running").count() == 2
    });
}

/// Writers note what was acknowledged; after the kill all of it must be there, in an order that
/// only grows.
#[test]
fn no_acknowledged_write_is_lost_by_kill_9_and_watchers_resume() {
    let Some(mut cluster) = Cluster::start(0) else { return };
    let mut acknowledged: BTreeMap<String, u64> = BTreeMap::new();
    let mut highest = 0;
    for round in 0..3 {
        let (written, last) = write_until_killed(&mut cluster, round);
        assert!(!written.is_empty(), "nothing was acknowledged in round {round}");
        acknowledged.extend(written);
        cluster.restart(0);
        let list: Value =
            serde_json::from_str(&cluster.curl("/api/v1/namespaces/default/configmaps", &[]))
                .unwrap();
        let revision: u64 = list["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        assert!(
            revision >= last && revision >= highest,
            "the revision went back from {last} to {revision}"
        );
        highest = revision;
        let found: BTreeMap<String, u64> =
            list["items"].as_array().unwrap().iter().map(name_and_version).collect();
        for (name, version) in &acknowledged {
            assert_eq!(found.get(name), Some(version), "{name} was acknowledged at {version}");
        }
        check_resume(&cluster, last);
    }
}

/// A watch from a revision seen before the kill goes on after it.
fn check_resume(cluster: &Cluster, since: u64) {
    let name = format!("after-{since}");
    cluster.ok(&["create", "configmap", &name]);
    let path = format!(
        "/api/v1/namespaces/default/configmaps?watch=true&resourceVersion={since}&timeoutSeconds=1&allowWatchBookmarks=false"
    );
    let events = cluster.curl(&path, &[]);
    assert!(events.contains(&format!("\"{name}\"")) && !events.contains("\"ERROR\""), "{events}");
}

fn write_until_killed(cluster: &mut Cluster, round: usize) -> (BTreeMap<String, u64>, u64) {
    let (server, pki) = (cluster.server(), cluster.path("data/pki"));
    let is_over = AtomicBool::new(false);
    let is_over = &is_over;
    let written: Vec<(String, u64)> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let (server, pki) = (server.clone(), pki.clone());
                scope.spawn(move || {
                    let mut written = Vec::new();
                    for index in 0..500 {
                        if is_over.load(Ordering::Relaxed) {
                            break;
                        }
                        let name = format!("load-{round}-{writer}-{index}");
                        let body = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name } });
                        let output = Command::new("curl")
                            .args(["-sS", "--max-time", "10", "-X", "POST", "-H", "Content-Type: application/json", "-d"])
                            .arg(body.to_string())
                            .arg("--cacert")
                            .arg(pki.join("ca.crt"))
                            .arg("--cert")
                            .arg(pki.join("admin.crt"))
                            .arg("--key")
                            .arg(pki.join("admin.key"))
                            .arg(format!("{server}/api/v1/namespaces/default/configmaps"))
                            .output()
                            .unwrap();
                        let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
                        if answer["kind"] == "ConfigMap" {
                            written.push(name_and_version(&answer));
                        }
                    }
                    written
                })
            })
            .collect();
        std::thread::sleep(Duration::from_millis(800));
        cluster.kill();
        is_over.store(true, Ordering::Relaxed);
        writers.into_iter().flat_map(|it| it.join().unwrap()).collect()
    });
    let last = written.iter().map(|(_, version)| *version).max().unwrap_or(0);
    let distinct: std::collections::BTreeSet<u64> =
        written.iter().map(|(_, version)| *version).collect();
    assert_eq!(distinct.len(), written.len(), "a revision was given twice");
    (written.into_iter().collect(), last)
}

fn name_and_version(object: &Value) -> (String, u64) {
    let meta = &object["metadata"];
    (
        meta["name"].as_str().unwrap().to_owned(),
        meta["resourceVersion"].as_str().unwrap().parse().unwrap(),
    )
}

#[test]
fn a_running_cluster_survives_kill_9() {
    let Some(mut cluster) = Cluster::start(2) else { return };
    cluster.ok(&["create", "deployment", "web", "--image=xebec.local/toolbox", "--replicas=2"]);
    cluster.ok(&["rollout", "status", "deployment/web", "--timeout=60s"]);
    let before = cluster.ok(&["get", "pods", "-o", "jsonpath={.items[*].metadata.uid}"]);
    cluster.kill_and_restart(2);
    assert_eq!(cluster.ok(&["get", "pods", "-o", "jsonpath={.items[*].metadata.uid}"]), before);
    cluster.ok(&["scale", "deployment/web", "--replicas=3"]);
    cluster.ok(&["rollout", "status", "deployment/web", "--timeout=60s"]);
}

#[test]
fn get_watch_shows_changes_as_they_happen() {
    let Some(cluster) = Cluster::start(1) else { return };
    cluster.ok(&["run", "first", "--image=xebec.local/toolbox"]);
    cluster.ok(&["wait", "--for=condition=Ready", "pod/first", "--timeout=30s"]);
    let mut watch = cluster
        .command(&["get", "pods", "-w", "--no-headers"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines().map_while(Result::ok);
    // The list has been shown: from here on everything is a change.
    assert!(lines.next().unwrap().contains("first"));
    cluster.ok(&["run", "second", "--image=xebec.local/toolbox"]);
    let is_running = |it: &String| it.contains("second") && it.contains("Running");
    let seen: Vec<String> = lines.take(50).take_while(|it| !is_running(it)).collect();
    watch.kill().unwrap();
    watch.wait().unwrap();
    assert!(seen.iter().any(|it| it.contains("second") && it.contains("Pending")), "{seen:?}");
}
