//! `xebec up` with a node on a host of its own, and the clients that talk to it.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::host::Host;

pub(crate) struct Cluster {
    child: Option<Child>,
    pub(crate) host: Host,
    directory: tempfile::TempDir,
    kubectl: PathBuf,
}

/// A command that has ended.
pub(crate) struct Ran {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) is_ok: bool,
}

impl Cluster {
    pub(crate) fn start() -> Option<Self> {
        let mut cluster = Self::prepare()?;
        cluster.up();
        Some(cluster)
    }

    /// The host alone; nothing of ours runs there yet.
    pub(crate) fn prepare() -> Option<Self> {
        let (kubectl, host) = (kubectl()?, Host::new()?);
        let directory = tempfile::tempdir().unwrap();
        Some(Self { child: None, host, directory, kubectl })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.path("data")
    }

    /// Writes a manifest and returns its path.
    pub(crate) fn file(&self, name: &str, content: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, content).unwrap();
        path.display().to_string()
    }

    pub(crate) fn apply(&self, name: &str, manifest: &str) {
        // Starting as YAML does: kubectl takes a file that starts with a brace for JSON.
        let path = self.file(name, &format!("---\n{manifest}"));
        self.ok(&["apply", "-f", &path]);
    }

    pub(crate) fn up(&mut self) {
        self.up_with(&[]);
    }

    /// With more flags. Returns when the node is Ready.
    pub(crate) fn up_with(&mut self, flags: &[&str]) {
        assert!(self.child.is_none(), "it runs already");
        let log = File::options().create(true).append(true).open(self.path("log")).unwrap();
        let own = ["up", "--node-name", "node-a", "--cgroup-root", &self.host.cgroup, "-v", "2"];
        let mut child =
            self.xebec(&[&own, flags].concat()).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let is_ready =
            lines.by_ref().map_while(Result::ok).any(|it| it.contains("Your cluster is ready"));
        assert!(is_ready, "xebec up ended before it was ready:\n{}", self.log());
        std::thread::spawn(move || lines.for_each(drop));
        self.child = Some(child);
    }

    /// `xebec` with the data directory of this cluster, on its host. By a relative path, as people
    /// type it.
    pub(crate) fn xebec(&self, arguments: &[&str]) -> Command {
        let mut command = self.host.command(env!("CARGO_BIN_EXE_xebec"));
        command
            .args(arguments)
            .args(["--data-dir", "data"])
            .current_dir(self.directory.path())
            .env("KUBECONFIG", self.path("user-kubeconfig"))
            .env("XEBEC_REGISTRY", self.path("clusters"))
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn xebec_ok(&self, arguments: &[&str]) -> String {
        let ran = ran(self.xebec(arguments).output().unwrap());
        assert!(ran.is_ok, "xebec {arguments:?} failed: {}{}", ran.stdout, ran.stderr);
        ran.stdout
    }

    pub(crate) fn kill(&mut self) {
        let mut child = self.child.take().expect("it runs");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Ctrl-C.
    pub(crate) fn stop(&mut self) {
        let mut child = self.child.take().expect("it runs");
        Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
        assert!(child.wait().unwrap().success(), "xebec up stops cleanly:\n{}", self.log());
    }

    #[allow(
        dead_code,
        clippy::allow_attributes,
        reason = "of those who share this file one needs it"
    )]
    pub(crate) fn kubectl(&self) -> &Path {
        &self.kubectl
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.host.command(&self.kubectl);
        command
            .args(arguments)
            .env("KUBECONFIG", self.path("data/kubeconfig"))
            .env("HOME", self.directory.path())
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        ran(self.command(arguments).output().unwrap())
    }

    /// Must succeed; returns standard output.
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert!(
            ran.is_ok,
            "kubectl {arguments:?} failed\n{}{}\n{}",
            ran.stdout,
            ran.stderr,
            self.state()
        );
        ran.stdout
    }

    /// Must fail; returns both streams.
    pub(crate) fn refused(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert!(!ran.is_ok, "kubectl {arguments:?} should have failed but said\n{}", ran.stdout);
        ran.stdout + &ran.stderr
    }

    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let text = self.ok(&[arguments, &["-o", "json"]].concat());
        serde_json::from_str(&text).unwrap()
    }

    /// One field of one object.
    pub(crate) fn field(&self, object: &[&str], path: &str) -> String {
        let template = format!("jsonpath={{{path}}}");
        self.ok(&[&["get"], object, &["-o", &template]].concat())
    }

    /// Runs until the output satisfies the condition; bounded, and shows the last output when it
    /// gives up.
    pub(crate) fn until(&self, arguments: &[&str], is_right: impl Fn(&str) -> bool) -> String {
        let mut last = String::new();
        for _ in 0..600 {
            let ran = self.run(arguments);
            last = ran.stdout + &ran.stderr;
            if is_right(&last) {
                return last;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("kubectl {arguments:?} never became right; last:\n{last}\n{}", self.state());
    }

    pub(crate) fn wait_ready(&self, selector: &str, count: usize) {
        let template = "jsonpath={.items[*].status.conditions[?(@.type=='Ready')].status}";
        self.until(&["get", "pods", "-l", selector, "-o", template], |it| {
            it.split_whitespace().filter(|it| *it == "True").count() == count
        });
    }

    /// Until so many endpoints of the Service are ready, and the node's rules know of one.
    pub(crate) fn wait_served(&self, service: &str, count: usize) {
        let of_service = format!("kubernetes.io/service-name={service}");
        self.until(&["get", "endpointslices", "-l", &of_service, "-o", "yaml"], |it| {
            it.matches("ready: true").count() >= count
        });
        let address = self.field(&["service", service], ".spec.clusterIP");
        let port = self.field(&["service", service], ".spec.ports[0].port");
        let connect = format!("exec 3<>/dev/tcp/{address}/{port}");
        let is_there = (0..200).any(|_| {
            let tried = self.host.command("timeout").args(["2", "bash", "-c", &connect]).output();
            let is_there = tried.is_ok_and(|it| it.status.success());
            if !is_there {
                std::thread::sleep(Duration::from_millis(50));
            }
            is_there
        });
        assert!(is_there, "{service} does not answer on {address}:{port}\n{}", self.state());
    }

    /// Runs a command in a pod and returns what it printed.
    pub(crate) fn exec(&self, pod: &str, words: &[&str]) -> String {
        self.ok(&[&["exec", pod, "--"], words].concat())
    }

    /// `curl` from the node itself: status 0 or a panic.
    pub(crate) fn curl(&self, url: &str) -> String {
        self.host.on_node(&["curl", "-sS", "--max-time", "10", url])
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// What one would look at when a test fails.
    pub(crate) fn state(&self) -> String {
        let look = |words: &[&str]| {
            let ran = self.run(words);
            format!("$ kubectl {}\n{}{}", words.join(" "), ran.stdout, ran.stderr)
        };
        let log = self.log();
        let end: Vec<&str> = log.lines().rev().take(60).collect();
        let end: Vec<&str> = end.into_iter().rev().collect();
        [
            look(&["get", "pods", "-A", "-o", "wide"]),
            look(&["get", "events", "-A"]),
            format!("server log:\n{}", end.join("\n")),
        ]
        .join("\n")
    }
}

impl Drop for Cluster {
    /// Everything is removed, also after a test that failed.
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
            let _ = child.wait();
        }
        if self.data().exists() {
            let purged = self.xebec(&["down", "--purge"]).output();
            if let Ok(output) = purged
                && !output.status.success()
            {
                eprintln!("not purged: {}", String::from_utf8_lossy(&output.stderr));
            }
        }
    }
}

