//! The API server's certificate over starts on different addresses, on one data directory.

use std::path::Path;
use std::process::{Command, Output};

fn xebec(home: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xebec"))
        .args(words)
        .args(["--data-dir", &home.join("data").display().to_string()])
        .env("KUBECONFIG", home.join("user-kubeconfig"))
        .env("HOME", home)
        .output()
        .unwrap()
}

/// Stops the background process even when the test fails.
struct Background<'a>(&'a Path);

impl Drop for Background<'_> {
    fn drop(&mut self) {
        xebec(self.0, &["down", "--purge"]);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Where the kubeconfig that was written says that the server is.
fn server(home: &Path) -> String {
    let text = std::fs::read_to_string(home.join("data/kubeconfig")).unwrap();
    let line = text.lines().find_map(|it| it.trim().strip_prefix("server: ")).unwrap();
    line.trim_matches('"').to_owned()
}

/// With the certificate verified for that very address or name.
fn is_ready(home: &Path, host: &str, port: &str) -> bool {
    let output = Command::new("curl")
        .args([
            "-sS",
            "--max-time",
            "20",
            "--resolve",
            &format!("api.example.test:{port}:127.0.0.1"),
        ])
        .arg("--cacert")
        .arg(home.join("data/pki/ca.crt"))
        .arg(format!("https://{host}:{port}/readyz"))
        .output()
        .unwrap();
    text(&output.stdout) == "ok"
}

#[test]
fn the_certificate_is_for_what_the_server_listens_on_at_this_start() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    let _background = Background(home);
    let up = |flags: &[&str]| {
        let own = ["up", "--node", "none", "--https-port", "0", "--detach"];
        let output = xebec(home, &[&own, flags].concat());
        assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
        let server = server(home);
        let (host, port) = server.strip_prefix("https://").unwrap().rsplit_once(':').unwrap();
        (host.to_owned(), port.to_owned())
    };
    let down = || assert!(xebec(home, &["down"]).status.success());
    let (host, port) = up(&[]);
    assert_eq!(host, "127.0.0.1");
    assert!(is_ready(home, &host, &port));
    assert!(!is_ready(home, "api.example.test", &port), "nobody named it");
    down();
    let (host, port) = up(&["--bind-address", "127.0.0.2"]);
    assert_eq!(host, "127.0.0.2");
    assert!(is_ready(home, &host, &port));
    down();
    let (_, port) = up(&["--bind-address", "::", "--tls-san", "api.example.test"]);
    for host in ["127.0.0.1", "[::1]", "api.example.test"] {
        assert!(is_ready(home, host, &port), "{host}");
    }
}

#[test]
fn names_that_are_none_are_refused() {
    let home = tempfile::tempdir().unwrap();
    let check = |flags: &[&str], expected: &str| {
        let output = xebec(home.path(), &[&["up", "--node", "none"], flags].concat());
        assert!(!output.status.success(), "{flags:?}");
        let said = text(&output.stderr);
        assert!(said.contains(expected), "{flags:?}: {said}");
        assert!(!home.path().join("data").exists(), "something was made");
    };
    check(&["--tls-san", "a_b"], "'a_b' for '--tls-san");
    check(&["--tls-san", "good,10.0.0.0/8"], "neither a DNS name nor an IP address");
    check(&["--advertise-address", "127.0.0.1"], "may not be in the loopback range");
    check(&["--advertise-address", "192.0.2.1"], "nobody reaches the API server there");
}
