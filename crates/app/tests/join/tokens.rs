//! `xebec token`.

use crate::joined::{Machine, NAME};

#[test]
fn tokens_are_made_listed_and_deleted_and_may_come_from_a_file() {
    let Some(mut machine) = Machine::beside(&["--node", "none"]) else { return };
    let made = machine.token(&[
        "create",
        "abcdef.0123456789abcdef",
        "--ttl",
        "1h",
        "--description",
        "for b",
    ]);
    let made = made.trim();
    assert!(made.starts_with("abcdef.0123456789abcdef."), "{made}");
    let listed = machine.token(&["list"]);
    let line = listed.lines().find(|it| it.starts_with("abcdef ")).unwrap();
    assert!(line.contains("59m") || line.contains("60m"), "{listed}");
    assert!(line.contains("authentication,signing") && line.contains("for b"), "{listed}");
    assert!(!listed.contains("0123456789abcdef"), "{listed}");

    // No secret on the command line; the pin may be given apart.
    let (bare, pin) = made.rsplit_once('.').unwrap();
    let file = machine.cluster.file("token", &format!("{bare}\n"));
    let pin = format!("sha256:{pin}");
    machine.join(&["192.0.2.1:6443", "--token-file", &file, "--ca-cert-hash", &pin]);
    machine.wait_ready();
    let range = machine.cluster.field(&["node", NAME], ".spec.podCIDR");
    assert!(range.starts_with("10.244."), "{range}");

    assert_eq!(machine.token(&["delete", "abcdef"]).trim(), "token abcdef deleted");
    let gone = machine.token_ran(&["delete", "abcdef"]);
    assert!(!gone.is_ok && gone.stderr.contains("there is no token abcdef"), "{}", gone.stderr);
}
