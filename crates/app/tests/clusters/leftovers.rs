//! What another Kubernetes left is removed when that is asked for, and nothing else is.

use std::process::{Child, Stdio};

use crate::machine::{Machine, Ran, run};

/// Links and rules as flannel, kubelets and proxies leave them, among those of Docker.
const LEFT: &str = "
    ip link add cni0 type bridge
    ip link add docker0 type bridge
    ip link add flannel.1 type vxlan id 1 dstport 8472 local 192.0.2.1
    nft add table ip kube-proxy
    nft add table ip mine
    iptables-nft -t nat -N KUBE-SERVICES
    iptables-nft -t nat -N KUBE-SVC-X
    iptables-nft -t nat -A KUBE-SERVICES -d 10.96.0.1 -j KUBE-SVC-X
    iptables-nft -t nat -A PREROUTING -m comment --comment 'kubernetes service portals' -j KUBE-SERVICES
    iptables-nft -N DOCKER-USER
    iptables-nft -A FORWARD -j DOCKER-USER
    iptables-nft -N FLANNEL-FWD
    iptables-nft -A FORWARD -j FLANNEL-FWD
";

/// Files of the machine are others for this command alone.
const WITH_FILES: &str = "
    mount -t tmpfs none /etc && mkdir -p /etc/cni/net.d
    touch /etc/cni/net.d/10-flannel.conflist /etc/cni/net.d/87-podman.conflist
    mount -t tmpfs none /run && mkdir -p /run/flannel
    mount -t tmpfs none /var/lib && mkdir -p /var/lib/cni/networks/cbr0 /var/lib/cni/networks/podman
    \"$@\"
    find /etc /run /var/lib -mindepth 1
";

fn clean(machine: &Machine, words: &[&str]) -> Ran {
    let mut command = machine.host.command("unshare");
    command.args(["--mount", "sh", "-euc", WITH_FILES, "sh", env!("CARGO_BIN_EXE_xebec"), "clean"]);
    command.args(words).stdin(Stdio::null());
    run(command)
}

/// Ended with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn what_another_kubernetes_left_is_removed_and_all_else_stays() {
    let Some(machine) = Machine::new() else { return };
    let made = machine.host.command("sh").args(["-euc", LEFT]).output().unwrap();
    if !made.status.success() {
        return eprintln!("SKIPPED: {}", String::from_utf8_lossy(&made.stderr));
    }
    let unnamed = machine.refused(&["clean"]);
    assert!(unnamed.contains("--foreign"), "{unnamed}");

    let shown = clean(&machine, &["--foreign", "--dry-run"]);
    assert!(shown.is_ok, "{}", shown.stderr);
    for line in [
        "would remove chains of table ip filter: FLANNEL-FWD",
        "would remove chains of table ip nat: KUBE-SERVICES, KUBE-SVC-X",
        "would remove table ip kube-proxy",
        "would remove link cni0",
        "would remove link flannel.1",
        "would remove /etc/cni/net.d/10-flannel.conflist",
        "would remove /run/flannel",
        "would remove /var/lib/cni/networks/cbr0",
    ] {
        assert!(shown.stdout.contains(line), "{line}: {}", shown.stdout);
    }
    assert_eq!(shown.stdout.matches("would remove").count(), 8, "{}", shown.stdout);

    let kubelet = machine.path("kubelet");
    std::fs::copy("/bin/sleep", &kubelet).unwrap();
    let running = Running(machine.host.command(&kubelet).arg("1000").spawn().unwrap());
    // It enters the machine's network first.
    let comm = format!("/proc/{}/comm", running.0.id());
    while std::fs::read_to_string(&comm).unwrap() != "kubelet\n" {
        std::thread::yield_now();
    }
    let refused = clean(&machine, &["--foreign"]);
    assert!(!refused.is_ok, "{}", refused.stdout);
    assert!(refused.stderr.contains("this may be in use by kubelet"), "{}", refused.stderr);
    drop(running);

    let cleaned = clean(&machine, &["--foreign"]);
    assert!(cleaned.is_ok, "{}", cleaned.stderr);
    let kept = ["/etc/cni/net.d/87-podman.conflist", "/var/lib/cni/networks/podman"];
    assert!(kept.iter().all(|it| cleaned.stdout.contains(it)), "{}", cleaned.stdout);
    let gone = |it: &&str| !it.starts_with("removed") && it.contains("flannel");
    assert_eq!(cleaned.stdout.lines().find(gone), None);
    let links = machine.host.on_node(&["ip", "-o", "link"]);
    assert!(links.contains("docker0") && !links.contains("cni0"), "{links}");
    assert!(!links.contains("flannel.1"), "{links}");
    let rules = machine.host.on_node(&["nft", "list", "ruleset"]);
    assert!(rules.contains("jump DOCKER-USER") && rules.contains("table ip mine"), "{rules}");
    assert!(!rules.contains("KUBE-") && !rules.contains("FLANNEL"), "{rules}");
    assert!(!rules.contains("table ip kube-proxy"), "{rules}");
}

#[test]
fn a_machine_where_nothing_was_left_says_so() {
    let Some(machine) = Machine::new() else { return };
    let mut command = machine.host.command(env!("CARGO_BIN_EXE_xebec"));
    command.args(["clean", "--foreign", "--dry-run"]);
    let ran = run(command);
    assert!(ran.is_ok, "{}", ran.stderr);
    // Files are the machine's, whose developer may have others there.
    assert!(!ran.stdout.contains("link") && !ran.stdout.contains("chains"), "{}", ran.stdout);
}