pub(crate) fn ran(output: Output) -> Ran {
    Ran {
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        is_ok: output.status.success(),
    }
}

fn kubectl() -> Option<PathBuf> {
    let path = std::env::var_os("XEBEC_TEST_KUBECTL")
        .map_or_else(|| PathBuf::from("kubectl"), PathBuf::from);
    let version = Command::new(&path).args(["version", "--client"]).output();
    if version.is_ok_and(|it| it.status.success()) {
        return Some(path);
    }
    eprintln!("SKIPPED: no kubectl on this machine");
    None
}

/// A Deployment of the toolbox with a readiness probe.
pub(crate) fn deployment(name: &str, replicas: u32, extra: &str) -> String {
    format!(
        r#"
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  strategy: {{rollingUpdate: {{maxUnavailable: 0, maxSurge: 1}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      terminationGracePeriodSeconds: 5
      containers:
      - name: toolbox
        image: xebec.local/toolbox
        readinessProbe: {{httpGet: {{path: /healthz, port: 8080}}, periodSeconds: 1, failureThreshold: 1}}
{extra}
"#
    )
}

/// A bare pod that runs one command of the toolbox.
pub(crate) fn pod(name: &str, command: &str, extra: &str) -> String {
    format!(
        r#"
apiVersion: v1
kind: Pod
metadata: {{name: {name}, labels: {{app: {name}}}}}
spec:
  terminationGracePeriodSeconds: 2
  restartPolicy: Always
  containers:
  - name: main
    image: xebec.local/toolbox
    args: {command}
{extra}
"#
    )
}

/// Processes on this machine whose command line ends with these words, by pid.
pub(crate) fn processes(words: &[&str]) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    // Whole words only: tests run beside each other, and their names and commands are in command
    // lines too.
    let end: Vec<u8> = words.iter().flat_map(|it| [b"\0", it.as_bytes()].concat()).collect();
    let is_match = |pid: &u32| {
        let line = std::fs::read(Path::new("/proc").join(pid.to_string()).join("cmdline"));
        line.unwrap_or_default().strip_suffix(b"\0").is_some_and(|it| it.ends_with(&end))
    };
    let pids = entries.flatten().filter_map(|it| it.file_name().to_string_lossy().parse().ok());
    pids.filter(is_match).collect()
}
