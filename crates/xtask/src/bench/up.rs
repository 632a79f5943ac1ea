//! `cargo xtask bench up`: how fast a cluster is ready, what it costs when idle, and how it takes
//! 10,000 pods.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::median;
use super::usage::{self, now, report};
use crate::process::{output, run};
use crate::say;

pub(crate) fn measure(root: &Path) -> Result<()> {
    run(Command::new("cargo").args(["build", "--release", "--bin", "xebec"]).current_dir(root))?;
    let binary = root.join("target/release/xebec");
    report("release binary", fs::metadata(&binary)?.len() as f64 / 1_048_576.0, "MiB", 35.0);
    let starts = (0..7).map(|_| start_time(&binary)).collect::<Result<Vec<_>>>()?;
    report("exec to /readyz, median of 7, empty directory", median(starts), "ms", 150.0);
    super::node::phases::measure(&binary)?;
    idle(&binary)?;
    scale(&binary, 1_000, 10_000)
}

/// A running `xebec up` in a directory of its own; stopped and removed when dropped.
pub(crate) struct Cluster {
    child: Child,
    directory: tempfile::TempDir,
    ready_after: Duration,
}

impl Cluster {
    pub(crate) fn start(binary: &Path, simulate: usize) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let started = now();
        let mut child = Command::new(binary)
            .args([
                "up",
                "--node",
                "none",
                "--simulate",
                &simulate.to_string(),
                "--https-port",
                &port.to_string(),
            ])
            .arg("--data-dir")
            .arg(directory.path().join("data"))
            .env("KUBECONFIG", directory.path().join("user-kubeconfig"))
            .env("XEBEC_REGISTRY", directory.path().join("clusters"))
            .stdout(Stdio::piped())
            .stderr(fs::File::create(directory.path().join("log"))?)
            .spawn()
            .context("starting xebec up")?;
        let stdout = child.stdout.take().context("standard output is piped")?;
        let mut lines = BufReader::new(stdout).lines();
        let ready_after = loop {
            let Some(line) = lines.next() else { bail!("xebec up ended before it was ready") };
            if line?.contains("API server ready") {
                break started.elapsed();
            }
        };
        // Keep reading, so that the child never blocks on a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        let cluster = Self { child, directory, ready_after };
        let answer = cluster.get("/readyz")?;
        if answer.trim() != "ok" {
            bail!("/readyz answered {answer:?} although the server said it was ready");
        }
        Ok(cluster)
    }

    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(super) fn wait_for_nodes(&self, nodes: usize) -> Result<()> {
        wait(Duration::from_secs(120), || {
            let mut kubectl = Command::new("kubectl");
            kubectl.arg("--kubeconfig").arg(self.kubeconfig());
            let ready = output(kubectl.args(["get", "nodes", "--no-headers"]))?;
            Ok(ready.lines().filter(|it| it.contains(" Ready ")).count() == nodes)
        })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A kubeconfig whose user proves itself by the token of a service account, with every right.
    pub(super) fn by_token(&self) -> Result<PathBuf> {
        let kubectl = |words: &[&str]| {
            let mut command = Command::new("kubectl");
            output(command.arg("--kubeconfig").arg(self.kubeconfig()).args(words))
        };
        kubectl(&["create", "serviceaccount", "load"])?;
        let account = "--serviceaccount=default:load";
        kubectl(&["create", "clusterrolebinding", "load", "--clusterrole=cluster-admin", account])?;
        let token = kubectl(&["create", "token", "load"])?;
        let path = self.directory.path().join("by-token");
        fs::copy(self.kubeconfig(), &path)?;
        let set = |words: &[&str]| {
            let mut command = Command::new("kubectl");
            output(command.arg("--kubeconfig").arg(&path).args(["config"]).args(words))
        };
        set(&["set-credentials", "load", &format!("--token={}", token.trim())])?;
        set(&["set-context", "--current", "--user=load"])?;
        Ok(path)
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.directory.path().join("data/kubeconfig")
    }

    fn get(&self, path: &str) -> Result<String> {
        output(
            Command::new("kubectl")
                .arg("--kubeconfig")
                .arg(self.kubeconfig())
                .args(["get", "--raw", path]),
        )
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        let _ = self.child.wait();
    }
}

