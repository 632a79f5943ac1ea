//! A join that is refused says why, and leaves nothing behind.

use crate::host::NODE;
use crate::impostor::Impostor;
use crate::joined::Machine;

/// A firewall that lets nobody in at this port.
fn block(on: impl Fn(&[&str]) -> String, port: u16, verdict: &str) {
    on(&["nft", "add", "table", "inet", "wall"]);
    on(&["nft", "add chain inet wall in { type filter hook input priority 0; }"]);
    on(&["nft", &format!("add rule inet wall in tcp dport {port} {verdict}")]);
}

fn unblock(on: impl Fn(&[&str]) -> String) {
    on(&["nft", "delete", "table", "inet", "wall"]);
}

#[test]
fn a_refused_join_says_why() {
    let Some(machine) = Machine::beside(&["--node", "none"]) else { return };
    let target = machine.target();
    let (token, place) = target.split_once('@').unwrap();
    let check = |words: &[&str], expected: &[&str]| {
        let said = machine.refused(words);
        for expected in expected {
            assert!(said.contains(expected), "{words:?}: {said}");
        }
        assert!(!machine.data().exists(), "{words:?} left something behind");
    };
    // Of another cluster.
    let (bare, pin) = token.rsplit_once('.').unwrap();
    let other = format!("{bare}.{}@{place}", "ab".repeat(32));
    check(&[&other], &["of another cluster than the token", pin]);
    // One that there is not, and one that has ended.
    let unknown = format!("zzzzzz.0123456789abcdef.{pin}@{place}");
    check(&[&unknown], &["does not know the token zzzzzz"]);
    // The right name, and another secret.
    let id = bare.split('.').next().unwrap();
    let wrong = format!("{id}.0123456789abcdef.{pin}@{place}");
    check(&[&wrong], &["is not signed by whoever made the token"]);
    // One that was good until a moment ago.
    machine.token(&["create", "expire.0123456789abcdef", "--ttl", "1s"]);
    let secret = ["get", "secret", "bootstrap-token-expire", "-n", "kube-system"];
    machine.cluster.until(&secret, |it| it.contains("not found"));
    let expired = format!("expire.0123456789abcdef.{pin}@{place}");
    check(&[&expired], &["does not know the token expire", "it has expired or was deleted"]);
    // Nobody there, and nobody who answers.
    check(&[&format!("{token}@{NODE}:6999")], &["nobody listens on TCP port 6999"]);
    let host = &machine.cluster.host;
    block(|words| host.on_node(words), 6998, "drop");
    check(
        &[&format!("{token}@{NODE}:6998")],
        &["nothing comes back from TCP port 6998", "firewall"],
    );
    unblock(|words| host.on_node(words));
    // The other direction: the server calls the kubelet.
    let kubelet = "the API server at 192.0.2.1:6443 gets no connection to this machine at \
                   192.0.2.2 TCP port 10250";
    for (verdict, why) in [("drop", "nothing comes back"), ("reject with tcp reset", "refused")] {
        block(|words| host.on_neighbor(words), 10250, verdict);
        check(&[&target], &[kubelet, why, "inbound here"]);
        unblock(|words| host.on_neighbor(words));
    }
    check(&[bare], &["TOKEN@HOST:PORT"]);
    check(&[&format!("{bare}@{place}")], &["the token has no pin"]);
    check(&[], &["has not joined a cluster yet"]);
}

#[test]
fn a_name_that_is_another_machines_is_refused() {
    let Some(mut machine) = Machine::beside(&["--node", "none"]) else { return };
    let target = machine.target();
    machine.cluster.apply("node.yaml", "{apiVersion: v1, kind: Node, metadata: {name: node-b}}");
    let info = |id: &str| {
        format!(
            r#"{{"status": {{"nodeInfo": {{"machineID": "{id}", "systemUUID": "", "bootID": "", "kernelVersion": "",
            "osImage": "", "containerRuntimeVersion": "", "kubeletVersion": "", "kubeProxyVersion": "",
            "operatingSystem": "", "architecture": ""}}}}}}"#
        )
    };
    let be = |id: &str| {
        let status = ["--subresource", "status", "--type", "merge", "-p", &info(id)];
        machine.cluster.ok(&[&["patch", "node", "node-b"][..], &status].concat());
    };
    be("another");
    let said = machine.refused(&[&target]);
    assert!(said.contains("the name node-b is that of another machine"), "{said}");
    assert!(said.contains("machine ID another") && said.contains("--node-name"), "{said}");
    assert!(!machine.data().exists(), "{said}");
    // As the refusal says.
    machine.cluster.ok(&["delete", "node", "node-b"]);
    machine.join(&[&target]);
}

#[test]
fn clocks_and_versions_that_do_not_fit_are_refused() {
    let Some(machine) = Machine::beside(&["--node", "none"]) else { return };
    let target = machine.target();
    let token = target.split_once('@').unwrap().0;
    let check = |impostor: &Impostor, expected: &str| {
        let said = machine.refused(&[&format!("{token}@{}", impostor.place())]);
        assert!(said.contains(expected), "{said}");
        assert!(!machine.data().exists(), "{said}");
    };
    let said = |version: &str, date: &str| Impostor::start(&machine, version, date);
    let now = "";
    check(
        &said("v1.36.0", "Thu, 01 Jan 2026 00:00:00 GMT"),
        "minutes ahead of the one of 192.0.2.1",
    );
    check(&said("v1.36.0", "Fri, 01 Jan 2100 00:00:00 GMT"), "minutes behind the one of 192.0.2.1");
    let rule = "a node may be at most three minor versions older, and not newer";
    check(&said("v1.35.9", now), rule);
    check(&said("v1.40.0", now), rule);
}
