//! The API server from another machine, as docs/remote-access.md has it: by address and by name,
//! with certificates verified.

use std::path::Path;

use crate::cluster::Cluster;
use crate::host::NODE;

/// From the neighbor, over the cable; a name stands for the node's address. What curl says, and how
/// it ended.
fn curl(cluster: &Cluster, server: &str) -> String {
    let authority = cluster.path("data/pki/ca.crt").display().to_string();
    let resolve = format!("{server}:6443:{NODE}");
    let script = r#"curl -sS --max-time 20 --cacert "$0" --resolve "$1" "https://$2:6443/readyz" 2>&1; echo " $?""#;
    let words = ["sh", "-c", script, &authority, &resolve, server];
    cluster.host.on_neighbor(&words).trim().to_owned()
}

/// As the document says: a copy of the kubeconfig, with another server in it.
fn kubectl(cluster: &Cluster, kubeconfig: &Path, words: &[&str]) -> String {
    let kubectl = std::env::var("XEBEC_TEST_KUBECTL").unwrap_or_else(|_| "kubectl".to_owned());
    let kubeconfig = kubeconfig.display().to_string();
    let home = cluster.path("").display().to_string();
    let env = format!("HOME={home}");
    let own = ["env", &env, &kubectl, "--kubeconfig", &kubeconfig];
    cluster.host.on_neighbor(&[&own[..], words].concat())
}

#[test]
fn another_machine_reaches_the_cluster_by_address_and_by_name() {
    let Some(mut cluster) = Cluster::prepare() else { return };
    let more = "api.example.test,203.0.113.9";
    cluster.up_with(&["--bind-address", "0.0.0.0", "--tls-san", more, "--tls-san", "box"]);
    assert_eq!(curl(&cluster, NODE), "ok 0");
    assert_eq!(curl(&cluster, "api.example.test"), "ok 0");
    assert_eq!(curl(&cluster, "box"), "ok 0");
    let refused = curl(&cluster, "elsewhere.example.test");
    assert!(refused.contains("matches target host name") && refused.ends_with(" 60"), "{refused}");

    let copy = cluster.path("remote-kubeconfig");
    std::fs::copy(cluster.path("data/kubeconfig"), &copy).unwrap();
    let server = format!("https://{NODE}:6443");
    kubectl(&cluster, &copy, &["config", "set-cluster", "xebec", "--server", &server]);
    assert!(kubectl(&cluster, &copy, &["get", "nodes"]).contains("node-a"));
    let named = ["--tls-server-name", "api.example.test", "get", "nodes"];
    assert!(kubectl(&cluster, &copy, &named).contains("node-a"));
    // Whoever is refused is in the log, with the reason.
    cluster.host.on_neighbor(&["sh", "-c", &format!("! curl -sS https://{NODE}:6443/")]);
    wait_for_log(&cluster, "TLS handshake error from 192.0.2.2:", "UnknownCA");

    // The same directory, another address: the certificate follows, and what was named is not named
    // any more.
    cluster.stop();
    cluster.up_with(&["--bind-address", NODE]);
    assert_eq!(curl(&cluster, NODE), "ok 0");
    assert!(curl(&cluster, "api.example.test").ends_with(" 60"));
    assert!(cluster.ok(&["get", "nodes"]).contains("node-a"), "the kubeconfig follows too");
}

/// The client may be told before the log is.
fn wait_for_log(cluster: &Cluster, words: &str, reason: &str) {
    let is_there = |log: &str| log.lines().any(|it| it.contains(words) && it.contains(reason));
    for _ in 0..200 {
        if is_there(&cluster.log()) {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("no {words:?} with {reason:?} in\n{}", cluster.log());
}
