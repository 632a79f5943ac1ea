//! A machine for one run: `xebec up` in a network namespace of its own, started and killed at will,
//! with kubectl to talk to it. Purged when dropped.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use crate::process::output;
use crate::say;

pub(super) struct Host {
    /// Holds the namespace open until everything is removed.
    namespace: Child,
    directory: tempfile::TempDir,
    binary: PathBuf,
    child: Option<Child>,
}

/// Looks at most: a state that does not come is an error that shows the last one.
const LOOKS_MAX: u32 = 1200;
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

impl Host {
    pub(super) fn new(binary: &Path) -> Result<Self> {
        let mut namespace = Command::new("unshare")
            .args(["--net", "sh", "-c", "ip link set lo up; echo; exec sleep 1000000"])
            .stdout(Stdio::piped())
            .spawn()
            .context("making a network namespace")?;
        let stdout = namespace.stdout.take().context("standard output is piped")?;
        BufReader::new(stdout).read_line(&mut String::new())?;
        let directory = tempfile::tempdir()?;
        Ok(Self { namespace, directory, binary: binary.to_owned(), child: None })
    }

    /// What is started from now on.
    pub(super) fn set_binary(&mut self, binary: &Path) {
        self.binary = binary.to_owned();
    }

    fn inside(&self, program: &Path) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/proc/{}/ns/net", self.namespace.id())).arg("--").arg(program);
        command
            .env("KUBECONFIG", self.directory.path().join("data/kubeconfig"))
            .env("XEBEC_REGISTRY", self.directory.path().join("clusters"))
            .env("HOME", self.directory.path())
            .stdin(Stdio::null());
        command
    }

    /// Returns when the node is ready.
    pub(super) fn up(&mut self) -> Result<()> {
        let log = self.directory.path().join("log");
        let cgroup = format!("xebec-torture-{}", std::process::id());
        let mut child = self
            .inside(&self.binary)
            .args(["up", "--node-name", "node-a", "--cgroup-root", &cgroup, "--data-dir"])
            .arg(self.directory.path().join("data"))
            .env("KUBECONFIG", self.directory.path().join("user-kubeconfig"))
            .stdout(Stdio::piped())
            .stderr(File::options().create(true).append(true).open(&log)?)
            .spawn()
            .context("starting xebec up")?;
        let stdout = child.stdout.take().context("standard output is piped")?;
        let mut lines = BufReader::new(stdout).lines();
        let is_ready =
            lines.by_ref().map_while(Result::ok).any(|it| it.contains("Your cluster is ready"));
        if !is_ready {
            let log = fs::read_to_string(&log)?;
            bail!("xebec up ended before it was ready: {log}");
        }
        // Keep reading, so that the child never blocks on a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        self.child = Some(child);
        Ok(())
    }

    pub(super) fn kill(&mut self) -> Result<()> {
        let mut child = self.child.take().context("it runs")?;
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    pub(super) fn kubectl(&self, words: &[&str]) -> Result<String> {
        output(self.inside(Path::new("kubectl")).args(words))
    }

    /// Again and again, until the output is right.
    pub(super) fn until(&self, words: &[&str], is_right: impl Fn(&str) -> bool) -> Result<String> {
        let mut last = String::new();
        for _ in 0..LOOKS_MAX {
            match self.kubectl(words) {
                Ok(text) if is_right(&text) => return Ok(text),
                Ok(text) => last = text,
                Err(err) => last = format!("{err:#}"),
            }
            std::thread::sleep(BETWEEN_LOOKS);
        }
        bail!("kubectl {words:?} never became right; last:\n{last}")
    }

    pub(super) fn apply(&self, manifest: &str) -> Result<()> {
        let path = self.directory.path().join("manifest.yaml");
        fs::write(&path, manifest)?;
        let path = path.to_string_lossy();
        // The namespace's ServiceAccount is made in the first moments of a cluster.
        self.until(&["apply", "-f", &path], |_| true).map(drop)
    }

    pub(super) fn wait_ready(&self, selector: &str, count: usize) -> Result<()> {
        let template = "jsonpath={.items[*].status.conditions[?(@.type=='Ready')].status}";
        self.until(&["get", "pods", "-l", selector, "-o", template], |it| {
            it.split_whitespace().filter(|it| *it == "True").count() == count
        })
        .map(drop)
    }

    /// Which containers run, and how often they were started: what must not change.
    pub(super) fn containers(&self, selector: &str) -> Result<String> {
        let one = "{.metadata.name} {.status.containerStatuses[*].containerID} {.status.containerStatuses[*].restartCount}";
        let template = format!("jsonpath={{range .items[*]}}{one};{{end}}");
        self.kubectl(&["get", "pods", "-l", selector, "-o", &template])
    }

    /// The numbers that a chatty pod has printed have no gap. Returns how many they are.
    pub(super) fn check_log(&self, pod: &str) -> Result<usize> {
        let log = self.kubectl(&["logs", pod])?;
        let numbers: Vec<u64> = log
            .lines()
            .map(|it| it.parse().with_context(|| format!("{pod} has printed {it:?}")))
            .collect::<Result<_>>()?;
        for pair in numbers.windows(2) {
            ensure!(pair[1] == pair[0] + 1, "a gap in the log of {pod}: {} {}", pair[0], pair[1]);
        }
        Ok(numbers.len())
    }

    /// Of every sandbox, from its record.
    pub(super) fn holders(&self) -> Result<Vec<i64>> {
        let mut holders = Vec::new();
        for entry in fs::read_dir(self.directory.path().join("data/containers/sandboxes"))? {
            let record: serde_json::Value =
                serde_json::from_slice(&fs::read(entry?.path().join("holder.json"))?)?;
            holders.push(record["pid"].as_i64().context("a holder has a pid")?);
        }
        Ok(holders)
    }

    /// A sandbox goes a moment after its pod's object.
    pub(super) fn until_no_sandbox(&self) -> Result<()> {
        let directory = self.directory.path().join("data/containers/sandboxes");
        for _ in 0..LOOKS_MAX {
            if fs::read_dir(&directory)?.next().is_none() {
                return Ok(());
            }
            std::thread::sleep(BETWEEN_LOOKS);
        }
        bail!("deleted pods have left sandboxes in {}", directory.display())
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
            let _ = child.wait();
        }
        let purged = self
            .inside(&self.binary)
            .args(["down", "--purge", "--data-dir"])
            .arg(self.directory.path().join("data"))
            .env("KUBECONFIG", self.directory.path().join("user-kubeconfig"))
            .stdout(Stdio::null())
            .status();
        if !purged.is_ok_and(|it| it.success()) {
            say("WARNING: not everything was removed");
        }
        let _ = self.namespace.kill();
        let _ = self.namespace.wait();
    }
}

