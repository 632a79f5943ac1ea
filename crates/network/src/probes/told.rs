//! What is known of the ways, as people read it. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::{Checksums, Target, Verdict};

/// What came of trying the ways to peers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tried {
    /// Peers whose pods are not reached.
    pub unreached: Vec<Unreached>,
    /// What was done about ways that are not as they should be.
    pub repaired: BTreeSet<String>,
    /// Ways that are good, or good enough.
    pub n_reached: usize,
    /// Peers are there, and this node's network reaches none of them: it is this node's fault, or
    /// of what is around it.
    pub is_cut_off: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unreached {
    pub node: String,
    pub why: String,
}

pub(super) fn tell<'a>(known: impl Iterator<Item = (&'a Target, &'a Verdict)>) -> Tried {
    let mut tried = Tried::default();
    let mut whys: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut n_there = 0;
    for (target, verdict) in known {
        match verdict {
            Verdict::Reached { fits, checksums } => {
                tried.n_reached += 1;
                tried.repaired.extend(repairs(target, *fits, *checksums));
            }
            Verdict::Narrow | Verdict::Silent { .. } => {
                n_there += usize::from(is_there(verdict));
                whys.entry(target.node.clone()).or_default().insert(why(target, verdict));
            }
        }
    }
    let reason = |(node, whys): (String, BTreeSet<String>)| {
        let whys: Vec<_> = whys.into_iter().collect();
        Unreached { node, why: whys.join("; ") }
    };
    tried.unreached = whys.into_iter().map(reason).collect();
    tried.is_cut_off = tried.n_reached == 0 && n_there > 0;
    tried
}

fn is_there(verdict: &Verdict) -> bool {
    !matches!(verdict, Verdict::Silent { machine_answers: false, .. })
}

fn repairs(target: &Target, fits: Option<u32>, checksums: Checksums) -> Vec<String> {
    let Target { node, range, mtu, .. } = target;
    let mut repairs = Vec::new();
    if let Some(fits) = fits {
        repairs.push(format!(
            "of packets to pods of node {node} ({range}) those of more than {fits} bytes are lost on the way, and \
             {mtu} should pass: senders are told to send none longer than {fits}"
        ));
    }
    if let (Checksums::Repaired, Some(tunnel)) = (checksums, &target.tunnel) {
        let link = &tunnel.link;
        repairs.push(format!(
            "datagrams to node {node} arrived with wrong checksums: {link} computes them itself now, and leaves \
             them to no hardware (tx-checksum-ip-generic off)"
        ));
    }
    repairs
}

fn why(target: &Target, verdict: &Verdict) -> String {
    let range = target.range;
    let remote = target.machines.map(|(_, remote)| remote);
    let at = remote.map(|it| format!(" at {it}")).unwrap_or_default();
    let Verdict::Silent { machine_answers, source } = verdict else {
        return format!(
            "its pods in {range}: only packets arrive that are shorter than any network's"
        );
    };
    let mut why = match (machine_answers, &target.tunnel) {
        (true, Some(tunnel)) => format!(
            "its pods in {range}: its machine{at} answers, and what is sent there in {} is not answered: a firewall \
             between the nodes, or on one of them, drops it",
            tunnel.wrapping
        ),
        (true, None) => format!(
            "its pods in {range}: its machine{at} answers, and what is sent from pods' addresses is not answered: a \
             firewall, or a network that knows only the addresses of machines, drops it"
        ),
        (false, _) => format!("its pods in {range}: neither these nor its machine{at} answer"),
    };
    if let (Some(source), Some((local, _))) = (source, target.machines) {
        why += &format!(
            "; packets to it leave from {source}, and this node is known as {local}: another link leads there than \
             that of --node-ip"
        );
    }
    why
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::probes::Tunnel;

    pub(crate) fn target(node: &str, n: u8) -> Target {
        let ip = |text: String| text.parse().unwrap();
        Target {
            node: node.into(),
            range: format!("10.244.{n}.0/24").parse().unwrap(),
            from: ip("10.244.1.1".into()),
            to: ip(format!("10.244.{n}.1")),
            machines: Some((ip("192.0.2.1".into()), ip(format!("192.0.2.{n}")))),
            mtu: 1450,
            tunnel: Some(Tunnel { link: "flannel.1".into(), wrapping: "UDP port 8472" }),
            uplinks: BTreeSet::new(),
        }
    }

    fn silent(machine_answers: bool) -> Verdict {
        Verdict::Silent { machine_answers, source: None }
    }

    const GOOD: Verdict = Verdict::Reached { fits: None, checksums: Checksums::Fine };

    #[test]
    fn a_node_that_reaches_nobody_who_is_there_is_cut_off() {
        let check = |verdicts: &[Verdict], is_cut_off: bool, n_unreached: usize| {
            let targets: Vec<_> = (2..9).map(|n| target(&format!("node-{n}"), n)).collect();
            let tried = tell(targets.iter().zip(verdicts));
            assert_eq!((tried.is_cut_off, tried.unreached.len()), (is_cut_off, n_unreached));
        };
        check(&[], false, 0);
        check(&[GOOD, GOOD], false, 0);
        check(&[GOOD, silent(true)], false, 1);
        check(&[silent(true), silent(true)], true, 2);
        check(&[silent(true), silent(false)], true, 2);
        // Machines that are switched off are not this node's fault.
        check(&[silent(false), silent(false)], false, 2);
        check(&[Verdict::Narrow], true, 1);
    }

    #[test]
    fn what_is_wrong_is_said_in_words_that_help() {
        let check = |target: Target, verdict: &Verdict, words: &[&str]| {
            let tried = tell([(&target, verdict)].into_iter());
            let said = tried.unreached.iter().map(|it| it.why.clone());
            let said: Vec<_> = said.chain(tried.repaired).collect();
            for it in words {
                assert!(said.iter().any(|said| said.contains(it)), "{it}: {said:?}");
            }
        };
        let b = || target("b", 2);
        check(b(), &silent(true), &["its machine at 192.0.2.2 answers", "in UDP port 8472"]);
        let bare = Target { tunnel: None, ..b() };
        check(bare, &silent(true), &["knows only the addresses of machines"]);
        check(b(), &silent(false), &["neither these nor its machine at 192.0.2.2 answer"]);
        let source = Some("198.51.100.1".parse().unwrap());
        let elsewhere = Verdict::Silent { machine_answers: false, source };
        check(b(), &elsewhere, &["leave from 198.51.100.1, and this node is known as 192.0.2.1"]);
        let narrow = Verdict::Reached { fits: Some(1372), checksums: Checksums::Repaired };
        check(b(), &narrow, &["none longer than 1372", "flannel.1 computes them itself"]);
    }
}
