//! A join that is refused says why, and leaves nothing behind.

use crate::host::NODE;
use crate::joined::Machine;

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
    // Nobody there, and nobody who answers.
    check(&[&format!("{token}@{NODE}:6999")], &["nobody listens on TCP port 6999"]);
    machine.cluster.host.on_node(&["nft", "add", "table", "inet", "wall"]);
    let chain = "add chain inet wall in { type filter hook input priority 0; }";
    machine.cluster.host.on_node(&["nft", chain]);
    machine.cluster.host.on_node(&["nft", "add rule inet wall in tcp dport 6998 drop"]);
    check(
        &[&format!("{token}@{NODE}:6998")],
        &["nothing comes back from TCP port 6998", "firewall"],
    );
    machine.cluster.host.on_node(&["nft", "delete", "table", "inet", "wall"]);
    check(&[bare], &["TOKEN@HOST:PORT"]);
    check(&[&format!("{bare}@{place}")], &["the token has no pin"]);
    check(&[], &["has not joined a cluster yet"]);
}