/// Sends a signal to one process.
pub(super) fn send(signal: &str, pid: i64) -> Result<()> {
    output(Command::new("kill").args([format!("-{signal}"), pid.to_string()])).map(drop)
}

/// Processes of this machine whose command line ends with these words.
pub(super) fn processes(words: &[&str]) -> Result<Vec<i64>> {
    let end: Vec<u8> = words.iter().flat_map(|it| [b"\0", it.as_bytes()].concat()).collect();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|it| it.parse().ok()) else { continue };
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        if line.strip_suffix(b"\0").is_some_and(|it| it.ends_with(&end)) {
            found.push(pid);
        }
    }
    Ok(found)
}

/// Pods that print numbers, one every ten milliseconds.
pub(super) fn chatty(count: usize) -> String {
    let pods =
        (0..count).map(|n| pod(&format!("chatty-{n}"), "chatty", "[count, --interval, '0.01']"));
    pods.collect::<Vec<_>>().join("---\n")
}

pub(super) fn pod(name: &str, label: &str, args: &str) -> String {
    format!(
        "apiVersion: v1
kind: Pod
metadata: {{name: {name}, labels: {{app: {label}}}}}
spec:
  terminationGracePeriodSeconds: 2
  containers: [{{name: main, image: xebec.local/toolbox, args: {args}}}]
"
    )
}
