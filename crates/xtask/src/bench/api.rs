//! `cargo xtask bench api`: what single calls, lists and watches cost over TLS, with RBAC and a
//! synced disk, the load on the same cores. `UPSTREAM_KUBECONFIG` names an API server of upstream's
//! to be loaded in the same run, `UPSTREAM_PID` its process, so that its CPU time is known too.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::up::Cluster;
use super::usage;
use crate::process::{output, run};
use crate::say;

/// A server under load.
#[derive(Clone)]
struct Server {
    name: &'static str,
    kubeconfig: PathBuf,
    pid: Option<u32>,
    load: PathBuf,
}

/// What one load found, and the server's CPU seconds meanwhile.
struct Found {
    result: Value,
    cpu: Option<f64>,
}

pub(crate) fn measure(root: &Path) -> Result<()> {
    let mut build = Command::new("cargo");
    run(build.args(["build", "--release", "--bin", "xebec"]).current_dir(root))?;
    let mut build = Command::new("cargo");
    build.args(["build", "--release", "-p", "client", "--example", "load"]);
    run(build.current_dir(root))?;
    let load = root.join("target/release/examples/load");
    let cluster = Cluster::start(&root.join("target/release/xebec"), 0)?;
    let ours = Server {
        name: "xebec",
        kubeconfig: cluster.kubeconfig(),
        pid: Some(cluster.pid()),
        load: load.clone(),
    };
    let upstream = std::env::var_os("UPSTREAM_KUBECONFIG").map(|kubeconfig| Server {
        name: "upstream",
        kubeconfig: kubeconfig.into(),
        pid: std::env::var("UPSTREAM_PID").ok().and_then(|it| it.parse().ok()),
        load,
    });
    let by_token = cluster.by_token()?;
    let tokens = Server { name: "xebec, by token", kubeconfig: by_token, ..ours.clone() };
    for server in [Some(&ours), upstream.as_ref()].into_iter().flatten() {
        // First, before other loads leave memory to be used again.
        server.idle(1_000)?;
        server.calls(&["create", "64", "10"])?;
        server.calls(&["create", "1", "5"])?;
        server.calls(&["get", "64", "5"])?;
    }
    tokens.calls(&["get", "64", "5"])?;
    for server in [Some(&ours), upstream.as_ref()].into_iter().flatten() {
        server.deliveries(&["watch", "100", "1000"])?;
        server.deliveries(&["one", "5000", "1000"])?;
        // What the same writes cost with nobody who looks on.
        server.deliveries(&["one", "1", "1000"])?;
        server.list()?;
    }
    Ok(())
}

impl Server {
    fn load(&self, words: &[&str]) -> Result<Found> {
        let before = self.cpu()?;
        let text = output(Command::new(&self.load).arg(&self.kubeconfig).args(words))?;
        let cpu = self.cpu()?.zip(before).map(|(after, before)| after - before);
        let last = text.lines().last().context("a load says what it found")?;
        Ok(Found { result: serde_json::from_str(last)?, cpu })
    }

    fn cpu(&self) -> Result<Option<f64>> {
        self.pid.map(usage::cpu_seconds).transpose()
    }

    fn tell(&self, what: &str, found: &Found, counted: &str) {
        let count = found.result[counted].as_f64().unwrap_or(f64::NAN);
        let each = found.cpu.map(|it| format!(", {:.1} us of CPU each", it * 1e6 / count));
        say(&format!("{}: {what}: {}{}", self.name, found.result, each.unwrap_or_default()));
    }

    fn calls(&self, words: &[&str]) -> Result<()> {
        self.tell(&words.join(" "), &self.load(words)?, "operations");
        Ok(())
    }

    /// From when all watches are open.
    fn deliveries(&self, words: &[&str]) -> Result<()> {
        let mut load = Command::new(&self.load)
            .arg(&self.kubeconfig)
            .args(words)
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = load.stdout.take().context("standard output is piped")?;
        let mut lines = BufReader::new(stdout).lines();
        lines.next().context("the watches were not opened")??;
        let before = self.cpu()?;
        let last = lines.next().context("a load says what it found")??;
        let cpu = self.cpu()?.zip(before).map(|(after, before)| after - before);
        load.wait()?;
        let found = Found { result: serde_json::from_str(&last)?, cpu };
        self.tell(&words.join(" "), &found, "deliveries");
        Ok(())
    }

    fn list(&self) -> Result<()> {
        self.load(&["fill", "24000", "1500"])?;
        self.tell("list", &self.load(&["list", "10"])?, "operations");
        Ok(())
    }

    /// What a watch that sees nothing holds.
    fn idle(&self, watchers: usize) -> Result<()> {
        let Some(pid) = self.pid else { return Ok(()) };
        let before = usage::memory(pid, "RssAnon")?;
        let mut load = Command::new(&self.load)
            .arg(&self.kubeconfig)
            .args(["idle", &watchers.to_string(), "3"])
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = load.stdout.take().context("standard output is piped")?;
        let mut lines = BufReader::new(stdout).lines();
        let Some(_open) = lines.next() else { bail!("the watches were not opened") };
        let each = (usage::memory(pid, "RssAnon")? - before) * 1024.0 / watchers as f64;
        load.wait()?;
        say(&format!("{}: an idle watch holds {each:.1} KiB, its part of TLS included", self.name));
        Ok(())
    }
}