fn start_time(binary: &Path) -> Result<f64> {
    Ok(Cluster::start(binary, 0)?.ready_after.as_secs_f64() * 1000.0)
}

fn idle(binary: &Path) -> Result<()> {
    let cluster = Cluster::start(binary, 0)?;
    std::thread::sleep(Duration::from_secs(10));
    let (cpu, written) =
        (usage::cpu_seconds(cluster.child.id())?, usage::written_bytes(cluster.child.id())?);
    std::thread::sleep(Duration::from_secs(60));
    report("idle RSS", usage::memory(cluster.child.id(), "VmRSS")?, "MiB", 40.0);
    report(
        "idle CPU over 60 s",
        (usage::cpu_seconds(cluster.child.id())? - cpu) / 60.0 * 100.0,
        "% of a core",
        0.2,
    );
    say(&format!(
        "idle writes over 60 s: {} bytes",
        usage::written_bytes(cluster.child.id())? - written
    ));
    Ok(())
}

fn scale(binary: &Path, nodes: usize, pods: usize) -> Result<()> {
    const DEPLOYMENTS: usize = 20;
    let cluster = Cluster::start(binary, nodes)?;
    let kubectl = || {
        let mut command = Command::new("kubectl");
        command.arg("--kubeconfig").arg(cluster.kubeconfig());
        command
    };
    cluster.wait_for_nodes(nodes)?;
    let manifest = cluster.directory.path().join("deployments.yaml");
    fs::write(&manifest, deployments(DEPLOYMENTS, pods / DEPLOYMENTS))?;
    let (started, cpu) = (now(), usage::cpu_seconds(cluster.child.id())?);
    run(kubectl().args(["create", "-f"]).arg(&manifest).stdout(Stdio::null()))?;
    wait(Duration::from_secs(300), || {
        let ready = output(kubectl().args([
            "get",
            "deployments",
            "-o",
            "jsonpath={.items[*].status.readyReplicas}",
        ]))?;
        Ok(ready.split_whitespace().filter_map(|it| it.parse::<usize>().ok()).sum::<usize>()
            == pods)
    })?;
    let seconds = started.elapsed().as_secs_f64();
    report(&format!("{pods} pods on {nodes} nodes Running"), seconds, "s", 20.0);
    report("peak RSS", usage::memory(cluster.child.id(), "VmHWM")?, "MiB", 400.0);
    let cpu = usage::cpu_seconds(cluster.child.id())? - cpu;
    say(&format!("CPU per pod, whole control plane: {:.2} ms", cpu * 1000.0 / pods as f64));
    Ok(())
}

pub(super) fn wait(limit: Duration, mut is_done: impl FnMut() -> Result<bool>) -> Result<()> {
    let started = now();
    while started.elapsed() < limit {
        if is_done()? {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(250));
    }
    bail!("not done after {limit:?}")
}

/// One YAML document each.
fn deployments(count: usize, replicas: usize) -> String {
    let items: Vec<String> = (0..count)
        .map(|it| {
            let labels = serde_json::json!({ "app": format!("load-{it}") });
            serde_json::json!({
                "apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": { "name": format!("load-{it}"), "namespace": "default" },
                "spec": {
                    "replicas": replicas,
                    "selector": { "matchLabels": labels },
                    "template": {
                        "metadata": { "labels": labels },
                        "spec": { "containers": [{
                            "name": "main", "image": "xebec.local/toolbox",
                            "resources": { "requests": { "cpu": "10m", "memory": "16Mi" } },
                        }] },
                    },
                },
            })
            .to_string()
        })
        .collect();
    // Starting as YAML does: kubectl takes a file that starts with a brace for JSON.
    format!("---\n{}", items.join("\n---\n"))
}
