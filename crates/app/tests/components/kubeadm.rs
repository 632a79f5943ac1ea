//! The commands that kubeadm v1.36 writes into the manifests of static pods, word by word: only the
//! port is another, since tests share a machine.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::control_plane::{Component, ControlPlane};
use crate::process::get;

/// `kubeadm init --pod-network-cidr=10.244.0.0/16`; `ETC` is /etc/kubernetes.
const CONTROLLER_MANAGER: &str = "\
kube-controller-manager
--allocate-node-cidrs=true
--authentication-kubeconfig=ETC/controller-manager.conf
--authorization-kubeconfig=ETC/controller-manager.conf
--bind-address=127.0.0.1
--client-ca-file=ETC/pki/ca.crt
--cluster-cidr=10.244.0.0/16
--cluster-name=kubernetes
--cluster-signing-cert-file=ETC/pki/ca.crt
--cluster-signing-key-file=ETC/pki/ca.key
--controllers=*,bootstrapsigner,tokencleaner
--kubeconfig=ETC/controller-manager.conf
--leader-elect=true
--requestheader-client-ca-file=ETC/pki/front-proxy-ca.crt
--root-ca-file=ETC/pki/ca.crt
--service-account-private-key-file=ETC/pki/sa.key
--service-cluster-ip-range=10.96.0.0/12
--use-service-account-credentials=true";

const SCHEDULER: &str = "\
kube-scheduler
--authentication-kubeconfig=ETC/scheduler.conf
--authorization-kubeconfig=ETC/scheduler.conf
--bind-address=127.0.0.1
--kubeconfig=ETC/scheduler.conf
--leader-elect=true";

/// Where kubeadm keeps things.
fn etc(plane: &ControlPlane) -> PathBuf {
    let etc = plane.path("etc");
    std::fs::create_dir_all(etc.join("pki")).unwrap();
    for (ours, theirs) in [
        ("controller-manager.kubeconfig", "controller-manager.conf"),
        ("scheduler.kubeconfig", "scheduler.conf"),
        ("pki/ca.crt", "pki/ca.crt"),
        ("pki/ca.key", "pki/ca.key"),
        ("pki/front-proxy-ca.crt", "pki/front-proxy-ca.crt"),
        ("pki/service-account.key", "pki/sa.key"),
    ] {
        plane.until_said(
            || std::path::Path::new(&plane.data(ours)).exists().to_string(),
            |it| it == "true",
        );
        std::fs::copy(plane.data(ours), etc.join(theirs)).unwrap();
    }
    etc
}

/// Starts a command, by the name of upstream's program, and returns its port.
fn start(plane: &ControlPlane, command: &str) -> (Component, String) {
    let (etc, port) = (etc(plane).display().to_string(), test_ports::reserve().to_string());
    let words: Vec<String> = command.lines().map(|it| it.replace("ETC", &etc)).collect();
    let program = plane.path(&words[0]);
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_xebec"), &program).unwrap();
    let port_flag = format!("--secure-port={port}");
    let flags: Vec<&str> = words[1..].iter().map(String::as_str).chain([&*port_flag]).collect();
    let component = plane.spawn_as(&program, &words[0], &flags);
    (component, port)
}

#[test]
fn kubeadms_controller_manager_runs() {
    let Some(plane) = ControlPlane::start() else { return };
    let (mut manager, port) = start(&plane, CONTROLLER_MANAGER);
    // Its liveness probe.
    plane.until_said(|| get(&port, "/healthz", &[]).1, |it| it == "ok");
    plane.until_led("kube-controller-manager", "");
    plane.until(&["get", "serviceaccounts"], |it| it.contains("default"));
    let node = r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"a"}}"#;
    plane.run(&["create", "-f", &plane.file("node.json", node)]);
    let range = ["get", "node", "a", "-o", "jsonpath={.spec.podCIDR}"];
    plane.until(&range, |it| it.starts_with("10.244."));

    let (cert, key) = (plane.data("pki/admin.crt"), plane.data("pki/admin.key"));
    let (code, page) = get(&port, "/configz", &["--cert", &cert, "--key", &key]);
    assert_eq!(code, "200", "{page}");
    let config: Value = serde_json::from_str(&page).unwrap();
    let config = &config["kubecontrollermanager.config.k8s.io"];
    for (pointer, expected) in [
        ("/kind", json!("KubeControllerManagerConfiguration")),
        ("/apiVersion", json!("kubecontrollermanager.config.k8s.io/v1alpha1")),
        ("/Generic/Controllers", json!(["*", "bootstrapsigner", "tokencleaner"])),
        ("/Generic/LeaderElection/leaderElect", json!(true)),
        ("/Generic/LeaderElection/leaseDuration", json!("15s")),
        ("/Generic/ClientConnection/qps", json!(20)),
        ("/Generic/Debugging/enableProfiling", json!(false)),
        ("/KubeCloudShared/ClusterCIDR", json!("10.244.0.0/16")),
        ("/KubeCloudShared/AllocateNodeCIDRs", json!(true)),
        ("/NamespaceController/NamespaceSyncPeriod", json!("5m0s")),
        ("/EphemeralVolumeController/ConcurrentEphemeralVolumeSyncs", json!(5)),
        ("/HPAController/HorizontalPodAutoscalerTolerance", json!(0.1)),
    ] {
        assert_eq!(config.pointer(pointer), Some(&expected), "{pointer}: {config}");
    }
    manager.stop();
}

#[test]
fn kubeadms_scheduler_runs() {
    let Some(plane) = ControlPlane::start() else { return };
    let (mut scheduler, port) = start(&plane, SCHEDULER);
    for probe in ["/livez", "/readyz"] {
        plane.until_said(|| get(&port, probe, &[]).1, |it| it == "ok");
    }
    plane.until_led("kube-scheduler", "");
    let (cert, key) = (plane.data("pki/admin.crt"), plane.data("pki/admin.key"));
    let (code, page) = get(&port, "/configz", &["--cert", &cert, "--key", &key]);
    assert_eq!(code, "200", "{page}");
    let config: Value = serde_json::from_str(&page).unwrap();
    assert_eq!(config["componentconfig"]["kind"], "KubeSchedulerConfiguration");
    assert_eq!(config["componentconfig"]["leaderElection"]["leaderElect"], true);
    scheduler.stop();
}
