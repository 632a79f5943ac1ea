//! Clusters of IPv6 and of both families: pods, Services, names, node ports, host ports, the world.

use serde_json::json;

use crate::cluster::{Cluster, deployment};
use crate::host::{Host, NODE};

/// The same of IPv6 as [`NODE`] and its neighbor.
const NODE_6: &str = "2001:db8::1";
const NEIGHBOR_6: &str = "2001:db8::2";

/// Gives the cable addresses of IPv6 as well.
fn add_ipv6(host: &Host) {
    for setting in ["all", "default", "lo", "eth0"] {
        let file = format!("/proc/sys/net/ipv6/conf/{setting}/disable_ipv6");
        host.on_node(&["sh", "-c", &format!("echo 0 > {file}")]);
    }
    let address = |it: &str| format!("{it}/64");
    host.on_node(&["ip", "address", "add", &address(NODE_6), "dev", "eth0", "nodad"]);
    host.on_neighbor(&["ip", "address", "add", &address(NEIGHBOR_6), "dev", "eth0", "nodad"]);
    host.on_node(&["ip", "-6", "route", "add", "default", "via", NEIGHBOR_6]);
}

fn start(flags: &[&str]) -> Option<Cluster> {
    let mut cluster = Cluster::prepare()?;
    add_ipv6(&cluster.host);
    cluster.up_with(flags);
    Some(cluster)
}

/// A Deployment `web` of one pod, and a Service of its name with the policy. Returns the pod's name.
fn serve(cluster: &Cluster, policy: &str) -> String {
    cluster.apply("web.yaml", &deployment("web", 1, ""));
    cluster.ok(&["rollout", "status", "deploy/web", "--timeout=60s"]);
    cluster.apply(
        "service.yaml",
        &format!(
            "{{apiVersion: v1, kind: Service, metadata: {{name: web}}, spec: {{type: NodePort, ipFamilyPolicy: {policy}, \
             selector: {{app: web}}, ports: [{{port: 80, targetPort: 8080}}]}}}}"
        ),
    );
    let names = ["get", "pods", "-l", "app=web", "-o", "jsonpath={.items[0].metadata.name}"];
    cluster.ok(&names)
}

/// Rules follow Services a moment later; bounded.
fn until_answered(cluster: &Cluster, url: &str, expected: &str) {
    let ask = || {
        let mut command = cluster.host.command("curl");
        command.args(["-sS", "--max-time", "10", "--retry", "50", "--retry-all-errors"]);
        let output = command.args(["--retry-delay", "0", url]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    assert_eq!(ask(), expected, "{url}\n{}", cluster.state());
}

#[test]
fn pods_and_services_have_both_families_and_answer_in_both() {
    let pods = "10.244.0.0/16,fd00:10:244::/56";
    let Some(cluster) = start(&["--pod-cidr", pods]) else { return };
    let node = cluster.json(&["get", "node", "node-a"]);
    assert_eq!(node["spec"]["podCIDRs"], json!(["10.244.0.0/24", "fd00:10:244::/64"]));
    let addresses = node["status"]["addresses"].as_array().unwrap();
    let internal: Vec<_> = addresses
        .iter()
        .filter(|it| it["type"] == "InternalIP")
        .map(|it| it["address"].as_str().unwrap())
        .collect();
    assert_eq!(internal, [NODE, NODE_6]);

    let name = serve(&cluster, "RequireDualStack");
    let pod = cluster.json(&["get", "pod", &name]);
    let ips = |field: &str| -> Vec<String> {
        let list = pod["status"][field].as_array().unwrap();
        list.iter().map(|it| it["ip"].as_str().unwrap().to_owned()).collect()
    };
    let pod_ips = ips("podIPs");
    assert!(pod_ips[0].starts_with("10.244.0.") && pod_ips[1].starts_with("fd00:10:244::"));
    assert_eq!(ips("hostIPs"), [NODE, NODE_6]);
    assert_eq!(pod["status"]["podIP"], json!(pod_ips[0]));
    let hosts = cluster.exec(&name, &["cat", "/etc/hosts"]);
    assert!(pod_ips.iter().all(|it| hosts.contains(&format!("{it}\t{name}"))), "{hosts}");

    let service = cluster.json(&["get", "service", "web"]);
    let cluster_ips = service["spec"]["clusterIPs"].as_array().unwrap();
    let node_port = &service["spec"]["ports"][0]["nodePort"];
    let v6 = cluster_ips[1].as_str().unwrap();
    for url in [
        format!("http://{}/", cluster_ips[0].as_str().unwrap()),
        format!("http://[{v6}]/"),
        format!("http://{NODE}:{node_port}/"),
        format!("http://[{NODE_6}]:{node_port}/"),
        format!("http://[{}]:8080/", pod_ips[1]),
    ] {
        until_answered(&cluster, &url, &name);
    }
    let outside = format!("http://[{NODE_6}]:{node_port}/");
    let answer = cluster.host.on_neighbor(&["curl", "-sS", "--max-time", "10", &outside]);
    assert_eq!(answer.trim(), name);
    // From the pod itself: the way there and back is the node's.
    let answer = cluster.exec(&name, &["get", &format!("http://[{v6}]/")]);
    assert_eq!(answer.trim(), name);
    let found = cluster.exec(&name, &["dns", "web.default.svc.cluster.local", "--type", "AAAA"]);
    assert!(found.contains(v6), "{found}");
}

#[test]
fn a_cluster_of_ipv6_alone_works() {
    let flags = ["--pod-cidr", "fd00::/56", "--service-cidr", "fd00:1::/108"];
    let Some(mut cluster) = start(&flags) else { return };
    let name = serve(&cluster, "SingleStack");
    let pod = cluster.json(&["get", "pod", &name]);
    assert_eq!(pod["status"]["podIPs"].as_array().unwrap().len(), 1);
    assert!(pod["status"]["podIP"].as_str().unwrap().starts_with("fd00::"));
    let cluster_ip = cluster.field(&["service", "web"], ".spec.clusterIP");
    assert!(cluster_ip.starts_with("fd00:1::"), "{cluster_ip}");
    until_answered(&cluster, &format!("http://[{cluster_ip}]/"), &name);
    // By its name: DNS is an address of IPv6, too.
    let answer = cluster.exec(&name, &["get", "http://web.default/"]);
    assert_eq!(answer.trim(), name);
    // A restart has the same again, and leaves when it is told to.
    cluster.stop();
    cluster.up();
    let again = cluster.json(&["get", "pod", &name]);
    assert_eq!(again["status"]["podIPs"], pod["status"]["podIPs"]);
    until_answered(&cluster, &format!("http://[{cluster_ip}]/"), &name);
}
