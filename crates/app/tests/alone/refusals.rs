//! What is asked for and not there is refused before anything is made.

use std::process::Command;

fn refused(words: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_xebec")).args(words).output().unwrap();
    assert!(!output.status.success(), "{words:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn flags_are_held_against_the_same_tables_as_files() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let root = path("root");
    let check = |words: &[&str], expected: &str| {
        let said = refused(words);
        assert!(said.contains(expected), "{words:?}: {said}");
    };
    let kubelet = |flag: &[&str], expected: &str| {
        let own = ["kubelet", "--kubeconfig", "/nowhere/kubeconfig", "--root-dir", &root];
        check(&[&own, flag].concat(), expected);
    };
    kubelet(&["--read-only-port", "10255"], "readOnlyPort: 10255 is not supported");
    kubelet(&["--cgroup-driver", "systemd"], "cgroupDriver: \"systemd\" is not supported");
    kubelet(&["--authorization-mode", "AlwaysAllow"], "authorization.mode: \"AlwaysAllow\"");
    kubelet(&["--anonymous-auth"], "authentication.anonymous.enabled: true");
    kubelet(
        &["--register-with-taints", "a:Never"],
        "registerWithTaints: expected a list of taints",
    );
    kubelet(&["--node-labels", "a b=c"], "--node-labels");
    kubelet(&["--feature-gates", "Nonsense=true"], "Nonsense");
    kubelet(&["--bootstrap-kubeconfig", "/b"], "--bootstrap-kubeconfig: asking for a certificate");
    kubelet(&["--config", "/nowhere/config"], "reading /nowhere/config");
    let file = path("kubelet.yaml");
    let text = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPodz: 1\nrunOnce: true\n";
    std::fs::write(&file, text).unwrap();
    kubelet(&["--config", &file], "unknown field \"maxPodz\"\n  - runOnce: true is not supported");

    let proxy = |flag: &[&str], expected: &str| check(&[&["proxy"], flag].concat(), expected);
    proxy(&[], "give --kubeconfig");
    proxy(
        &["--proxy-mode", "ipvs"],
        "mode: \"ipvs\" is not supported: choose ebpf or iptables or nftables or userspace",
    );
    proxy(&["--conntrack-min", "5"], "conntrack.min: 5 is not supported");
    proxy(&["--nodeport-addresses", "primary"], "nodePortAddresses: \"primary\" is not");
    assert!(!directory.path().join("root").exists(), "nothing was made");
}

#[test]
fn a_node_is_enrolled_where_the_clusters_authority_is() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data").display().to_string();
    let said = refused(&["enroll", "node-b", "--address", "192.0.2.2", "--data-dir", &data]);
    assert!(said.contains("pki/ca.crt"), "{said}");
    let said = refused(&["enroll", "Node_B", "--address", "192.0.2.2", "--data-dir", &data]);
    assert!(said.contains("\"Node_B\" is no name of a node"), "{said}");
}
