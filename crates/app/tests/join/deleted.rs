//! A node whose Node was deleted while it runs.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::joined::{Machine, NAME};

/// Who a node is to the API: the files of its certificates.
const CLIENTS: [&str; 4] = ["kubelet-client", "kube-proxy", "coredns", "xebec-network"];

/// What one of the node's certificates gets.
fn ask(machine: &Machine, folder: &Path, client: &str, words: &[&str]) -> String {
    let of = |ending: &str| folder.join(format!("{client}.{ending}")).display().to_string();
    let (certificate, key) = (of("crt"), of("key"));
    let credential = ["--client-certificate", &certificate, "--client-key", &key];
    let ran = machine.as_somebody(words, &credential);
    ran.stdout + &ran.stderr
}

/// Of what the client may watch, over HTTP/2 as kubectl does. Returns when it has begun.
fn watch(machine: &Machine, folder: &Path, client: &str, words: &[&str]) -> Child {
    let of = |ending: &str| folder.join(format!("{client}.{ending}")).display().to_string();
    let log = machine.cluster.path(&format!("{client}.watch"));
    let ca = machine.cluster.path("data/pki/ca.crt").display().to_string();
    let mut command: Command = machine.cluster.command(words);
    command
        .args(["--watch", "--server", "https://192.0.2.1:6443", "--certificate-authority", &ca])
        .args(["--client-certificate", &of("crt"), "--client-key", &of("key")])
        .env("KUBECONFIG", "/dev/null")
        .stdout(File::create(&log).unwrap());
    let child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let has_begun = (0..300).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        std::fs::metadata(&log).unwrap().len() > 0
    });
    assert!(has_begun, "{client} watches nothing");
    child
}

fn ends(child: &mut Child) -> bool {
    (0..300).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        child.try_wait().unwrap().is_some()
    })
}

#[test]
fn certificates_of_a_deleted_node_open_nothing_and_a_new_token_lets_it_in_again() {
    let Some(mut machine) = Machine::start() else { return };
    let old = machine.cluster.path("old");
    let copied = Command::new("cp").arg("-a").arg(machine.data().join("pki")).arg(&old).status();
    assert!(copied.unwrap().success());
    let own: &[&str] = &["get", "node", NAME, "-o", "name"];
    assert!(ask(&machine, &old, "kubelet-client", own).contains("node/node-b"));
    let mut watches = [
        watch(&machine, &old, "kubelet-client", &["get", "node", NAME]),
        watch(&machine, &old, "kube-proxy", &["get", "services", "-A"]),
    ];

    machine.cluster.ok(&["delete", "node", NAME]);
    let shut_out = |machine: &Machine| {
        let node = "---\n{apiVersion: v1, kind: Node, metadata: {name: node-b}}";
        let node = machine.cluster.file("own-node.yaml", node);
        let create = ["create", "-f", &node, "--validate=false"];
        for client in CLIENTS {
            for words in [own, &["get", "services", "-A"], &["get", "csr"], &create] {
                let said = ask(machine, &old, client, words);
                assert!(
                    said.contains("Unauthorized") || said.contains("logged in"),
                    "{client} {words:?}: {said}"
                );
            }
        }
    };
    shut_out(&machine);
    for watch in &mut watches {
        assert!(ends(watch), "a watch goes on");
    }
    // Its agent tries, and does not come back by itself, nor at another start.
    let has_heard = (0..300).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        machine.log().contains("Unauthorized")
    });
    assert!(has_heard, "{}", machine.log());
    assert_eq!(machine.cluster.ok(&["get", "nodes", "-o", "name"]).trim(), "node/node-a");
    machine.stop();
    let said = machine.refused(&[]);
    assert!(said.contains("its Node was deleted") && said.contains("xebec join TOKEN@"), "{said}");

    // As somebody new; the old certificates stay what they are, also after a start of the server.
    let target = machine.target();
    machine.join(&[&target]);
    machine.wait_ready();
    machine.run_pod("web");
    machine.cluster.ok(&["logs", "web"]);
    shut_out(&machine);
    machine.cluster.kill();
    machine.cluster.up_with(&["--bind-address", crate::host::NODE]);
    shut_out(&machine);
    machine.run_pod("late");
}
