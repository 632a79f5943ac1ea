//! What cannot be is refused with its reason, and nothing has been made by then. Nor is anything by
//! whoever only looks.

use std::net::TcpListener;

use crate::machine::Machine;

#[test]
fn a_refusal_leaves_everything_as_it_was() {
    let Some(machine) = Machine::new() else { return };
    let check = |flags: &[&str], expected: &str| {
        let before = machine.files();
        for detach in [&[][..], &["--detach"]] {
            let directory: &[&str] =
                if flags.contains(&"--data-dir") { &[] } else { &["--data-dir", "a"] };
            let said = machine.refused(&[&["up"], directory, flags, detach].concat());
            assert!(said.contains(expected), "{flags:?} {detach:?}: {said}");
            assert_eq!(machine.files(), before, "{flags:?} {detach:?} left something");
        }
    };
    check(&["--node-name", "Bad_Name"], "--node-name \"Bad_Name\": a lowercase RFC 1123 subdomain");
    check(&["--name", "Bad_Name"], "--name <NAME>");
    check(
        &["--pod-cidr", "10.0.0.0/8", "--service-cidr", "10.96.0.0/16"],
        "the addresses of pods, 10.0.0.0/8, and of Services, 10.96.0.0/16, overlap",
    );
    check(
        &["--node", "none", "--pod-cidr", "10.96.0.0/12", "--service-cidr", "10.96.0.0/16"],
        "overlap",
    );
    check(&["--bind-address", "203.0.113.9"], "cannot listen on 203.0.113.9:6443");
    check(&["--storage-media-type", "application/vnd.kubernetes.protobuf"], "--datastore-endpoint");
    check(&["--etcd-cafile", "nowhere", "--datastore-endpoint", "https://127.0.0.1:1"], "nowhere");
    check(
        &["--node", "none", "--data-dir", "/proc/nowhere"],
        "cannot use the data directory /proc/nowhere",
    );
    let data = machine.text("a");
    std::fs::write(machine.path("kubeconfig"), "clusters: [").unwrap();
    check(&["--node", "none"], "cannot be extended: parsing the kubeconfig");
    std::fs::write(machine.path("kubeconfig"), "[]").unwrap();
    check(&["--node", "none"], "cannot be extended: the kubeconfig is not a mapping");
    assert!(!std::path::Path::new(&data).exists());
}

/// Here and not in the machine's network, so that the process can be named.
#[test]
fn who_has_a_port_is_named() {
    let home = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    for command in
        ["up --node none --https-port", "apiserver --bind-address 127.0.0.1 --secure-port"]
    {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_xebec"))
            .args(command.split(' '))
            .args([&port, "--data-dir"])
            .arg(home.path().join("data"))
            .env("HOME", home.path())
            .env("KUBECONFIG", home.path().join("kubeconfig"))
            .env("XEBEC_REGISTRY", home.path().join("clusters"))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("cannot listen on 127.0.0.1:"), "{said}");
        if command.starts_with("up") {
            assert!(said.contains(&format!("which process {} (", std::process::id())), "{said}");
        }
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0, "{command}");
    }
}

#[test]
fn whoever_only_looks_makes_nothing() {
    let Some(machine) = Machine::new() else { return };
    let before = machine.files();
    for words in [
        "image list",
        "status",
        "kubeconfig",
        "store status",
        "store check",
        "down",
        "down --purge",
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        let check = |flags: &[&str], expected: &str| {
            let said = machine.with_own_lib(&[&words, flags].concat());
            assert!(!said.is_ok && said.stderr.contains(expected), "{words:?}: {}", said.stderr);
        };
        check(&[], "there is no cluster");
        check(&["--name", "b"], "there is no cluster b");
        check(&["--data-dir", "a"], &machine.text("a"));
    }
    assert!(machine.with_own_lib(&["list"]).is_ok);
    assert_eq!(machine.files(), before);
}

#[test]
fn a_name_server_on_every_address_is_named_before_anything_is_made() {
    let Some(machine) = Machine::new() else { return };
    let script = "import socket, sys\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.bind(('0.0.0.0', 53))\nprint('ready', flush=True)\nsys.stdin.read()";
    let mut python = machine.host.command("python3");
    python
        .args(["-c", script])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped());
    let Ok(mut server) = python.spawn() else { return };
    let mut line = String::new();
    std::io::BufRead::read_line(
        &mut std::io::BufReader::new(server.stdout.take().unwrap()),
        &mut line,
    )
    .unwrap();
    if line.trim() != "ready" {
        eprintln!("SKIPPED: no python3 on this machine");
        return;
    }
    let said = machine.refused(&["up", "--data-dir", "a"]);
    drop(server.stdin.take());
    server.wait().unwrap();
    assert!(
        said.contains("the cluster's DNS cannot listen on 10.244.0.1:53, which process "),
        "{said}"
    );
    assert!(!machine.path("a").exists());
}
