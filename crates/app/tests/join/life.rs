//! A node from its line to its end.

use crate::joined::{Machine, NAME};

fn logs_and_commands_work(machine: &Machine, pod: &str) {
    let cluster = &machine.cluster;
    assert!(cluster.ok(&["exec", pod, "--", "echo", "here"]).contains("here"));
    cluster.ok(&["logs", pod]);
}

#[test]
fn a_machine_becomes_a_node_with_one_line_and_stays_one() {
    let Some(mut machine) = Machine::start() else { return };
    let cluster = &machine.cluster;
    // Each has a range of its own, given by the control plane.
    let range = |node: &str| cluster.field(&["node", node], ".spec.podCIDR");
    assert_eq!(range("node-a"), "10.244.0.0/24");
    let own = range(NAME);
    assert!(own != "10.244.0.0/24" && own.starts_with("10.244."), "{own}");
    let within = own.trim_end_matches("0/24");
    machine.run_pod("web");
    assert!(cluster.field(&["pod", "web"], ".status.podIP").starts_with(within));
    logs_and_commands_work(&machine, "web");
    let slice = ["get", "endpointslice", "kube-dns", "-n", "kube-system", "-o"];
    let servers = cluster.ok(&[&slice[..], &["jsonpath={.endpoints[*].addresses[*]}"]].concat());
    assert_eq!(servers, format!("10.244.0.1 {within}1"));

    // Again without a token, after it was killed, and after it was stopped: the pod goes on.
    let ids = ["get", "pod", "web", "-o", "jsonpath={.status.containerStatuses[0].containerID}"];
    let before = machine.cluster.ok(&ids);
    machine.kill();
    machine.join(&[]);
    machine.wait_ready();
    logs_and_commands_work(&machine, "web");
    machine.stop();
    machine.join(&[]);
    machine.wait_ready();
    logs_and_commands_work(&machine, "web");
    assert_eq!(machine.cluster.ok(&ids), before);
    let list = machine.xebec_text(&["status"]);
    assert!(list.contains("node of") && list.contains("192.0.2.1:6443"), "{list}");
}

#[test]
fn up_ends_with_the_line_that_makes_another_machine_a_node() {
    let Some(cluster) = crate::cluster::Cluster::prepare() else { return };
    let cgroup = cluster.host.cgroup.clone();
    let flags = ["up", "--detach", "--bind-address", "192.0.2.1", "--cgroup-root", &cgroup];
    let printed = cluster.xebec_ok(&flags);
    let last = printed.lines().last().unwrap_or_default().trim();
    assert!(last.starts_with("xebec join "), "{printed}");
    assert!(last.ends_with("@192.0.2.1:6443"), "{printed}");
    cluster.xebec_ok(&["down", "--purge"]);
}

#[test]
fn who_leaves_leaves_nothing_and_its_pods_go_elsewhere() {
    let Some(mut machine) = Machine::start() else { return };
    let cluster = &machine.cluster;
    cluster.ok(&[
        "create",
        "deployment",
        "web",
        "--image=xebec.local/toolbox",
        "--replicas=4",
        "--",
        "/bin/sleep",
        "1000",
    ]);
    cluster.wait_ready("app=web", 4);
    let kubeconfig = cluster.path("data/kubeconfig").display().to_string();
    let said = machine.xebec_text(&["leave", "--kubeconfig", &kubeconfig]);
    assert!(said.contains("the Node node-b is deleted"), "{said}");
    assert!(!machine.data().exists(), "{said}");
    machine.ended();
    let cluster = &machine.cluster;
    assert_eq!(cluster.ok(&["get", "nodes", "-o", "name"]).trim(), "node/node-a");
    cluster.wait_ready("app=web", 4);
    // And comes back as somebody new, with a range that is free.
    let target = machine.target();
    machine.join(&[&target]);
    machine.wait_ready();
}
