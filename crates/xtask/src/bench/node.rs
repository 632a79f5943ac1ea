//! The node's part of `cargo xtask bench up`: how fast pods are ready, and what ten of them cost
//! when nothing happens. Runs in a network namespace of its own.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::median;
use super::usage::{self, now, report};
use crate::process::output;
use crate::say;

const PODS: usize = 10;
const API: &str = "https://127.0.0.1:6443";

pub(super) fn measure(binary: &Path) -> Result<()> {
    let mut starts = Vec::new();
    for _ in 0..5 {
        let node = Node::start(binary)?;
        let ready = node.ready_after.as_secs_f64() * 1000.0;
        let first = node.pod_ready("first")?.duration_since(node.started);
        starts.push((ready, first.as_secs_f64() * 1000.0));
    }
    let (ready, first) = (starts.iter().map(|it| it.0), starts.iter().map(|it| it.1));
    report("exec to node Ready, median of 5", median(ready), "ms", 500.0);
    report("exec to the first toolbox pod Ready, median of 5", median(first), "ms", 1200.0);

    let node = Node::start(binary)?;
    let mut times = Vec::new();
    for number in 0..PODS {
        let created = now();
        let ready = node.pod_ready(&format!("pod-{number}"))?;
        times.push(ready.duration_since(created).as_secs_f64() * 1000.0);
    }
    // The first brings its image.
    let further = times.split_off(1);
    report("create to Ready of a further pod, median", median(further), "ms", 150.0);
    idle(&node)
}

fn idle(node: &Node) -> Result<()> {
    let pid = node.child.id();
    std::thread::sleep(Duration::from_secs(15));
    let (cpu, written) = (usage::cpu_seconds(pid)?, usage::written_bytes(pid)?);
    std::thread::sleep(Duration::from_secs(60));
    report("idle RSS with a node and ten pods", usage::memory(pid, "VmRSS")?, "MiB", 55.0);
    let cpu = (usage::cpu_seconds(pid)? - cpu) / 60.0 * 100.0;
    report("idle CPU over 60 s with ten pods", cpu, "% of a core", 0.3);
    let written = usage::written_bytes(pid)? - written;
    say(&format!("idle writes over 60 s with ten pods: {written} bytes"));
    let holders = holders(&node.directory.path().to_string_lossy());
    let mut resident = Vec::new();
    let mut proportional = Vec::new();
    for holder in &holders {
        resident.push(usage::memory(*holder, "VmRSS")?);
        proportional.push(usage::proportional_memory(*holder)?);
    }
    resident.sort_by(f64::total_cmp);
    proportional.sort_by(f64::total_cmp);
    let largest = resident.last().copied().context("holders run")?;
    report("RSS of the largest of ten holders", largest, "MiB", 1.5);
    let share = proportional.last().copied().unwrap_or(0.0);
    say(&format!("PSS of the largest of {} holders: {share:.2} MiB", holders.len()));
    Ok(())
}

/// Processes of holders whose command line names the directory.
fn holders(directory: &str) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|it| it.file_name().to_string_lossy().parse().ok());
    pids.filter(|pid: &u32| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words).into_owned();
        words.contains("holder") && words.contains(directory)
    })
    .collect()
}

/// `xebec up` with a node, in a network namespace of its own; purged when dropped.
struct Node {
    child: Child,
    /// Holds the namespace open until everything is removed.
    namespace: Child,
    directory: tempfile::TempDir,
    cgroup: String,
    binary: std::path::PathBuf,
    started: Instant,
    ready_after: Duration,
}

impl Node {
    fn start(binary: &Path) -> Result<Self> {
        let mut namespace = Command::new("unshare")
            .args(["--net", "sh", "-c", "ip link set lo up; echo; exec sleep 100000"])
            .stdout(Stdio::piped())
            .spawn()
            .context("making a network namespace")?;
        let stdout = namespace.stdout.take().context("standard output is piped")?;
        BufReader::new(stdout).read_line(&mut String::new())?;
        let directory = tempfile::tempdir()?;
        let cgroup = format!("xebec-bench-{}", std::process::id());
        let started = now();
        let mut child = inside(&namespace, binary)
            .args(["up", "--node-name", "bench", "--cgroup-root", &cgroup, "--data-dir"])
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
            let Some(line) = lines.next() else {
                bail!(
                    "xebec up ended before it was ready: {}",
                    fs::read_to_string(directory.path().join("log"))?
                )
            };
            if line?.contains("node bench ready") {
                break started.elapsed();
            }
        };
        // Keep reading, so that the child never blocks on a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        let binary = binary.to_owned();
        Ok(Self { child, namespace, directory, cgroup, binary, started, ready_after })
    }

    fn curl(&self, path: &str) -> Command {
        let pki = self.directory.path().join("data/pki");
        let mut command = inside(&self.namespace, Path::new("curl"));
        command.arg("-sSN").arg("--fail-with-body").arg("--cacert").arg(pki.join("ca.crt"));
        command.arg("--cert").arg(pki.join("admin.crt")).arg("--key").arg(pki.join("admin.key"));
        command.arg(format!("{API}{path}"));
        command
    }

    /// Creates a pod and returns the moment at which a watch shows it Ready.
    fn pod_ready(&self, name: &str) -> Result<Instant> {
        let watch = format!(
            "/api/v1/namespaces/default/pods?watch=true&timeoutSeconds=60&fieldSelector=metadata.name%3D{name}"
        );
        let mut watch = self.curl(&watch).stdout(Stdio::piped()).spawn()?;
        let pod = serde_json::json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"containers": [{"name": "main", "image": "xebec.local/toolbox"}]},
        });
        let mut create = self.curl("/api/v1/namespaces/default/pods");
        create.args(["-H", "Content-Type: application/json", "-d", &pod.to_string()]);
        // The namespace's ServiceAccount is made in the first moments of a cluster.
        let mut tries = 0;
        while let Err(err) = output(&mut create) {
            tries += 1;
            if tries > 100 {
                return Err(err);
            }
        }
        let stdout = watch.stdout.take().context("standard output is piped")?;
        let mut found = None;
        for line in BufReader::new(stdout).lines() {
            let event: serde_json::Value = serde_json::from_str(&line?)?;
            let conditions = event["object"]["status"]["conditions"].as_array();
            let is_ready = |it: &serde_json::Value| it["type"] == "Ready" && it["status"] == "True";
            if conditions.is_some_and(|it| it.iter().any(is_ready)) {
                found = Some(now());
                break;
            }
        }
        watch.kill()?;
        watch.wait()?;
        found.with_context(|| format!("pod {name} was not ready within a minute"))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        let _ = self.child.wait();
        let purged = inside(&self.namespace, &self.binary)
            .args(["down", "--purge", "--data-dir"])
            .arg(self.directory.path().join("data"))
            .env("KUBECONFIG", self.directory.path().join("user-kubeconfig"))
            .stdout(Stdio::null())
            .status();
        if !purged.is_ok_and(|it| it.success()) {
            say(&format!("WARNING: not everything below cgroup {} was removed", self.cgroup));
        }
        let _ = self.namespace.kill();
        let _ = self.namespace.wait();
    }
}

fn inside(namespace: &Child, program: &Path) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/proc/{}/ns/net", namespace.id())).arg("--").arg(program);
    command
}
