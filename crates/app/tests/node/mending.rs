//! A network that somebody breaks under running pods: it is mended, and the API says so.

use crate::cluster::{Cluster, deployment};

/// A pod that answers, its name and its address.
fn start(cluster: &Cluster) -> (String, String) {
    cluster.apply("web.yaml", &deployment("web", 1, ""));
    cluster.wait_ready("app=web", 1);
    let fields = "jsonpath={.items[0].metadata.name} {.items[0].status.podIP}";
    let shown = cluster.ok(&["get", "pods", "-l", "app=web", "-o", fields]);
    let (name, address) = shown.split_once(' ').unwrap();
    (name.to_owned(), address.to_owned())
}

/// The host's end of the pod's link.
fn veth(cluster: &Cluster, address: &str) -> String {
    let route = cluster.host.on_node(&["ip", "route", "show", address]);
    let words: Vec<&str> = route.split_whitespace().collect();
    let place = words.iter().position(|it| *it == "dev").unwrap();
    words[place + 1].to_owned()
}

fn answers(cluster: &Cluster, address: &str) -> bool {
    let url = format!("http://{address}:8080/");
    let ask = cluster.host.command("curl").args(["-sS", "--max-time", "2", &url]).output().unwrap();
    ask.status.success()
}

fn until_it_answers(cluster: &Cluster, address: &str, what: &str) {
    let is_there = (0..200).any(|_| {
        let is_there = answers(cluster, address);
        if !is_there {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        is_there
    });
    assert!(is_there, "{what}: {address} does not answer\n{}", cluster.state());
}

/// Events about the pod's network, of which so many were told.
fn wait_for_events(cluster: &Cluster, pod: &str, reason: &str, count: u64) {
    let about = format!("involvedObject.name={pod},reason={reason}");
    let counts = "jsonpath={.items[*].count}{.items[*].series.count}";
    cluster.until(&["get", "events", "--field-selector", &about, "-o", counts], |it| {
        it.split_whitespace().filter_map(|it| it.parse::<u64>().ok()).sum::<u64>() >= count
    });
}

#[test]
fn a_pod_keeps_its_address_when_its_link_and_the_bridge_are_deleted() {
    let Some(cluster) = Cluster::start() else { return };
    let (pod, address) = start(&cluster);
    let link = veth(&cluster, &address);
    cluster.host.on_node(&["ip", "link", "del", &link]);
    until_it_answers(&cluster, &address, "no link");
    wait_for_events(&cluster, &pod, "NetworkNotReady", 1);
    wait_for_events(&cluster, &pod, "NetworkReady", 1);

    cluster.host.on_node(&["ip", "link", "del", "xebec0"]);
    until_it_answers(&cluster, &address, "no bridge");
    // Names are looked up on the gateway's address, which has come back.
    let name = cluster.exec(&pod, &["dns", "kubernetes.default.svc.cluster.local"]);
    assert!(name.contains("10.96.0.1"), "{name}");

    cluster.host.on_node(&["nft", "flush", "ruleset"]);
    cluster.ok(&["expose", "deploy", "web", "--port=80", "--target-port=8080"]);
    let service = cluster.field(&["service", "web"], ".spec.clusterIP");
    cluster.wait_served("web", 1);
    let url = format!("http://{service}/");
    let seen = cluster.exec(&pod, &["get", &url]);
    assert_eq!(seen.trim(), pod);
    assert_eq!(cluster.field(&["pod", &pod], ".status.podIP"), address);
    assert_eq!(cluster.field(&["pod", &pod], ".status.containerStatuses[0].restartCount"), "0");
}

#[test]
fn the_node_is_not_ready_while_the_network_cannot_be_mended() {
    let Some(cluster) = Cluster::start() else { return };
    let (_pod, address) = start(&cluster);
    // A link that is none of ours takes the name, before ours is back or after it was taken away
    // again. Bounded by the kernel: one of the two always succeeds.
    let replace = "ip link del xebec0; for i in $(seq 1000); do \
                   ip link add xebec0 type veth peer name stranger && exit 0; ip link del xebec0; done; exit 1";
    cluster.host.on_node(&["sh", "-c", replace]);
    let ready = "jsonpath={.status.conditions[?(@.type=='Ready')]}";
    // Whoever is about to make the bridge when the stranger comes finds the name taken first, and
    // what took it with the next look.
    let condition = cluster.until(&["get", "node", "node-a", "-o", ready], |it| {
        it.contains(r#""status":"False""#) && it.contains("xebec0 is there and is no bridge")
    });
    assert!(condition.contains(r#""reason":"KubeletNotReady""#), "{condition}");
    let words = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:";
    assert!(condition.contains(words), "{condition}");
    cluster.until(&["get", "nodes"], |it| it.contains("NotReady"));

    cluster.host.on_node(&["ip", "link", "del", "xebec0"]);
    cluster.until(&["get", "node", "node-a", "-o", ready], |it| it.contains(r#""status":"True""#));
    until_it_answers(&cluster, &address, "the bridge is back");
    cluster.wait_ready("app=web", 1);
    cluster.until(&["get", "events", "-A"], |it| {
        it.contains("Node node-a status is now: NodeNotReady")
            && it.contains("Node node-a status is now: NodeReady")
    });
}

#[test]
fn what_was_broken_while_nobody_looked_is_mended_at_the_next_start() {
    let Some(mut cluster) = Cluster::start() else { return };
    let (pod, address) = start(&cluster);
    let link = veth(&cluster, &address);
    cluster.kill();
    cluster.host.on_node(&["ip", "link", "del", &link]);
    cluster.host.on_node(&["ip", "link", "del", "xebec0"]);
    cluster.host.on_node(&["nft", "flush", "ruleset"]);
    assert!(!answers(&cluster, &address));
    cluster.up();
    until_it_answers(&cluster, &address, "after the start");
    wait_for_events(&cluster, &pod, "NetworkReady", 1);
    assert_eq!(cluster.field(&["pod", &pod], ".status.containerStatuses[0].restartCount"), "0");
    cluster.wait_ready("app=web", 1);
}
