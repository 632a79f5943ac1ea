//! Pods of other kinds and their ends: static pods, host network and ports, hooks, shared process
//! namespaces.

use crate::cluster::{Cluster, pod, processes};
use crate::host::NODE;

#[test]
fn static_pods_run_and_are_mirrored() {
    let Some(cluster) = Cluster::start() else { return };
    let manifests = cluster.data().join("manifests");
    let manifest = pod("fixed", "[http, --port, '8080']", "");
    std::fs::write(manifests.join("fixed.yaml"), &manifest).unwrap();
    cluster.wait_ready("app=fixed", 1);
    let mirror = cluster.json(&["get", "pod", "fixed-node-a"]);
    assert!(
        mirror["metadata"]["annotations"]["kubernetes.io/config.mirror"].is_string(),
        "{mirror}"
    );
    // The mirror can be deleted; the pod is the file's.
    cluster.ok(&["delete", "pod", "fixed-node-a", "--wait=false"]);
    cluster.until(&["get", "pod", "fixed-node-a", "-o", "jsonpath={.status.phase}"], |it| {
        it == "Running"
    });
    std::fs::remove_file(manifests.join("fixed.yaml")).unwrap();
    cluster.until(&["get", "pods"], |it| it.contains("No resources found"));
}

#[test]
fn host_ports_and_the_host_network_reach_pods() {
    let Some(cluster) = Cluster::start() else { return };
    cluster.apply(
        "mapped.yaml",
        &pod("mapped", "[http]", "    ports: [{containerPort: 8080, hostPort: 8088}]"),
    );
    cluster.apply(
        "open.yaml",
        &pod("open", "[http, --port, '8099', --text, on-the-host]", "  hostNetwork: true"),
    );
    cluster.wait_ready("app=mapped", 1);
    cluster.wait_ready("app=open", 1);
    assert_eq!(cluster.curl(&format!("http://{NODE}:8088/")).trim(), "mapped");
    assert_eq!(cluster.curl("http://127.0.0.1:8088/").trim(), "mapped");
    let ask = |port: u16| {
        cluster.host.on_neighbor(&[
            "curl",
            "-sS",
            "--max-time",
            "10",
            &format!("http://{NODE}:{port}/"),
        ])
    };
    assert_eq!(ask(8088).trim(), "mapped");
    assert_eq!(ask(8099).trim(), "on-the-host");
    assert_eq!(cluster.field(&["pod", "open"], ".status.podIP"), NODE);
}

#[test]
fn hooks_run_and_the_grace_period_is_kept() {
    let Some(cluster) = Cluster::start() else { return };
    let spec = r#"    lifecycle:
      postStart: {exec: {command: [touch, /shared/started]}}
      preStop: {exec: {command: [touch, /shared/stopping]}}
    volumeMounts: [{name: shared, mountPath: /shared}]
  volumes: [{name: shared, hostPath: {path: SHARED, type: DirectoryOrCreate}}]"#;
    let shared = cluster.path("shared");
    let spec = spec.replace("SHARED", &shared.display().to_string());
    cluster.apply("hooked.yaml", &pod("hooked", "[sleep]", &spec));
    cluster.wait_ready("app=hooked", 1);
    assert!(shared.join("started").exists());
    cluster.ok(&["delete", "pod", "hooked"]);
    assert!(shared.join("stopping").exists());
    assert!(shared.join("started").exists(), "hostPath content is never removed");

    // Deaf to SIGTERM: killed after its grace period.
    cluster.apply("deaf.yaml", &pod("deaf", "[eat, nothing]", ""));
    cluster.wait_ready("app=deaf", 1);
    assert_eq!(processes(&["eat", "nothing"]).len(), 1);
    cluster.ok(&["delete", "pod", "deaf"]);
    assert_eq!(processes(&["eat", "nothing"]).len(), 0);
}

#[test]
fn containers_of_a_pod_can_share_processes() {
    let Some(cluster) = Cluster::start() else { return };
    let spec = "  - {name: other, image: xebec.local/toolbox, args: [sleep, '4711']}\n  shareProcessNamespace: true";
    cluster.apply("shared.yaml", &pod("shared", "[sleep, '4712']", spec));
    cluster.wait_ready("app=shared", 1);
    let list = cluster.exec("shared", &["ls", "/proc"]);
    let n_processes = list.lines().filter(|it| it.parse::<u32>().is_ok()).count();
    assert!(n_processes >= 4, "both sleeps, their first process and ls:\n{list}");
}

#[test]
fn the_node_shows_that_it_runs_the_control_plane() {
    let Some(cluster) = Cluster::start() else { return };
    let shows_role =
        |it: &str| it.lines().any(|it| it.starts_with("node-a") && it.contains("control-plane"));
    cluster.until(&["get", "nodes"], shows_role);
    // A Node that was deleted comes back with its role.
    cluster.ok(&["delete", "node", "node-a"]);
    cluster.until(&["get", "nodes"], shows_role);
}
