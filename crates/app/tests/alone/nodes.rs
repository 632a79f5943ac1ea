//! Two nodes, each with a kubelet, a proxy and a pod network of its own, on machines of their own.

use crate::cluster::Cluster;
use crate::worker::{NAME, NAME_SECOND, Worker};

/// A pod that answers with its name, where it is told to be.
fn apply(cluster: &Cluster, name: &str, node: &str) {
    let manifest = format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, labels: {{app: web}}}}, \
         spec: {{nodeName: {node}, terminationGracePeriodSeconds: 0, containers: [\
         {{name: main, image: xebec.local/toolbox, args: [http]}}]}}}}"
    );
    cluster.apply(&format!("{name}.yaml"), &manifest);
}

fn address(cluster: &Cluster, pod: &str) -> String {
    cluster.field(&["pod", pod], ".status.podIP")
}

#[test]
fn pods_of_two_nodes_reach_each_other_and_both_answer_on_a_service() {
    let Some(first) = Worker::start() else { return };
    let mut second = first.start_second();
    let cluster = &first.cluster;
    apply(cluster, "on-b", NAME);
    apply(cluster, "on-c", NAME_SECOND);
    cluster.wait_ready("app=web", 2);
    let (on_b, on_c) = (address(cluster, "on-b"), address(cluster, "on-c"));
    assert!(on_b.starts_with("10.244.7."), "{on_b}");
    assert!(on_c.starts_with("10.244.8."), "{on_c}");

    // By their own addresses: nobody masquerades between pods.
    for (from, to, name) in [("on-b", &on_c, "on-c"), ("on-c", &on_b, "on-b")] {
        let seen = cluster.exec(from, &["get", &format!("http://{to}:8080/")]);
        assert_eq!(seen.trim(), name, "from {from}");
    }

    // Each node's own rules lead to the pods of both.
    cluster.ok(&["expose", "pod", "on-b", "--name=web", "--port=80", "--target-port=8080"]);
    let url = format!("http://{}/", cluster.field(&["service", "web"], ".spec.clusterIP"));
    for worker in [&first, &second] {
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..200 {
            let asked = worker.command("curl").args(["-sS", "--max-time", "5", &url]).output();
            let asked = asked.unwrap();
            if asked.status.success() {
                seen.insert(String::from_utf8_lossy(&asked.stdout).trim().to_owned());
            }
            if seen.len() == 2 {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        let seen: Vec<_> = seen.iter().map(String::as_str).collect();
        assert_eq!(seen, ["on-b", "on-c"], "{}", cluster.state());
    }

    // What happens to one machine's parts is no matter of the other's.
    second.kill_kubelet();
    second.kill_proxy();
    let seen = cluster.exec("on-b", &["get", &format!("http://{on_c}:8080/")]);
    assert_eq!(seen.trim(), "on-c", "while its kubelet is dead");
    second.start_kubelet(&[]);
    second.start_proxy(&["--cluster-cidr", "10.244.0.0/16"]);
    assert!(cluster.exec("on-c", &["echo", "here"]).contains("here"));
}
