//! From one mode to another on a node that is in use, and what `iptables` mode leaves alone.

use std::process::Command;

use apimachinery::ObjectKey;
use service_proxy::backends::{self, Error, Mode, ProgramError};

use super::nodes::{Connection, FAMILIES, Flow, Nodes, tcp};
use super::{Case, REFUSED, cluster, everywhere, modes, web};

/// All that is in the namespace, of both interfaces of the kernel, without counters and handles.
fn rules(nodes: &Nodes) -> String {
    let read = |program: &str, words: &[&str]| {
        let run = || Command::new(program).args(words).output().unwrap();
        let output = nodes.node.run(run).unwrap();
        assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let lines = |text: String| -> String {
        let is_rule = |it: &&str| !it.starts_with('#') && !it.starts_with(':');
        text.lines().filter(is_rule).map(|it| format!("{it}\n")).collect()
    };
    [("nft", vec!["list", "tables"]), ("iptables-nft-save", vec![]), ("ip6tables-nft-save", vec![])]
        .into_iter()
        .map(|(program, words)| lines(read(program, &words)))
        .collect()
}

#[test]
fn connections_outlive_a_change_of_the_mode_and_no_old_rule_stays() {
    for family in FAMILIES {
        for to in modes() {
            for from in modes().filter(|it| it.name != to.name) {
                change_mode(Case { mode: from, family }, Case { mode: to, family });
            }
        }
    }
}

/// What is in the rules of a mode, and of no other.
fn sign(mode: &Mode) -> &'static str {
    match mode.name {
        "ebpf" => "xebec-00c0ffee-packets",
        "iptables" => "KUBE-SERVICES",
        "userspace" => "xebec-00c0ffee-portals",
        _ => "xebec-00c0ffee-services",
    }
}

fn change_mode(from: Case, to: Case) {
    let Some((nodes, backend)) = from.setup(2, from.both(&[0])) else { return };
    let mut inside = Connection::open(&nodes.node, from.at_cluster_ip(80)).unwrap();
    let mut outside = Connection::open(&nodes.client, from.at_node(30080)).unwrap();
    let flow = Flow::open(&nodes.client, from.at_node(30053));
    let expected = Ok(from.masqueraded(0));
    let mut check = || {
        assert_eq!((inside.ask(), outside.ask()), (expected.clone(), expected.clone()));
        assert_eq!(flow.ask(), expected);
        assert_eq!(tcp(&nodes.client, from.at_node(30080)), expected, "new ones, too");
        assert_eq!(
            tcp(&nodes.pods[1], from.at_cluster_ip(80)).map(|it| it[..5].to_owned()),
            Ok("pod 0".into())
        );
    };
    check();
    drop(backend);
    let mut backend = to.open(&nodes);
    backend.adopt().unwrap();
    backend.set(&web(), to.both(&[0]));
    backend.resync().unwrap();
    // Both for a moment: no packet finds neither.
    check();
    nodes.node.run(|| (from.mode.purge)(cluster())).unwrap().unwrap();
    check();
    let left = rules(&nodes);
    let (old, new) = (sign(from.mode), sign(to.mode));
    assert!(!left.contains(old) && left.contains(new), "{left}");
    nodes.node.run(|| service_proxy::purge(cluster())).unwrap().unwrap();
    let left = rules(&nodes);
    assert!(!left.contains("KUBE-") && !left.contains("xebec-"), "{left}");
    assert_eq!(tcp(&nodes.client, from.at_node(30080)), REFUSED);
}

#[test]
fn in_iptables_mode_rules_of_others_stay_and_another_cluster_is_refused() {
    everywhere(|case| {
        if case.mode.name != "iptables" {
            return;
        }
        let Some(nodes) = Nodes::new(1) else { return };
        let foreign = |words: &str| {
            let run = || Command::new("iptables-nft").args(words.split(' ')).status().unwrap();
            assert!(nodes.node.run(run).unwrap().success(), "{words}");
        };
        foreign("-t nat -N OTHER");
        foreign("-t nat -A PREROUTING -p tcp --dport 9 -j OTHER");
        let before = rules(&nodes);
        let mut backend = case.open(&nodes);
        backend.set(&web(), case.both(&[0]));
        backend.resync().unwrap();
        backend.set(&ObjectKey::new("default", "db"), case.both(&[]));
        backend.apply().unwrap();
        backend.resync().unwrap();
        let held = rules(&nodes);
        assert_eq!(held.matches("-j KUBE-POSTROUTING").count(), 2, "one for each family: {held}");
        let other = "0badcafe".parse().unwrap();
        let refused = nodes.node.run(|| (case.mode.open)(other, &super::networks()).map(drop));
        let refused = refused.unwrap().unwrap_err();
        assert!(matches!(refused, Error::Program(ProgramError::OtherCluster { .. })), "{refused}");
        nodes.node.run(|| service_proxy::purge(other)).unwrap().unwrap();
        assert_eq!(rules(&nodes), held, "not its own");
        nodes.node.run(|| service_proxy::purge(cluster())).unwrap().unwrap();
        let after = rules(&nodes);
        let of_others = |text: &str| -> Vec<String> {
            text.lines().filter(|it| it.contains("OTHER")).map(str::to_owned).collect()
        };
        assert_eq!(of_others(&after), of_others(&before));
        assert!(!after.contains("KUBE-"), "{after}");
    });
}

#[test]
fn in_iptables_mode_what_others_change_is_noticed_and_what_we_write_is_not() {
    everywhere(|case| {
        if case.mode.name != "iptables" {
            return;
        }
        let Some((nodes, mut backend)) = case.setup(1, case.both(&[0])) else { return };
        super::change(&mut *backend, case.both(&[]));
        super::change(&mut *backend, case.both(&[0]));
        backend.resync().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let wait = |backend: &mut dyn backends::Backend| {
            let disturbed = async {
                tokio::time::timeout(std::time::Duration::from_secs(1), backend.disturbed()).await
            };
            runtime.block_on(disturbed).is_ok()
        };
        assert!(!wait(&mut *backend), "nobody else did anything");
        let program = match case.family {
            stdx::Family::V4 => "iptables-nft",
            stdx::Family::V6 => "ip6tables-nft",
        };
        let flush = || Command::new(program).args(["-t", "nat", "-F", "KUBE-SERVICES"]).status();
        assert!(nodes.node.run(flush).unwrap().unwrap().success());
        assert!(wait(&mut *backend), "somebody emptied a chain");
        backend.resync().unwrap();
        assert_eq!(tcp(&nodes.client, case.at_node(30080)), Ok(case.masqueraded(0)));
    });
}
