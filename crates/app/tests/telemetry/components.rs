//! Health and metrics of the controller manager and the scheduler that run alone.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::cluster::Cluster;
use super::page::Page;
use super::process::{Process, get};

fn component(cluster: &Cluster, name: &str, flags: &[&str], metric: &str) {
    let port = test_ports::reserve().to_string();
    let log = cluster.path(&format!("{name}.log"));
    let child = Command::new(env!("CARGO_BIN_EXE_xebec"))
        .args([name, "--leader-elect=false", "--bind-address=127.0.0.1", "--secure-port", &port])
        .args(flags)
        .arg("--kubeconfig")
        .arg(cluster.path("data/kubeconfig"))
        .stdout(Stdio::null())
        .stderr(File::create(&log).unwrap())
        .spawn();
    let _process = Process(child.unwrap());
    let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    let is_up = (0..300).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        get(&port, "/healthz", &[]).1 == "ok"
    });
    assert!(is_up, "{name}: {}", read(&log));
    let (code, said) = get(&port, "/metrics", &[]);
    assert_eq!((code.as_str(), said.contains("system:anonymous")), ("403", true), "{said}");
    assert_eq!(get(&port, "/metrics", &["-H", "Authorization: Bearer none"]).0, "401");
    let token = cluster.ok(&["create", "token", "reader"]);
    let bearer = format!("Authorization: Bearer {}", token.trim());
    assert_eq!(get(&port, "/metrics", &["-H", &bearer]).0, "200");
    let pki = |file: &str| cluster.path("data/pki").join(file).display().to_string();
    let (cert, key) = (pki("admin.crt"), pki("admin.key"));
    let is_counted = (0..300).any(|_| {
        let (code, page) = get(&port, "/metrics", &["--cert", &cert, "--key", &key]);
        assert_eq!(code, "200", "{page}");
        let page = Page::parse(&page);
        assert!(!page.has("apiserver_request_total"));
        std::thread::sleep(Duration::from_millis(100));
        page.has(metric) && page.has("rest_client_requests_total") && page.has("process_open_fds")
    });
    assert!(is_counted, "{name} never had {metric}: {}", read(&log));
    let (code, page) = get(&port, "/metrics/slis", &["--cert", &cert, "--key", &key]);
    assert_eq!(code, "200", "{page}");
    let page = Page::parse(&page);
    assert!(page.has("kubernetes_healthcheck") && page.has("kubernetes_healthchecks_total"));
    assert!(!page.has(metric), "only what was found of health");
}

#[test]
fn components_that_run_alone_show_their_own_metrics_to_those_who_may() {
    let Some(cluster) = Cluster::start(0) else { return };
    cluster.ok(&["create", "serviceaccount", "reader"]);
    let role = ["create", "clusterrolebinding", "reader", "--clusterrole=system:monitoring"];
    cluster.ok(&[&role[..], &["--serviceaccount=default:reader"]].concat());
    component(&cluster, "controller-manager", &[], "workqueue_adds_total");
    let protobuf = "--kube-api-content-type=application/vnd.kubernetes.protobuf";
    let flags = [protobuf, "--kube-api-qps=-1", "--controller-start-interval=10ms"];
    component(&cluster, "controller-manager", &flags, "running_managed_controllers");
    component(&cluster, "scheduler", &[], "scheduler_pending_pods");
}
