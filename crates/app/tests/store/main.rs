//! The store as a user looks after it: `xebec store` beside a running cluster and without one, a
//! full disk, `kill -9`, and etcd in its place. The real binary, kubectl, etcd and etcdctl.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says what it skips"
)]

#[path = "../kubectl/cluster.rs"]
#[expect(dead_code, reason = "shared with the kubectl tests, which use all of it")]
mod cluster;
mod commands;
mod crash;
mod damage;
mod etcd;
mod full_disk;
mod serve;

use std::path::Path;
use std::process::Command;

/// What a run of `xebec` said.
struct Said {
    is_ok: bool,
    stdout: String,
    stderr: String,
}

fn xebec(arguments: &[&str]) -> Said {
    // Whatever others run: data directories are always given.
    let nowhere = std::env::temp_dir().join("xebec-test-no-clusters");
    let mut command = Command::new(env!("CARGO_BIN_EXE_xebec"));
    let output = command.args(arguments).env("XEBEC_REGISTRY", nowhere).output().unwrap();
    Said {
        is_ok: output.status.success(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// `xebec store` on a data directory; must succeed.
fn store(data: &Path, arguments: &[&str]) -> String {
    let said = xebec(&[&["store", "--data-dir", data.to_str().unwrap()], arguments].concat());
    assert!(said.is_ok, "{arguments:?}: {}{}", said.stdout, said.stderr);
    said.stdout
}

/// The same, but must fail; returns what it says on standard error.
fn store_refuses(data: &Path, arguments: &[&str]) -> String {
    let said = xebec(&[&["store", "--data-dir", data.to_str().unwrap()], arguments].concat());
    assert!(!said.is_ok, "{arguments:?} should have failed but said {}", said.stdout);
    said.stderr
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}
