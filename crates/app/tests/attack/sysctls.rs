//! Kernel settings: a pod sets those that its own namespaces isolate, if they are safe or were
//! allowed, and the host's never change.

use serde_json::json;

use crate::cluster::Cluster;
use crate::shell::{self, pod};

fn of_host(name: &str) -> String {
    std::fs::read_to_string(format!("/proc/sys/{name}")).unwrap()
}

#[test]
fn a_pod_changes_no_setting_of_the_host() {
    let Some(mut cluster) = Cluster::prepare() else { return };
    cluster.up_with(&["--allowed-unsafe-sysctls", "net.core.*,kernel.msg*"]);
    let Some(()) = shell::load_shell(&cluster) else { return };
    let with = |name: &str, sysctl: &str, value: &str| {
        let sysctls = json!([{ "name": sysctl, "value": value }]);
        pod(name, &json!({ "securityContext": { "sysctls": sysctls } }), &json!({}))
    };
    let before = ["vm/swappiness", "kernel/panic", "kernel/msgmax"].map(of_host);
    for (name, sysctl) in [
        ("dots", "vm.swappiness"),
        ("slashes", "vm/swappiness"),
        ("panic", "kernel.panic"),
        ("safe-elsewhere", "net.ipv4.ip_forward"),
    ] {
        cluster.apply_json(&with(name, sysctl, "1"));
        let expected = format!(
            "SysctlForbidden: Pod was rejected: forbidden sysctl: {sysctl:?} not allowlisted"
        );
        assert_eq!(cluster.rejected(name), expected);
    }
    // Allowed by prefix, but nothing isolates it.
    cluster.apply_json(&with("prefix", "kernel.msg_next_id", "1"));
    assert!(cluster.rejected("prefix").starts_with("SysctlForbidden: "));
    for name in ["../vm/swappiness", "net/../../vm/swappiness", "net..x", "/vm/swappiness"] {
        let refused = cluster.refused_json(&with("upward", name, "1"));
        assert!(refused.contains("must have at most 253 characters and match regex"), "{refused}");
    }
    let mut of_node = with("of-node", "net.ipv4.tcp_syncookies", "0");
    of_node["spec"]["hostNetwork"] = json!(true);
    let refused = cluster.refused_json(&of_node);
    assert!(refused.contains("may not be specified when 'hostNetwork' is true"), "{refused}");

    // A file of the node's is no way round.
    let mut file = with("file", "vm.swappiness", "1");
    file["metadata"]["namespace"] = json!("default");
    let path = cluster.data().join("manifests/file.yaml");
    std::fs::write(&path, file.to_string()).unwrap();
    let found = ["get", "pod", "file-node-a", "-o", "jsonpath={.status.reason}"];
    cluster.until(&found, |it| it == "SysctlForbidden");
    // Corrected, it runs.
    file["spec"]["securityContext"] = json!({});
    std::fs::write(&path, file.to_string()).unwrap();
    cluster.wait_ready("app=file", 1);

    cluster.apply_json(&with("safe", "net.ipv4.ip_unprivileged_port_start", "77"));
    cluster.apply_json(&with("allowed", "net/core/somaxconn", "99"));
    cluster.apply_json(&with("messages", "kernel.msgmax", "4096"));
    for (name, path, value) in [
        ("safe", "net/ipv4/ip_unprivileged_port_start", "77\n"),
        ("allowed", "net/core/somaxconn", "99\n"),
        ("messages", "kernel/msgmax", "4096\n"),
    ] {
        cluster.wait_ready(&format!("app={name}"), 1);
        assert_eq!(cluster.sh(name, &format!("cat /proc/sys/{path}")), value);
    }
    assert_eq!(["vm/swappiness", "kernel/panic", "kernel/msgmax"].map(of_host), before);
}
