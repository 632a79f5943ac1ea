//! What cannot be is refused, before anything is made.

use crate::cluster::{Cluster, ran};

#[test]
fn what_makes_no_sense_is_refused() {
    let Some(mut cluster) = Cluster::prepare() else { return };
    let cgroup = cluster.host.cgroup.clone();
    let refused = |cluster: &Cluster, words: &[&str], expected: &str| {
        let ran = ran(cluster.xebec(words).output().unwrap());
        assert!(!ran.is_ok, "{words:?} should have failed: {}", ran.stdout);
        assert!(ran.stderr.contains(expected), "{words:?}: {}", ran.stderr);
    };
    let up = |more: &[&'static str]| -> Vec<String> {
        let own = ["up", "--cgroup-root", cgroup.as_str()];
        own.iter().chain(more).map(|it| (*it).to_owned()).collect()
    };
    let up_refused = |cluster: &Cluster, more: &[&'static str], expected: &str| {
        let words = up(more);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        refused(cluster, &words, expected);
    };
    up_refused(&cluster, &["--nodes", "0"], "0 is not in 1..");
    up_refused(&cluster, &["--nodes", "101"], "--nodes 101: at most 100");
    up_refused(
        &cluster,
        &["--nodes", "2", "--node", "none"],
        "without a node there are no further",
    );
    up_refused(&cluster, &["--node-cidr", "10.9.0.0/24"], "there is one node alone");
    up_refused(
        &cluster,
        &["--nodes", "3", "--node-cidr", "192.0.2.0/24"],
        "the addresses of nodes, 192.0.2.0/24, are taken by the route 192.0.2.0/24 over eth0",
    );
    up_refused(
        &cluster,
        &["--nodes", "20", "--node-cidr", "10.9.0.0/28"],
        "10.9.0.0/28 has no addresses for 20 nodes",
    );
    assert!(!cluster.data().exists(), "nothing was made");

    cluster.up_with(&["--nodes", "2"]);
    refused(
        &cluster,
        &["node", "kill", "node-b"],
        "node-b is no further node of this machine; there are node-a-2",
    );
    refused(&cluster, &["node", "stop", "node-a"], "node-a is the node of `xebec up` itself");
    cluster.node(&["kill", "node-a-2"]);
    refused(&cluster, &["node", "stop", "node-a-2"], "node-a-2 is dead");
    cluster.stop();
    refused(&cluster, &["node", "start", "node-a-2"], "the cluster does not run");
    up_refused(
        &cluster,
        &["--nodes", "1"],
        "--nodes 1: this cluster has 2 nodes on this machine, and they stay",
    );
    let agent = cluster.data().join("nodes/node-a-2/data").display().to_string();
    let mut down = cluster.host.command(env!("CARGO_BIN_EXE_xebec"));
    down.args(["down", "--data-dir", &agent]).env("XEBEC_REGISTRY", cluster.path("clusters"));
    let said = ran(down.output().unwrap());
    assert!(said.stderr.contains("xebec node stop node-a-2"), "{}{}", said.stdout, said.stderr);

    // One more, later, and the one that was dead: both are there.
    cluster.up_with(&["--nodes", "3"]);
    for name in ["node-a-2", "node-a-3"] {
        cluster.until_node_is(name, true);
    }
}
