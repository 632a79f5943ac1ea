//! `cargo xtask bench get`: what the server spends on one GET, by how its sender proves who it is. Needs kubectl and curl.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};

use super::up::Cluster;
use super::usage::{self, report};
use crate::process::{output, run};

/// One after the other, over one connection.
const REQUESTS: usize = 20_000;
/// Before them, so that everything is warm.
const WARM: usize = 1_000;
/// The budget of a GET, in microseconds of the server's CPU.
const BUDGET: f64 = 30.0;

pub(crate) fn measure(root: &Path) -> Result<()> {
    run(Command::new("cargo").args(["build", "--release", "--bin", "xebec"]).current_dir(root))?;
    let cluster = Cluster::start(&root.join("target/release/xebec"), 0)?;
    let kubectl = |words: &[&str]| {
        output(Command::new("kubectl").arg("--kubeconfig").arg(cluster.kubeconfig()).args(words))
    };
    let server = kubectl(&["config", "view", "-o", "jsonpath={.clusters[0].cluster.server}"])?;
    kubectl(&["create", "serviceaccount", "reader"])?;
    kubectl(&[
        "create",
        "clusterrolebinding",
        "reader",
        "--clusterrole=view",
        "--serviceaccount=default:reader",
    ])?;
    let token = kubectl(&["create", "token", "reader"])?;
    let pki = cluster.kubeconfig().with_file_name("pki");
    let text = |name: &str| pki.join(name).display().to_string();
    let by_certificate =
        ["--cert".to_owned(), text("admin.crt"), "--key".to_owned(), text("admin.key")];
    let by_token = ["-H".to_owned(), format!("Authorization: Bearer {}", token.trim())];
    for (what, credential) in [("certificate", &by_certificate[..]), ("token", &by_token[..])] {
        let curl = |count: usize| {
            // What is behind # is not sent: the same request, so many times.
            let url = format!("{server}/api/v1/namespaces/default#[1-{count}]");
            let mut command = Command::new("curl");
            command.args(["-sS", "--fail", "-o", "/dev/null", "--cacert", &text("ca.crt")]);
            run(command.args(credential).arg(url).stdout(Stdio::null())).context("curl")
        };
        curl(WARM)?;
        let before = usage::cpu_seconds(cluster.pid())?;
        curl(REQUESTS)?;
        let used = usage::cpu_seconds(cluster.pid())? - before;
        report(&format!("GET by {what}"), used * 1e6 / REQUESTS as f64, "us", BUDGET);
    }
    Ok(())
}
