//! One cluster of three processes, from its start to its end.

use crate::control_plane::ControlPlane;

/// A node that nobody runs.
const NODE: &str = r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"lonely"},"status":{"allocatable":{"cpu":"4","memory":"4Gi","pods":"10"},
    "conditions":[{"type":"Ready","status":"True"}]}}"#;

#[test]
fn apiserver_controller_manager_and_scheduler_run_apart() {
    let Some(plane) = ControlPlane::start() else { return };
    let kubeconfig = plane.data("controller-manager.kubeconfig");
    let root_ca = plane.data("pki/ca.crt");
    let flags = ["--kubeconfig", &kubeconfig, "--root-ca-file", &root_ca, "--secure-port", "0"];
    let mut controllers = plane.spawn("controller-manager", &flags);
    let kubeconfig = plane.data("scheduler.kubeconfig");
    let mut scheduler =
        plane.spawn("scheduler", &["--kubeconfig", &kubeconfig, "--secure-port", "0"]);
    plane.until(&["get", "serviceaccounts"], |it| it.contains("default"));
    plane.run(&["create", "-f", &plane.file("node.json", NODE)]);
    plane.run(&["taint", "node", "lonely", "node.kubernetes.io/not-ready-"]);
    plane.run(&["create", "deployment", "web", "--image=xebec.local/toolbox", "--replicas=2"]);
    let nodes = "jsonpath={.items[*].spec.nodeName}";
    plane.until(&["get", "pods", "-o", nodes], |it| it == "lonely lonely");
    let components =
        [("kube-controller-manager", &mut controllers), ("kube-scheduler", &mut scheduler)];
    for (lease, component) in components {
        plane.until_led(lease, "");
        component.stop();
        assert_eq!(plane.holder(lease), "", "{lease}: the next one need not wait");
    }
}

/// As other servers over the same store tell who is alive.
#[test]
fn a_server_says_that_it_lives_and_where() {
    let Some(plane) = ControlPlane::start() else { return };
    let selected = ["-l", "apiserver.kubernetes.io/identity=kube-apiserver", "-n", "kube-system"];
    let name = [&["get", "leases"], &selected[..], &["-o", "name"]].concat();
    let name = plane.until(&name, |it| it.starts_with("lease.coordination.k8s.io/apiserver-"));
    assert_eq!(name.lines().count(), 1, "{name}");
    let host = r"jsonpath={.items[0].metadata.labels.kubernetes\.io/hostname}";
    let host = plane.run(&[&["get", "leases"], &selected[..], &["-o", host]].concat());
    assert!(!host.is_empty());
}
