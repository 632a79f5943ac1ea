//! Who a node is, and what it may do: with the certificate that was made for it, and with that of
//! nobody.

use crate::host::NEIGHBOR;
use crate::worker::{NAME, Worker};

#[test]
fn a_nodes_certificate_is_good_for_its_own_node_alone() {
    let Some(worker) = Worker::start() else { return };
    let cluster = &worker.cluster;
    let kubeconfig = worker.file("kubelet.kubeconfig");
    let as_node = |words: &[&str]| {
        let ran = cluster.run(&[&["--kubeconfig", &kubeconfig], words].concat());
        ran.stdout + &ran.stderr
    };
    let name = as_node(&["auth", "whoami", "-o", "jsonpath={.status.userInfo.username}"]);
    assert_eq!(name, format!("system:node:{NAME}"));
    cluster.ok(&["create", "secret", "generic", "other", "--from-literal=a=b"]);
    let no = as_node(&["get", "secret", "other"]);
    assert!(no.contains("no relationship found between node 'node-b' and this object"), "{no}");
    let no = as_node(&["create", "-f", &cluster.file("node.json", OTHER_NODE)]);
    assert!(no.contains("is not allowed to modify node \"node-c\""), "{no}");
    let no = as_node(&["label", "node", NAME, "node-restriction.kubernetes.io/a=b"]);
    assert!(no.contains("is not allowed to modify labels"), "{no}");

    // Upstream's kubelet does this at its start, and ends if it cannot.
    let made = as_node(&["create", "-f", &cluster.file("own.json", &csi_node(NAME))]);
    assert!(made.contains("csinode.storage.k8s.io/node-b created"), "{made}");
    let no = as_node(&["create", "-f", &cluster.file("other.json", &csi_node("node-c"))]);
    assert!(no.contains("can only access CSINode with the same name"), "{no}");

    let proxy = worker.file("proxy.kubeconfig");
    let ran = cluster.run(&["--kubeconfig", &proxy, "get", "pods"]);
    assert!(ran.stderr.contains("User \"system:kube-proxy\" cannot list"), "{}", ran.stderr);
}

fn csi_node(name: &str) -> String {
    format!(
        r#"{{"apiVersion":"storage.k8s.io/v1","kind":"CSINode","metadata":{{"name":"{name}"}},"spec":{{"drivers":[]}}}}"#
    )
}

const OTHER_NODE: &str = r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"node-c"}}"#;

#[test]
fn the_kubelet_lets_in_who_proves_to_be_somebody_that_may() {
    let Some(worker) = Worker::start() else { return };
    let url = format!("https://{NEIGHBOR}:10250/pods");
    let ca = worker.file("ca.crt");
    let host = &worker.cluster.host;
    let curl = |more: &[&str]| {
        let words = ["curl", "-sS", "--max-time", "10", "--cacert", &ca, "-w", " %{http_code}"];
        host.on_node(&[&words[..], more, &[&url]].concat())
    };
    assert_eq!(curl(&[]), "Unauthorized 401");
    assert_eq!(curl(&["-H", "Authorization: Bearer nonsense"]), "Unauthorized 401");
    worker.cluster.ok(&["create", "serviceaccount", "robot"]);
    let token = worker.cluster.ok(&["create", "token", "robot"]);
    let bearer = format!("Authorization: Bearer {}", token.trim());
    let no = curl(&["-H", &bearer]);
    assert!(no.starts_with("Forbidden (user=system:serviceaccount:default:robot,"), "{no}");
    worker.cluster.ok(&[
        "create",
        "clusterrolebinding",
        "robot",
        "--clusterrole=system:kubelet-api-admin",
        "--serviceaccount=default:robot",
    ]);
    worker.cluster.ok(&["create", "serviceaccount", "robot-2"]);
    worker.cluster.ok(&[
        "create",
        "clusterrolebinding",
        "robot-2",
        "--clusterrole=system:kubelet-api-admin",
        "--serviceaccount=default:robot-2",
    ]);
    // What was said of the first one is remembered for a while.
    let token = worker.cluster.ok(&["create", "token", "robot-2"]);
    let yes = curl(&["-H", &format!("Authorization: Bearer {}", token.trim())]);
    assert!(yes.starts_with(r#"{"kind":"PodList""#), "{yes}");
}

/// Without files to serve with it makes a certificate of its own, as upstream's does. Our API
/// server trusts the cluster's authority alone.
#[test]
fn a_certificate_that_nobody_signed_is_shown_but_not_believed() {
    let Some(mut worker) = Worker::enroll() else { return };
    let configuration = std::fs::read_to_string(worker.file("kubelet.yaml")).unwrap();
    let kept: Vec<&str> = configuration.lines().filter(|it| !it.starts_with("tls")).collect();
    std::fs::write(worker.file("kubelet.yaml"), kept.join("\n")).unwrap();
    worker.start_kubelet(&["--pod-cidr", crate::worker::PODS]);
    worker.wait_ready();
    let certificate = worker.root().join("pki/kubelet.crt");
    let first = std::fs::read(&certificate).unwrap();
    worker.cluster.apply("web.yaml", &crate::cluster::pod("web", "[http]", ""));
    worker.cluster.wait_ready("app=web", 1);
    let no = worker.cluster.refused(&["exec", "web", "--", "true"]);
    assert!(no.contains("invalid peer certificate: UnknownIssuer"), "{no}");
    worker.kill_kubelet();
    worker.start_kubelet(&[]);
    assert_eq!(std::fs::read(&certificate).unwrap(), first, "it is kept");
}
