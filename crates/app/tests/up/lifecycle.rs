//! Starting, stopping, starting again, and what is refused.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::cluster::{Cluster, kubectl};

fn xebec(home: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xebec"))
        .args(arguments)
        .env("KUBECONFIG", home.join("user-kubeconfig"))
        .env("HOME", home)
        .env("XEBEC_REGISTRY", home.join("clusters"))
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Stops the background process even when the test fails.
struct Background<'a>(&'a Path);

impl Drop for Background<'_> {
    fn drop(&mut self) {
        let data = self.0.join("data").display().to_string();
        xebec(self.0, &["down", "--purge", "--data-dir", &data]);
    }
}

#[test]
fn detach_returns_when_ready_and_down_purge_leaves_nothing() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data").display().to_string();
    let other = "apiVersion: v1\nkind: Config\nclusters:\n- name: work\n  cluster: {server: 'https://work.example'}\ncontexts:\n- name: work\n  context: {cluster: work, user: me}\nusers:\n- name: me\n  user: {token: secret}\ncurrent-context: work\n";
    std::fs::write(home.path().join("user-kubeconfig"), other).unwrap();
    let _background = Background(home.path());
    let up = ["up", "--node", "none", "--https-port", "0", "--detach", "--data-dir", &data];
    let output = xebec(home.path(), &up);
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    assert!(text(&output.stdout).contains("Your cluster is ready"), "{}", text(&output.stdout));

    let merged = std::fs::read_to_string(home.path().join("user-kubeconfig")).unwrap();
    for wanted in ["https://work.example", "secret", "name: xebec", "current-context: xebec"] {
        assert!(merged.contains(wanted), "no {wanted} in\n{merged}");
    }
    let again = xebec(home.path(), &up);
    assert!(!again.status.success());
    assert!(text(&again.stderr).contains("a cluster already runs on"), "{}", text(&again.stderr));

    let down = xebec(home.path(), &["down", "--data-dir", &data]);
    assert!(
        down.status.success() && text(&down.stdout).contains("stopped"),
        "{}",
        text(&down.stderr)
    );
    let purge = xebec(home.path(), &["down", "--purge", "--data-dir", &data]);
    assert!(purge.status.success(), "{}", text(&purge.stderr));
    assert!(!Path::new(&data).exists());
    let left = std::fs::read_to_string(home.path().join("user-kubeconfig")).unwrap();
    assert!(left.contains("https://work.example") && !left.contains("xebec"), "{left}");
    assert!(left.contains("current-context: work"), "{left}");
}

#[test]
fn a_log_that_takes_nothing_holds_nobody_up() {
    let Some(kubectl) = kubectl() else { return };
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data").display().to_string();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut up = Command::new(env!("CARGO_BIN_EXE_xebec"))
        .args(["up", "--node", "none", "--https-port", "0", "-v", "5", "--data-dir", &data])
        .env("KUBECONFIG", home.path().join("user-kubeconfig"))
        .env("HOME", home.path())
        .env("XEBEC_REGISTRY", home.path().join("clusters"))
        .stdout(Stdio::piped())
        .stderr(full)
        .spawn()
        .unwrap();
    let lines = BufReader::new(up.stdout.take().unwrap()).lines();
    let is_ready = lines.map_while(Result::ok).any(|it| it.contains("Your cluster is ready"));
    assert!(is_ready, "it ended, or its tasks did");
    // Each request is a line, and many tasks write one.
    let kubeconfig = home.path().join("data/kubeconfig");
    let call = ["create", "configmap", "a", "--request-timeout=20s"];
    let call = Command::new(kubectl).arg("--kubeconfig").arg(kubeconfig).args(call).output();
    let call = call.unwrap();
    let down = xebec(home.path(), &["down", "--purge", "--data-dir", &data]);
    assert!(call.status.success(), "{}", text(&call.stderr));
    assert!(down.status.success(), "{}", text(&down.stderr));
    up.wait().unwrap();
}

#[test]
fn a_restart_keeps_objects_revisions_and_certificates() {
    let Some(mut cluster) = Cluster::start(0) else { return };
    cluster.ok(&["create", "configmap", "kept", "--from-literal=a=b"]);
    let object = cluster.ok(&["get", "configmap", "kept", "-o", "yaml"]);
    let certificate = std::fs::read(cluster.path("data/pki/apiserver.crt")).unwrap();
    let kubeconfig = std::fs::read(cluster.path("data/kubeconfig")).unwrap();
    cluster.stop();
    cluster.restart(0);
    assert_eq!(cluster.ok(&["get", "configmap", "kept", "-o", "yaml"]), object);
    assert_eq!(std::fs::read(cluster.path("data/pki/apiserver.crt")).unwrap(), certificate);
    assert_eq!(std::fs::read(cluster.path("data/kubeconfig")).unwrap(), kubeconfig);
}

/// Each refusal names what is wrong and leaves everything as it was.
#[test]
fn what_cannot_work_is_refused_clearly() {
    let home = tempfile::tempdir().unwrap();
    let check = |arguments: &[&str], expected: &str| {
        let output = xebec(home.path(), arguments);
        assert!(!output.status.success(), "{arguments:?} should have failed");
        let said = text(&output.stderr);
        assert!(said.contains(expected), "{arguments:?} said {said}");
    };
    let data = home.path().join("data").display().to_string();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    check(
        &["up", "--node", "none", "--https-port", &port, "--data-dir", &data],
        &format!("which process {} (", std::process::id()),
    );
    let foreign = home.path().join("photos");
    std::fs::create_dir(&foreign).unwrap();
    std::fs::write(foreign.join("cat.jpg"), "meow").unwrap();
    check(
        &["up", "--node", "none", "--https-port", "0", "--data-dir", foreign.to_str().unwrap()],
        "not a xebec data directory",
    );
    assert_eq!(std::fs::read_dir(&foreign).unwrap().count(), 1);
    check(
        &["up", "--node", "none", "--service-cidr", "10.96.0.0/40", "--data-dir", &data],
        "--service-cidr",
    );
    check(
        &["up", "--node", "none", "--data-dir", "/proc/nowhere"],
        "cannot use the data directory /proc/nowhere",
    );
    check(&["down", "--data-dir", foreign.to_str().unwrap()], "no xebec data directory");

    let corrupt = home.path().join("corrupt");
    let up = [
        "up",
        "--node",
        "none",
        "--https-port",
        "0",
        "--detach",
        "--data-dir",
        corrupt.to_str().unwrap(),
    ];
    assert!(xebec(home.path(), &up).status.success());
    assert!(
        xebec(home.path(), &["down", "--data-dir", corrupt.to_str().unwrap()]).status.success()
    );
    for entry in std::fs::read_dir(corrupt.join("store/log")).unwrap() {
        let path = entry.unwrap().path();
        let size = std::fs::metadata(&path).unwrap().len() as usize;
        std::fs::write(&path, vec![0x5a; size]).unwrap();
    }
    check(
        &["up", "--node", "none", "--https-port", "0", "--data-dir", corrupt.to_str().unwrap()],
        "opening the store",
    );
    check(&up, "the cluster did not start: opening the store");
}
