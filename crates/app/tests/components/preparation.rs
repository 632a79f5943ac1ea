//! What happens between being chosen and working.

use crate::control_plane::ControlPlane;
use crate::process::get;

/// May stand for election, and nothing else.
const WEAK: &str = r#"
apiVersion: v1
kind: ServiceAccount
metadata: {name: weak, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: weak, namespace: kube-system}
rules:
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: weak, namespace: kube-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: weak}
subjects:
- {kind: ServiceAccount, name: weak, namespace: default}
"#;

fn kubeconfig(plane: &ControlPlane, account: &str) -> String {
    let file = plane.path("weak.kubeconfig").display().to_string();
    let config = |words: &[&str]| plane.run(&[&["config", "--kubeconfig", &file], words].concat());
    let ca = format!("--certificate-authority={}", plane.data("pki/ca.crt"));
    config(&["set-cluster", "it", &format!("--server={}", plane.url()), &ca]);
    let token = plane.run(&["create", "token", account]);
    config(&["set-credentials", "it", &format!("--token={}", token.trim())]);
    config(&["set-context", "it", "--cluster=it", "--user=it"]);
    config(&["use-context", "it"]);
    file
}

#[test]
fn controllers_that_cannot_start_are_seen_and_tried_again() {
    let Some(plane) = ControlPlane::start() else { return };
    plane.run(&["apply", "-f", &plane.file("weak.yaml", WEAK)]);
    let (port, kubeconfig) = (test_ports::reserve().to_string(), kubeconfig(&plane, "weak"));
    let mut manager = plane.spawn(
        "controller-manager",
        &[
            "--kubeconfig",
            &kubeconfig,
            "--bind-address=127.0.0.1",
            "--secure-port",
            &port,
            // It may not read whom to believe, either.
            "--authentication-tolerate-lookup-failure",
        ],
    );
    let healthz = || get(&port, "/healthz", &[]).1;
    let said = plane.until_said(healthz, |it| it.contains("failed"));
    assert!(said.contains("[-]controllers failed: reason withheld"), "{said}");
    plane.until_led("kube-controller-manager", "");
    let log = manager.log();
    assert!(log.contains("the controllers did not start; trying again"), "{log}");
    assert!(log.contains("making the service account"), "{log}");
    plane.run(&[
        "create",
        "clusterrolebinding",
        "strong",
        "--clusterrole=cluster-admin",
        "--serviceaccount=default:weak",
    ]);
    plane.until_said(healthz, |it| it == "ok");
    plane.until(&["get", "serviceaccounts"], |it| it.contains("default"));
    manager.stop();
}

/// Nobody else could do better, and waiting does not help.
#[test]
fn a_controller_that_the_server_has_nothing_for_ends_the_process() {
    let Some(plane) = ControlPlane::start() else { return };
    let kubeconfig = plane.data("controller-manager.kubeconfig");
    let mut manager = plane.spawn(
        "controller-manager",
        &[
            "--kubeconfig",
            &kubeconfig,
            "--secure-port=0",
            "--feature-gates=StorageVersionAPI=true",
            "--controllers=*,storage-version-gc",
        ],
    );
    assert_eq!(manager.end(), Some(1), "{}", manager.log());
    let log = manager.log();
    let expected = "error: --controllers: \"storageversion-garbage-collector-controller\" cannot";
    assert!(log.contains(expected), "{log}");
    let lease = "kube-controller-manager";
    assert_eq!(plane.holder(lease), "", "the next one need not wait");
}
