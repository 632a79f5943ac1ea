//! `xebec up` with a node, in a network namespace of its own; purged when dropped.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use super::super::usage::now;
use super::containerd::{Containerd, Daemon};
use crate::process::output;
use crate::say;

const API: &str = "https://127.0.0.1:6443";
const NODE: &str = "bench";

pub(super) struct Machine {
    child: Child,
    /// Holds the network namespace open until everything is removed.
    namespace: Child,
    daemon: Option<Daemon>,
    directory: tempfile::TempDir,
    cgroup: String,
    xebec: PathBuf,
    pub(super) ready_after: Duration,
}

impl Machine {
    /// With the embedded runtime.
    pub(super) fn start(xebec: &Path, words: &[&str]) -> Result<Self> {
        Self::start_in(make_namespace()?, xebec, words)
    }

    /// With that runtime, which is started in the same network namespace.
    pub(super) fn over(xebec: &Path, containerd: &Containerd) -> Result<Self> {
        let namespace = make_namespace()?;
        let daemon = containerd.start(&namespace)?;
        let endpoint = daemon.endpoint();
        let words = ["--container-runtime-endpoint", endpoint.as_str()];
        let mut machine = Self::start_in(namespace, xebec, &words)?;
        machine.daemon = Some(daemon);
        Ok(machine)
    }

    fn start_in(namespace: Child, xebec: &Path, words: &[&str]) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let cgroup = format!("xebec-bench-{}", std::process::id());
        let started = now();
        let mut child = inside(&namespace, xebec)
            .args(["up", "--node-name", NODE, "--cgroup-root", &cgroup])
            .args(words)
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
        let wanted = format!("node {NODE} ready");
        let ready_after = loop {
            let Some(line) = lines.next() else {
                let log = fs::read_to_string(directory.path().join("log"))?;
                bail!("xebec up ended before it was ready: {log}")
            };
            if line?.contains(&wanted) {
                break started.elapsed();
            }
        };
        // Keep reading, so that the child never blocks on a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        let xebec = xebec.to_owned();
        Ok(Self { child, namespace, daemon: None, directory, cgroup, xebec, ready_after })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.directory.path().join("data/kubeconfig")
    }

    pub(super) fn inside(&self, program: &Path) -> Command {
        inside(&self.namespace, program)
    }

    fn curl(&self, url: &str) -> Command {
        let pki = self.directory.path().join("data/pki");
        let mut command = self.inside(Path::new("curl"));
        command.arg("-sS").arg("--fail-with-body").arg("--cacert").arg(pki.join("ca.crt"));
        command.arg("--cert").arg(pki.join("admin.crt")).arg("--key").arg(pki.join("admin.key"));
        command.arg(url);
        command
    }

    /// The kubelet's page of metrics.
    pub(super) fn metrics(&self) -> Result<String> {
        let node = output(&mut self.curl(&format!("{API}/api/v1/nodes/{NODE}")))?;
        let node: Value = serde_json::from_str(&node)?;
        let port = node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"].as_u64();
        let port = port.context("the node says where its kubelet listens")?;
        let addresses = node["status"]["addresses"].as_array().into_iter().flatten();
        let internal = addresses.filter(|it| it["type"] == "InternalIP");
        let address = internal.filter_map(|it| it["address"].as_str()).next();
        let address = address.context("the node has an address")?;
        output(self.curl(&format!("https://{address}:{port}/metrics")).arg("--insecure"))
    }

    pub(super) fn create_pod(&self, name: &str, spec: &Value) -> Result<()> {
        let pod =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec});
        let mut create = self.curl(&format!("{API}/api/v1/namespaces/load/pods"));
        create.args(["-H", "Content-Type: application/json", "-d", &pod.to_string()]);
        output(&mut create).map(|_| ())
    }

    /// Returns when nothing of them is left.
    pub(super) fn delete_pods(&self) -> Result<()> {
        let mut kubectl = self.inside(Path::new("kubectl"));
        kubectl.arg("--kubeconfig").arg(self.kubeconfig());
        let words = ["delete", "pods", "--all", "-n", "load", "--timeout=120s", "--now"];
        output(kubectl.args(words)).map(|_| ())
    }

    /// Processes of holders whose command line names our directory.
    pub(super) fn holders(&self) -> Vec<u32> {
        let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
        let pids = entries.flatten().filter_map(|it| it.file_name().to_string_lossy().parse().ok());
        let directory = self.directory.path().to_string_lossy();
        pids.filter(|pid: &u32| {
            let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words = String::from_utf8_lossy(&words).into_owned();
            words.contains("holder") && words.contains(&*directory)
        })
        .collect()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        let _ = self.child.wait();
        let purged = inside(&self.namespace, &self.xebec)
            .args(["down", "--purge", "--data-dir"])
            .arg(self.directory.path().join("data"))
            .env("KUBECONFIG", self.directory.path().join("user-kubeconfig"))
            .env("XEBEC_REGISTRY", self.directory.path().join("clusters"))
            .stdout(Stdio::null())
            .status();
        if !purged.is_ok_and(|it| it.success()) {
            say(&format!("WARNING: not everything below cgroup {} was removed", self.cgroup));
        }
        self.daemon = None;
        let _ = self.namespace.kill();
        let _ = self.namespace.wait();
    }
}

pub(super) fn make_namespace() -> Result<Child> {
    let mut namespace = Command::new("unshare")
        .args(["--net", "sh", "-c", "ip link set lo up; echo; exec sleep 100000"])
        .stdout(Stdio::piped())
        .spawn()
        .context("making a network namespace")?;
    let stdout = namespace.stdout.take().context("standard output is piped")?;
    BufReader::new(stdout).read_line(&mut String::new())?;
    Ok(namespace)
}

pub(super) fn inside(namespace: &Child, program: &Path) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/proc/{}/ns/net", namespace.id())).arg("--").arg(program);
    command
}
