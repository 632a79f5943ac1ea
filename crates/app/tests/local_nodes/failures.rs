//! What can happen to a node, and how it comes back.

use crate::three::{self, Logs};

/// A node that does not renew its lease, as it does every ten seconds, is soon not ready.
const FLAGS: [&str; 2] = ["--node-monitor-grace-period", "15s"];
const NODE: &str = "node-a-2";

#[test]
fn a_node_that_was_stopped_killed_or_isolated_comes_back() {
    let Some(cluster) = three::start(&FLAGS) else { return };
    let _logs = Logs(&cluster);
    cluster.run_on_each();
    let url = format!("http://{}:8080/", cluster.pod_ip(NODE));
    let id = cluster.container_id(NODE);
    let boot = || cluster.field(&["node", NODE], ".status.nodeInfo.bootID");
    let boot_before = boot();

    // Its pods go on, and so does their network.
    assert_eq!(cluster.node(&["stop", NODE]).trim(), "node node-a-2 is stopped");
    assert_eq!(cluster.node(&["stop", NODE]).trim(), "node node-a-2 is already stopped");
    cluster.until_asks("node-a", &url);
    cluster.until_node_is(NODE, false);
    cluster.until_asks("node-a", &url);
    assert_eq!(cluster.node(&["start", NODE]).trim(), "node node-a-2 is running");
    cluster.until_node_is(NODE, true);
    assert_eq!(cluster.container_id(NODE), id);

    // Nobody reaches it, and it is whole.
    cluster.node(&["isolate", NODE]);
    assert_eq!(cluster.listed_state(NODE), "isolated");
    assert!(!cluster.asks("node-a", &url));
    cluster.until_node_is(NODE, false);
    cluster.node(&["start", NODE]);
    cluster.until_node_is(NODE, true);
    cluster.until_asks("node-a", &url);
    assert_eq!((cluster.container_id(NODE), boot()), (id.clone(), boot_before.clone()));

    // All of it is gone at once; what is on its disk is there.
    let init = cluster.listed(NODE)["pid"].clone();
    cluster.node(&["kill", NODE]);
    assert_eq!(cluster.listed_state(NODE), "dead");
    // Of a process that was not reaped yet nothing but its number is left.
    let words = std::fs::read(format!("/proc/{init}/cmdline")).unwrap_or_default();
    assert!(words.is_empty(), "{words:?}");
    assert!(!cluster.asks("node-a", &url));
    cluster.until_node_is(NODE, false);
    cluster.node(&["start", NODE]);
    cluster.until_node_is(NODE, true);
    let restarts =
        ["get", "pod", "on-node-a-2", "-o", "jsonpath={.status.containerStatuses[0].containerID}"];
    cluster.until(&restarts, |it| !it.is_empty() && it != id);
    assert_ne!(boot(), boot_before);
    let url = format!("http://{}:8080/", cluster.pod_ip(NODE));
    cluster.until_asks("node-a", &url);
}
