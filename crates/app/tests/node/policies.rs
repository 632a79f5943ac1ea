//! Network policies of a real cluster: written by kubectl, held by the kernel, explained by
//! `xebec netpol why`.

use crate::cluster::{Cluster, deployment, pod, ran};

const DENY: &str = "
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: deny}
spec: {podSelector: {}, policyTypes: [Ingress, Egress]}
";

/// From friends, by the Service; and names may be asked for.
const ALLOW: &str = "
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: friends}
spec:
  podSelector: {matchLabels: {app: web}}
  ingress: [{from: [{podSelector: {matchLabels: {app: friend}}}], ports: [{port: 8080}]}]
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: friends-out}
spec:
  podSelector: {matchLabels: {app: friend}}
  policyTypes: [Egress]
  egress:
  - to: [{podSelector: {matchLabels: {app: web}}}]
  - to:
    - namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: kube-system}}
      podSelector: {matchLabels: {k8s-app: kube-dns}}
";

fn get(cluster: &Cluster, from: &str) -> bool {
    let ask = ["exec", from, "--", "get", "--timeout", "1", "http://web/"];
    cluster.run(&ask).is_ok
}

fn until(cluster: &Cluster, from: &str, is_answered: bool) {
    let is_so = (0..20).any(|_| get(cluster, from) == is_answered);
    assert!(is_so, "{from} {} answered", if is_answered { "is not" } else { "is" });
}

#[test]
fn policies_hold_from_the_first_packet_and_are_explained() {
    let Some(mut cluster) = Cluster::start() else { return };
    cluster.apply("web.yaml", &deployment("web", 1, ""));
    cluster.ok(&["expose", "deploy", "web", "--port=80", "--target-port=8080"]);
    for name in ["friend", "stranger"] {
        cluster.apply(&format!("{name}.yaml"), &pod(name, "[sleep]", ""));
        cluster.wait_ready(&format!("app={name}"), 1);
    }
    cluster.wait_served("web", 1);
    until(&cluster, "stranger", true);

    let written = cluster.run(&["apply", "-f", &cluster.file("deny.yaml", DENY)]);
    assert!(written.is_ok && !written.stderr.contains("Warning"), "{}", written.stderr);
    until(&cluster, "stranger", false);
    until(&cluster, "friend", false);
    // Probes come from the node, and go on; a pod that comes now is closed from the beginning.
    cluster.apply("late.yaml", &pod("late", "[sleep]", ""));
    cluster.wait_ready("app=late", 1);
    assert!(!get(&cluster, "late"));
    cluster.wait_ready("app=web", 1);

    cluster.apply("allow.yaml", ALLOW);
    until(&cluster, "friend", true);
    assert!(!get(&cluster, "stranger"));
    let web =
        cluster.ok(&["get", "pods", "-l", "app=web", "-o", "jsonpath={.items[0].metadata.name}"]);
    let why = |from: &str| {
        let mut command = cluster.host.command(env!("CARGO_BIN_EXE_xebec"));
        command.args(["netpol", "why", from, &format!("{web}:8080"), "--kubeconfig"]);
        ran(command.arg(cluster.path("data/kubeconfig")).output().unwrap())
    };
    let friend = why("friend");
    assert!(friend.is_ok, "{}", friend.stderr);
    assert!(
        friend.stdout.contains("by NetworkPolicy default/friends, spec.ingress[0]"),
        "{}",
        friend.stdout
    );
    let stranger = why("stranger");
    assert!(!stranger.is_ok);
    assert!(
        stranger.stdout.contains("egress:  denied: isolated by default/deny"),
        "{}",
        stranger.stdout
    );

    cluster.ok(&["delete", "networkpolicy", "--all"]);
    until(&cluster, "stranger", true);
    cluster.ok(&["create", "-f", &cluster.file("again.yaml", DENY)]);
    until(&cluster, "stranger", false);
    // The kernel goes on while nobody is there, and the next start takes it over.
    cluster.kill();
    cluster.up();
    assert!(!get(&cluster, "stranger"));
}
