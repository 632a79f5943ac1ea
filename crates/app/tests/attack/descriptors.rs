//! What a program is started with: three descriptors, no inheritable capability, a directory of its
//! own root, whatever its image says; and no socket of ours that a pod could reach.

use serde_json::json;

use crate::shell::{self, pod};

#[test]
fn nothing_of_the_host_is_left_open() {
    let Some(cluster) = shell::cluster() else { return };
    cluster.apply_json(&pod("plain", &json!({}), &json!({})));
    cluster.wait_ready("app=plain", 1);
    // CVE-2024-21626: the shell's own directory is the fourth.
    assert_eq!(
        cluster.sh("plain", "echo /proc/1/fd/*"),
        "/proc/1/fd/0 /proc/1/fd/1 /proc/1/fd/2\n"
    );
    let own = cluster.exec("plain", &["ls", "/proc/self/fd"]);
    assert_eq!(own, "0\n1\n2\n3\n");
    // CVE-2022-29162, for the container and for a command in it.
    for process in ["1", "self"] {
        let status = cluster.sh("plain", &format!("grep -E 'Cap(Inh|Amb)' /proc/{process}/status"));
        assert_eq!(status, "CapInh:\t0000000000000000\nCapAmb:\t0000000000000000\n");
    }
    for (name, directory) in [("seven", "/proc/self/fd/7"), ("eight", "/proc/self/fd/8/../../..")] {
        cluster.apply_json(&pod(name, &json!({}), &json!({ "workingDir": directory })));
        let path = "jsonpath={.status.containerStatuses[0].state.waiting.message}{.status.containerStatuses[0].lastState.terminated.message}{.status.containerStatuses[0].state.terminated.message}";
        cluster.until(&["get", "pod", name, "-o", path], |it| it.contains("/proc/self/fd/"));
    }
}

#[test]
fn paths_in_an_image_lead_nowhere() {
    let Some(cluster) = shell::cluster() else { return };
    let mark = cluster.file("mark", "of the host");
    let root = shell::root(&cluster, "paths").unwrap();
    let up = "/../../../../../../../../../..";
    let parent = std::path::Path::new(&mark).parent().unwrap().display().to_string();
    // CVE-2022-23648: volumes and the directory of an image are paths in the image.
    let config = json!({
        "Env": ["PATH=/bin"], "WorkingDir": format!("{up}{parent}"),
        "Volumes": { format!("{up}{parent}"): {}, format!("{up}/etc"): {} },
    });
    shell::load(&cluster, "local/paths:1", &root, &config);
    cluster.apply_json(&pod("paths", &json!({}), &json!({ "image": "local/paths:1" })));
    cluster.wait_ready("app=paths", 1);
    assert_eq!(cluster.sh("paths", "pwd; ls"), format!("{parent}\n"));
    let found = cluster
        .sh("paths", &format!("ls -R / 2>/dev/null | grep -c '^mark$'; cat {mark} 2>&1; true"));
    assert!(found.starts_with("0\n") && found.contains("No such file"), "{found}");
}

#[test]
fn no_socket_of_ours_is_in_the_nodes_network() {
    let Some(cluster) = shell::cluster() else { return };
    // CVE-2020-15257: a name that is no file belongs to the network, which such a pod shares.
    cluster.apply_json(&pod("host", &json!({ "hostNetwork": true }), &json!({})));
    cluster.wait_ready("app=host", 1);
    let sockets = cluster.sh("host", "cat /proc/net/unix");
    let names = sockets.lines().filter_map(|it| it.split_whitespace().nth(7));
    let abstracts: Vec<&str> = names.filter(|it| it.starts_with('@')).collect();
    assert!(abstracts.is_empty(), "{abstracts:?}");
}
