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

fn serve_friend_and_stranger(cluster: &Cluster) {
    cluster.apply("web.yaml", &deployment("web", 1, ""));
    cluster.ok(&["expose", "deploy", "web", "--port=80", "--target-port=8080"]);
    for name in ["friend", "stranger"] {
        cluster.apply(&format!("{name}.yaml"), &pod(name, "[sleep]", ""));
        cluster.wait_ready(&format!("app={name}"), 1);
    }
    cluster.wait_served("web", 1);
}

#[test]
fn policies_hold_from_the_first_packet_and_are_explained() {
    let Some(mut cluster) = Cluster::start() else { return };
    serve_friend_and_stranger(&cluster);
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

/// As much of the kind as is read.
const DEFINITION: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: clusternetworkpolicies.policy.networking.k8s.io
  annotations: {api-approved.kubernetes.io: "unapproved, for tests"}
spec:
  group: policy.networking.k8s.io
  scope: Cluster
  names: {kind: ClusterNetworkPolicy, plural: clusternetworkpolicies, shortNames: [cnp]}
  versions:
  - name: v1alpha2
    served: true
    storage: true
    schema:
      openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
"#;

const CLUSTER_POLICY: &str = "
apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata: {name: keep-out}
spec:
  tier: Admin
  priority: 10
  subject: {namespaces: {matchLabels: {kubernetes.io/metadata.name: default}}}
  ingress:
  - action: Deny
    from: [{pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: stranger}}}}]
";

#[test]
fn policies_of_the_cluster_hold_while_their_kind_is_there() {
    let Some(cluster) = Cluster::start() else { return };
    serve_friend_and_stranger(&cluster);
    until(&cluster, "stranger", true);
    cluster.apply("definition.yaml", DEFINITION);
    cluster.ok(&[
        "wait",
        "--for=condition=Established",
        "crd/clusternetworkpolicies.policy.networking.k8s.io",
    ]);
    cluster.apply("keep-out.yaml", CLUSTER_POLICY);
    until(&cluster, "stranger", false);
    assert!(get(&cluster, "friend"));
    // No NetworkPolicy lets in whom the cluster keeps out.
    cluster.apply("allow.yaml", ALLOW);
    until(&cluster, "friend", true);
    assert!(!get(&cluster, "stranger"));
    let asked = ["get", "pods", "-l", "app=web", "-o", "jsonpath={.items[0].metadata.name}"];
    let web = cluster.ok(&asked);
    let mut command = cluster.host.command(env!("CARGO_BIN_EXE_xebec"));
    command.args(["netpol", "why", "stranger", &format!("{web}:8080"), "--kubeconfig"]);
    let why = ran(command.arg(cluster.path("data/kubeconfig")).output().unwrap());
    let expected = "ingress: denied by ClusterNetworkPolicy keep-out, spec.ingress[0]";
    assert!(!why.is_ok && why.stdout.contains(expected), "{}", why.stdout);
    cluster.ok(&["delete", "networkpolicy", "--all"]);
    cluster.ok(&["delete", "crd", "clusternetworkpolicies.policy.networking.k8s.io"]);
    until(&cluster, "stranger", true);
}
