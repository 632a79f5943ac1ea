//! Clusters with nodes on one machine: nobody touches what is not its own.

use std::collections::BTreeSet;

use crate::machine::Machine;

/// Starts it, and returns the addresses of its pods.
fn up(machine: &Machine, name: &str, flags: &[&str]) -> Vec<String> {
    machine.ok(&[&["up", "--detach", "--name", name, "--data-dir", name], flags].concat());
    machine.run_web(&format!("xebec-{name}"))
}

/// Of any cluster.
fn traces(machine: &Machine) -> BTreeSet<String> {
    machine.host.traces(&machine.path(""))
}

#[test]
fn two_clusters_live_side_by_side_and_either_may_go() {
    let Some(machine) = Machine::new() else { return };
    let before = traces(&machine);
    let a = up(&machine, "a", &[]);
    let b = up(&machine, "b", &[]);
    assert!(
        a.iter().all(|it| it.starts_with("10.244."))
            && b.iter().all(|it| it.starts_with("10.245.")),
        "{a:?} {b:?}"
    );
    machine.check_web("xebec-a", &a);
    machine.check_web("xebec-b", &b);
    let listed = machine.refused(&["status"]);
    assert!(
        listed.contains("which cluster?") && listed.contains("https://127.0.0.1:6444"),
        "{listed}"
    );

    // A restart of one is nothing to the other, and has what it had.
    machine.ok(&["down", "--name", "a"]);
    machine.check_web("xebec-b", &b);
    machine.ok(&["up", "--detach", "--name", "a"]);
    machine.check_web("xebec-a", &a);
    let id = std::fs::read_to_string(machine.path("b/cluster.json")).unwrap();
    let id: serde_json::Value = serde_json::from_str(&id).unwrap();
    let id = id["id"].as_str().unwrap();
    let is_of_b = |it: &String| it.contains(id) || it.contains("10.245.") || it.contains("xebec1");
    assert_ne!(traces(&machine).iter().filter(|it| is_of_b(it)).count(), 0);
    machine.ok(&["down", "--purge", "--name", "b"]);
    machine.check_web("xebec-a", &a);
    let left: Vec<String> = traces(&machine).into_iter().filter(is_of_b).collect();
    assert!(left.is_empty(), "{left:#?}");
    let cgroup = format!("xebec-{id}");
    for hierarchy in std::fs::read_dir("/sys/fs/cgroup").unwrap().flatten() {
        assert_ne!(hierarchy.file_name().to_str(), Some(cgroup.as_str()));
        assert!(!hierarchy.path().join(&cgroup).exists(), "{cgroup} in {hierarchy:?}");
    }

    // The one that was there first may go first.
    let c = up(&machine, "c", &[]);
    machine.ok(&["down", "--purge", "--name", "a"]);
    machine.check_web("xebec-c", &c);
    machine.ok(&["down", "--purge"]);
    assert_eq!(traces(&machine), before);
    assert!(!machine.path("clusters").exists());
}

#[test]
fn what_another_has_is_refused_before_anything_is_changed() {
    let Some(machine) = Machine::new() else { return };
    let a = up(&machine, "a", &[]);
    let (files, traces) = (machine.files_but("a"), machine.host.traces(&machine.path("b")));
    let who = format!("the cluster a in {} (process ", machine.text("a"));
    let check = |flags: &[&str], hint: &str| {
        let said = machine
            .refused(&[&["up", "--detach", "--name", "b", "--data-dir", "b"], flags].concat());
        assert!(said.contains(&who) && said.contains(hint), "{flags:?}: {said}");
        assert_eq!(machine.files_but("a"), files, "{flags:?} left something");
        assert_eq!(machine.host.traces(&machine.path("b")), traces, "{flags:?} changed something");
    };
    check(&["--pod-cidr", "10.244.0.0/16"], "--pod-cidr");
    check(&["--service-cidr", "10.96.128.0/17"], "--service-cidr");
    check(&["--https-port", "6443"], "--https-port");
    check(&["--kubelet-port", "10250"], "--kubelet-port");
    check(&["--service-node-port-range", "32000-33000"], "--service-node-port-range");
    machine.check_web("xebec-a", &a);
}

#[test]
fn routes_links_and_listeners_of_others_are_passed_over_or_named() {
    let Some(machine) = Machine::new() else { return };
    machine.host.on_node(&["ip", "link", "add", "tun0", "type", "veth", "peer", "name", "tun1"]);
    machine.host.on_node(&["ip", "link", "set", "tun0", "up"]);
    machine.host.on_node(&["ip", "route", "add", "10.244.0.0/15", "dev", "tun0"]);
    machine
        .host
        .on_node(&["ip", "link", "add", "xebec0", "type", "veth", "peer", "name", "stranger"]);
    let check = |flags: &[&str], expected: &str| {
        let said = machine.refused(&[&["up", "--detach", "--data-dir", "a"], flags].concat());
        assert!(said.contains(expected), "{flags:?}: {said}");
        assert!(!machine.path("a").exists() && !machine.path("clusters").exists());
    };
    check(&["--pod-cidr", "10.245.0.0/16"], "taken by the route 10.244.0.0/15 over tun0");
    check(&["--service-cidr", "192.0.2.0/24"], "taken by the route 192.0.2.0/24 over eth0");
    let addresses = up(&machine, "a", &[]);
    assert!(addresses.iter().all(|it| it.starts_with("10.246.")), "{addresses:?}");
    let links = machine.host.on_node(&["ip", "-o", "link"]);
    assert!(links.contains("xebec0") && links.contains("xebec1"), "{links}");
    machine.check_web("xebec-a", &addresses);
    machine.ok(&["down", "--purge"]);
    let links = machine.host.on_node(&["ip", "-o", "link"]);
    assert!(links.contains("xebec0") && !links.contains("xebec1"), "{links}");
}

#[test]
fn a_network_is_purged_where_it_is() {
    let Some(machine) = Machine::new() else { return };
    machine.ok(&["up", "--detach", "--name", "a", "--data-dir", "a"]);
    machine.ok(&["down"]);
    let purge = ["down", "--purge", "--data-dir", "a"];
    let said = machine.elsewhere(&purge);
    assert!(!said.is_ok && said.stderr.contains("in another network namespace"), "{}", said.stderr);
    assert!(said.stderr.contains("`nsenter --net=/proc/"), "{}", said.stderr);
    machine.ok(&purge);
    assert!(!machine.host.on_node(&["ip", "-o", "link"]).contains("xebec"));
}

/// The machine has started anew, and another cluster has what the first had: it is not the first
/// one's any more.
#[test]
fn purging_what_is_left_of_a_cluster_is_nothing_to_its_heir() {
    let Some(machine) = Machine::new() else { return };
    machine.ok(&["up", "--detach", "--name", "a", "--data-dir", "a"]);
    machine.ok(&["down", "--name", "a"]);
    machine.host.on_node(&["ip", "link", "delete", "xebec0"]);
    machine.host.on_node(&["ip", "route", "flush", "proto", "120"]);
    machine.host.on_node(&["nft", "flush", "ruleset"]);
    let b = up(&machine, "b", &["--pod-cidr", "10.244.0.0/16"]);
    let traces = machine.host.traces(&machine.path("a"));
    machine.ok(&["down", "--purge", "--name", "a"]);
    machine.check_web("xebec-b", &b);
    let after = machine.host.traces(&machine.path("a"));
    assert_eq!(after, traces);
}
