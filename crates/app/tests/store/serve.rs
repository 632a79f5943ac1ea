//! `xebec store serve`: the command around the front, which has tests of its own.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::etcd::etcdctl;
use crate::{json, store, store_refuses};

/// Ends when the test does.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(data: &Path, flags: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_xebec"))
            .args(["store", "--data-dir", data.to_str().unwrap(), "serve"])
            .args(flags)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines.next().unwrap().unwrap();
        let url = line.rsplit(' ').next().unwrap().to_owned();
        Self { child, url }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        let _ = self.child.wait();
    }
}

/// Must fail, and not wait: says what etcdctl says.
fn refused(program: &PathBuf, url: &str, arguments: &[&str]) -> String {
    let output = Command::new("timeout")
        .arg("30")
        .arg(program)
        .env("ETCDCTL_API", "3")
        .args(["--endpoints", url])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(1..124)), "{arguments:?}: {said}");
    said.into_owned()
}

fn run(program: &PathBuf, url: &str, arguments: &[&str]) -> String {
    let output = Command::new(program)
        .env("ETCDCTL_API", "3")
        .args(["--endpoints", url])
        .args(arguments)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{arguments:?}: {said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    said
}

#[test]
fn etcdctl_works_on_a_served_store_and_so_do_the_store_commands() {
    let Some(etcdctl) = etcdctl() else { return };
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let listen = ["--listen", "http://127.0.0.1:0"];
    {
        let server = Server::start(&data, &listen);
        run(&etcdctl, &server.url, &["put", "a", "1"]);
        assert_eq!(run(&etcdctl, &server.url, &["get", "a", "--print-value-only"]).trim(), "1");
        assert_eq!(json(&store(&data, &["status", "-o", "json"]))["revision"], 2);
        let copy = directory.path().join("copy").display().to_string();
        run(&etcdctl, &server.url, &["snapshot", "save", &copy]);
    }
    {
        let server = Server::start(&data, &listen);
        assert_eq!(run(&etcdctl, &server.url, &["get", "a", "--print-value-only"]).trim(), "1");
    }
    // What etcdctl saved is a snapshot like ours.
    let (copy, restored) = (directory.path().join("copy"), directory.path().join("restored"));
    let copy = copy.display().to_string();
    assert!(store(&data, &["check", &copy]).contains("sound"));
    store(&restored, &["restore", &copy]);
    let server = Server::start(&restored, &listen);
    assert_eq!(run(&etcdctl, &server.url, &["get", "a", "--print-value-only"]).trim(), "1");
}

#[test]
fn clients_of_a_store_that_was_restored_are_told_that_what_they_remember_is_gone() {
    let Some(etcdctl) = etcdctl() else { return };
    let directory = tempfile::tempdir().unwrap();
    let (data, restored) = (directory.path().join("data"), directory.path().join("restored"));
    let listen = ["--listen", "http://127.0.0.1:0"];
    let copy = directory.path().join("copy").display().to_string();
    {
        let server = Server::start(&data, &listen);
        run(&etcdctl, &server.url, &["put", "a", "1"]);
        store(&data, &["snapshot", &copy]);
        // Revision 3, which the snapshot does not have.
        run(&etcdctl, &server.url, &["put", "a", "lost"]);
    }
    store(&restored, &["restore", &copy]);
    let server = Server::start(&restored, &listen);
    for revision in ["2", "3", "4"] {
        for command in ["get", "watch"] {
            let rev = format!("--rev={revision}");
            let said = refused(&etcdctl, &server.url, &[command, "a", &rev]);
            assert!(said.contains("required revision has been compacted"), "{command}: {said}");
        }
    }
    run(&etcdctl, &server.url, &["put", "b", "new"]);
    let found = json(&run(&etcdctl, &server.url, &["get", "", "--prefix", "-w", "json"]));
    assert_eq!(found["header"]["revision"], 1_000_000_003);
    let versions = |it: &serde_json::Value| it["mod_revision"].as_u64().unwrap();
    let versions: Vec<u64> = found["kvs"].as_array().unwrap().iter().map(versions).collect();
    assert_eq!(versions, [2, 1_000_000_003]);
}

#[test]
fn what_would_be_open_to_everybody_is_not_served() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let check = |flags: &[&str], expected: &str| {
        let said = store_refuses(&data, &[&["serve"], flags].concat());
        assert!(said.contains(expected), "{flags:?}: {said}");
    };
    check(&["--listen", "http://0.0.0.0:0"], "loopback");
    check(&["--listen", "https://127.0.0.1:0"], "certificate");
    check(&["--trusted-ca-file", "/dev/null"], "--client-cert-auth");
    check(&["--listen", "ftp://127.0.0.1:0"], "must be https://");
}
