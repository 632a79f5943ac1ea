//! The conformance suite of `tests/conformance` against a cluster of its own, with simulated nodes.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says what it skips"
)]

#[path = "../kubectl/cluster.rs"]
#[expect(dead_code, reason = "shared with the kubectl tests, which use all of it")]
mod cluster;

use std::process::{Child, Command};

use conformance::{Options, all, run};

/// Ends with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn every_requirement_in_scope_is_met() {
    let directory = tempfile::tempdir().unwrap();
    // A case waits until a list's moment is forgotten.
    let flags = ["--etcd-compaction-interval", "10s"].map(str::to_owned);
    let _server = Server(cluster::start_server(directory.path(), 2, &flags));
    let kubeconfig = directory.path().join("data/kubeconfig");
    let options = Options { kubeconfig, ..Options::default() };
    let report = run(&options, &all(""), |line| eprintln!("{line}")).await.unwrap();
    assert_eq!(report.failed, Vec::<String>::new(), "{report}");
}
