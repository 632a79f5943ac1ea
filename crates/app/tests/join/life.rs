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
fn pods_of_both_nodes_reach_each_other_and_policies_hold_on_both() {
    let Some(machine) = Machine::start() else { return };
    let cluster = &machine.cluster;
    machine.run_pod("there");
    machine.run_pod_on("node-a", "here");
    let address = |pod: &str| cluster.field(&["pod", pod], ".status.podIP");
    let asked = |from: &str, to: &str| {
        let url = format!("http://{}:8080/", address(to));
        cluster.run(&["exec", from, "--", "get", "--timeout", "1", &url]).is_ok
    };
    let until = |from: &str, to: &str, expected: bool| {
        let is_so = (0..100).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(100));
            asked(from, to) == expected
        });
        assert!(is_so, "{from} to {to} should be {expected}: {}", cluster.state());
    };
    until("here", "there", true);
    until("there", "here", true);
    for pod in ["here", "there"] {
        let policy = format!(
            "{{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {{name: {pod}}}, \
             spec: {{podSelector: {{matchLabels: {{app: {pod}}}}}}}}}"
        );
        cluster.apply("policy.yaml", &policy);
    }
    until("here", "there", false);
    until("there", "here", false);
    cluster.ok(&["delete", "networkpolicy", "there"]);
    until("here", "there", true);
}

/// Of the kubelet as client and as server, and of what runs beside it.
const CERTIFICATES: [&str; 5] =
    ["kubelet-client", "kubelet", "kube-proxy", "coredns", "xebec-network"];

#[test]
fn all_certificates_are_renewed_while_the_node_runs() {
    let Some(mut machine) = Machine::beside(&["--cluster-signing-duration", "30s"]) else {
        return;
    };
    let target = machine.target();
    machine.join(&[&target]);
    machine.run_pod("web");
    let read = |name: &str| {
        std::fs::read_to_string(machine.data().join(format!("pki/{name}.crt"))).unwrap()
    };
    // Those that it came with have ended when there was one more after the next.
    for _ in 0..2 {
        let before = CERTIFICATES.map(read);
        let is_renewed = (0..600).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(100));
            CERTIFICATES.iter().zip(&before).all(|(name, before)| read(name) != *before)
        });
        assert!(is_renewed, "{}", machine.log());
    }
    // The kubelet is a client and is called; what came since then has reached the others.
    logs_and_commands_work(&machine, "web");
    machine.run_pod("late");
    logs_and_commands_work(&machine, "late");
    let service = "{apiVersion: v1, kind: Service, metadata: {name: late}, \
                   spec: {selector: {app: late}, ports: [{port: 80, targetPort: 8080}]}}";
    machine.cluster.apply("service.yaml", service);
    let until = |expected: bool| {
        let words = ["exec", "web", "--", "get", "--timeout", "1", "http://late/"];
        let is_so = (0..200).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(100));
            machine.cluster.run(&words).is_ok == expected
        });
        assert!(is_so, "{expected}: {}{}", machine.cluster.state(), machine.log());
    };
    until(true);
    let policy = "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: late}, \
                  spec: {podSelector: {matchLabels: {app: late}}}}";
    machine.cluster.apply("policy.yaml", policy);
    until(false);
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
