//! Other nodes, as the API tells of them: this one says where it is, makes a way to each that says
//! so, too, and leaves out those that lie.

use crate::cluster::Cluster;
use crate::host::{NEIGHBOR, NODE};

const PREFIX: &str = "flannel.alpha.coreos.com";

/// A Node with pods in this range, which says what a node with VXLAN does.
fn node(name: &str, range: &str, address: &str, data: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Node\nmetadata:\n  name: {name}\n  annotations:\n    \
         {PREFIX}/backend-type: vxlan\n    {PREFIX}/public-ip: {address}\n    \
         {PREFIX}/backend-data: '{data}'\nspec:\n  podCIDR: {range}\n  podCIDRs: [{range}]\n"
    )
}

const DATA: &str = r#"{"VNI":1,"VtepMAC":"06:58:00:00:00:07"}"#;

/// The state of the kernel, until it is as it should be.
fn until_on_node(cluster: &Cluster, command: &str, is_right: impl Fn(&str) -> bool) {
    let mut seen = String::new();
    let is_there = (0..200).any(|_| {
        seen = cluster.host.on_node(&["sh", "-c", &format!("{command} 2>&1 || true")]);
        let is_there = is_right(&seen);
        if !is_there {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        is_there
    });
    assert!(is_there, "{command}: {seen}\n{}", cluster.log());
}

#[test]
fn a_node_that_comes_is_reached_through_a_tunnel_and_one_that_lies_is_left_out() {
    let Some(mut cluster) = Cluster::start() else { return };
    let own = |cluster: &Cluster, name: &str| {
        let name = name.replace('.', "\\.");
        let path =
            format!("jsonpath={{.metadata.annotations.{}/{name}}}", PREFIX.replace('.', "\\."));
        cluster.until(&["get", "node", "node-a", "-o", &path], |it| !it.is_empty())
    };
    assert_eq!(own(&cluster, "backend-type"), "vxlan");
    assert_eq!(own(&cluster, "public-ip"), NODE);
    let data = own(&cluster, "backend-data");
    assert!(data.starts_with(r#"{"VNI":1,"VtepMAC":"06:"#), "{data}");
    let condition = "jsonpath={.status.conditions[?(@.type=='NetworkUnavailable')]}";
    cluster.until(&["get", "node", "node-a", "-o", condition], |it| {
        it.contains(r#""status":"False""#)
    });
    // Alone, it has no tunnel.
    until_on_node(&cluster, "ip link show flannel.1", |it| it.contains("does not exist"));

    cluster.apply("b.yaml", &node("b", "10.244.7.0/24", NEIGHBOR, DATA));
    let route = "ip route show 10.244.7.0/24";
    let is_tunneled =
        |it: &str| it.contains("via 10.244.7.0 dev flannel.1") && it.contains("onlink");
    until_on_node(&cluster, route, is_tunneled);
    until_on_node(&cluster, "bridge fdb show dev flannel.1", |it| {
        it.contains("06:58:00:00:00:07") && it.contains(NEIGHBOR)
    });

    let lies = [
        ("liar", "10.244.7.0/25", NEIGHBOR, DATA, "the range 10.244.7.0/24 is node b's"),
        ("pod", "10.244.8.0/24", "10.244.0.2", DATA, "its address 10.244.0.2 is a pod's"),
        ("mute", "10.244.9.0/24", NEIGHBOR, "nonsense", "is not what it should be"),
    ];
    for (name, range, address, data, why) in lies {
        cluster.apply(&format!("{name}.yaml"), &node(name, range, address, data));
        let about = format!("involvedObject.name={name},reason=PeerLeftOut");
        let events = [
            "get",
            "events",
            "-A",
            "--field-selector",
            &about,
            "-o",
            "jsonpath={.items[*].message}",
        ];
        cluster.until(&events, |it| it.contains(why));
    }
    until_on_node(&cluster, route, is_tunneled);

    // After a crash it goes on, and what was taken away meanwhile is back.
    cluster.kill();
    cluster.host.on_node(&["ip", "link", "del", "flannel.1"]);
    cluster.up();
    until_on_node(&cluster, route, is_tunneled);
    assert_eq!(own(&cluster, "backend-data"), data);

    for name in ["b", "liar", "pod", "mute"] {
        cluster.ok(&["delete", "node", name]);
    }
    until_on_node(&cluster, "ip link show flannel.1", |it| it.contains("does not exist"));
}
