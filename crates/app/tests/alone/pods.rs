//! Pods of a node that runs alone: from no network to an answer on a Service, through restarts, and
//! away.

use crate::cluster::{deployment, pod};
use crate::worker::{NAME, PODS, Worker};

const IDS: &str = "jsonpath={.items[*].status.containerStatuses[*].containerID}";
const RESTARTS: &str = "jsonpath={.items[*].status.containerStatuses[*].restartCount}";

#[test]
fn pods_run_on_another_machine_and_answer_on_their_service() {
    let Some(worker) = Worker::start() else { return };
    let cluster = &worker.cluster;
    cluster.apply("web.yaml", &deployment("web", 2, ""));
    cluster.wait_ready("app=web", 2);
    let nodes = "jsonpath={.items[*].spec.nodeName}";
    assert_eq!(cluster.ok(&["get", "pods", "-o", nodes]), format!("{NAME} {NAME}"));
    let addresses = cluster.ok(&["get", "pods", "-o", "jsonpath={.items[*].status.podIP}"]);
    assert!(addresses.split(' ').all(|it| it.starts_with("10.244.7.")), "{addresses}");

    // From the control plane's machine, through the API server, to the kubelet's.
    assert!(cluster.ok(&["exec", "deploy/web", "--", "echo", "here"]).contains("here"));
    cluster.until(&["logs", "deploy/web"], |it| !it.is_empty());

    cluster.ok(&["expose", "deploy", "web", "--port=80", "--target-port=8080"]);
    let address = cluster.field(&["service", "web"], ".spec.clusterIP");
    cluster.until(&["get", "endpointslices", "-o", "yaml"], |it| {
        it.matches("ready: true").count() >= 2
    });
    let names = cluster.ok(&["get", "pods", "-o", "jsonpath={.items[*].metadata.name}"]);
    let answer = worker.cluster.host.on_neighbor(&[
        "curl",
        "-sS",
        "--retry",
        "50",
        "--retry-delay",
        "1",
        "--retry-all-errors",
        &format!("http://{address}/"),
    ]);
    assert!(names.split(' ').any(|it| answer.trim() == it), "{answer:?} is none of {names}");

    assert_eq!(worker.curl("http://127.0.0.1:10248/healthz"), "ok");
    assert!(worker.curl("http://127.0.0.1:10256/healthz").contains("\"nodeEligible\": true"));
    assert_eq!(worker.curl("http://127.0.0.1:10249/proxyMode"), "nftables");
    assert!(worker.curl("http://127.0.0.1:10249/metrics").contains("rest_client_requests_total"));
}

#[test]
fn a_node_without_addresses_for_pods_is_not_ready_until_it_gets_some() {
    let Some(mut worker) = Worker::enroll_with(&["--allocate-node-cidrs=false"]) else { return };
    worker.start_kubelet(&[
        "--node-labels",
        "disk=fast",
        "--register-with-taints",
        "a=b:NoSchedule",
    ]);
    worker.start_proxy(&["--detect-local-mode", "NodeCIDR"]);
    let why = worker.wait_condition(".message", |it| it.contains("NetworkPluginNotReady"));
    assert_eq!(
        why,
        "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:no addresses for \
         pods yet: the Node has no spec.podCIDRs, and no --pod-cidr was given"
    );
    let cluster = &worker.cluster;
    let node = cluster.json(&["get", "node", NAME]);
    assert_eq!(node["metadata"]["labels"]["disk"], "fast");
    let taints = node["spec"]["taints"].as_array().unwrap();
    assert!(taints.iter().any(|it| it["key"] == "a" && it["effect"] == "NoSchedule"), "{taints:?}");

    let range = format!(r#"{{"spec":{{"podCIDR":"{PODS}","podCIDRs":["{PODS}"]}}}}"#);
    cluster.ok(&["patch", "node", NAME, "-p", &range]);
    worker.wait_ready();
    cluster.ok(&["taint", "node", NAME, "a-"]);
    cluster.apply("web.yaml", &pod("web", "[http]", ""));
    cluster.wait_ready("app=web", 1);
    assert!(cluster.field(&["pod", "web"], ".status.podIP").starts_with("10.244.7."));
}

#[test]
fn a_killed_kubelet_and_a_killed_proxy_find_everything_again() {
    let Some(mut worker) = Worker::start() else { return };
    worker.cluster.apply("web.yaml", &pod("web", "[http]", ""));
    worker.cluster.wait_ready("app=web", 1);
    worker.cluster.ok(&["expose", "pod", "web", "--port=80", "--target-port=8080"]);
    let address = worker.cluster.field(&["service", "web"], ".spec.clusterIP");
    let url = format!("http://{address}/");
    let slices = ["get", "endpointslices", "-o", "yaml"];
    worker.cluster.until(&slices, |it| it.contains("ready: true"));
    let wait = ["curl", "-sS", "--retry", "50", "--retry-delay", "1", "--retry-all-errors", &url];
    worker.cluster.host.on_neighbor(&wait);
    let before = worker.cluster.ok(&["get", "pods", "-o", IDS]);
    for _ in 0..2 {
        worker.kill_kubelet();
        worker.kill_proxy();
        assert_eq!(worker.curl(&url).trim(), "web", "while both are dead");
        // Without --pod-cidr: the node remembers.
        worker.start_kubelet(&[]);
        worker.start_proxy(&["--cluster-cidr", "10.244.0.0/16"]);
        assert!(worker.cluster.ok(&["exec", "web", "--", "echo", "here"]).contains("here"));
        assert_eq!(worker.curl(&url).trim(), "web");
    }
    assert_eq!(worker.cluster.ok(&["get", "pods", "-o", IDS]), before);
    assert_eq!(worker.cluster.ok(&["get", "pods", "-o", RESTARTS]), "0");
}

#[test]
fn cleaning_up_leaves_nothing() {
    let Some(mut worker) = Worker::enroll() else { return };
    let before = traces(&worker);
    worker.start_kubelet(&["--pod-cidr", PODS]);
    worker.start_proxy(&["--cluster-cidr", "10.244.0.0/16"]);
    worker.wait_ready();
    let volume = "    volumeMounts: [{name: v, mountPath: /v}]\n  volumes: [{name: v, emptyDir: {medium: Memory}}]";
    worker.cluster.apply("web.yaml", &pod("web", "[http]", volume));
    worker.cluster.wait_ready("app=web", 1);
    assert_ne!(traces(&worker), before);
    for ran in worker.clean_up() {
        assert!(ran.is_ok, "{}{}", ran.stdout, ran.stderr);
    }
    assert_eq!(traces(&worker), before);
    assert!(!worker.root().join("xebec").exists());
}

/// Of the node, in the kernel and among processes.
fn traces(worker: &Worker) -> Vec<String> {
    let host = &worker.cluster.host;
    let rules = host.on_neighbor(&["nft", "list", "ruleset"]);
    let links = host.on_neighbor(&["ip", "-o", "link"]);
    let links = links.lines().filter_map(|it| it.split(':').nth(1)).collect::<Vec<_>>().join(" ");
    let root = worker.root().display().to_string();
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
    let mounts = mounts.lines().filter(|it| it.contains(&root)).collect::<Vec<_>>().join("\n");
    let of_node =
        |it: &String| it.starts_with("cgroup") || it.contains("holder") && it.contains(&root);
    let others = host.traces(&worker.root()).into_iter().filter(of_node);
    [rules, links, mounts].into_iter().chain(others).collect()
}
