//! A cluster that takes nodes, and a machine beside it that is to be one.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use crate::cluster::{Cluster, Ran, ran};
use crate::host::{NEIGHBOR, NODE};

pub(crate) const NAME: &str = "node-b";

/// The cluster is dropped last: what the machine left is removed first.
pub(crate) struct Machine {
    child: Option<Child>,
    pub(crate) cluster: Cluster,
}

impl Machine {
    /// Nothing runs anywhere yet.
    pub(crate) fn prepare() -> Option<Self> {
        let cluster = Cluster::prepare()?;
        cluster.host.on_neighbor(&["ip", "route", "add", "default", "via", NODE]);
        Some(Self { child: None, cluster })
    }

    /// Nothing runs on it yet.
    pub(crate) fn beside(flags: &[&str]) -> Option<Self> {
        let mut machine = Self::prepare()?;
        machine.cluster.up_with(&[&["--bind-address", NODE], flags].concat());
        Some(machine)
    }

    /// A node of a cluster on the other machine.
    pub(crate) fn start() -> Option<Self> {
        let mut machine = Self::beside(&[])?;
        let target = machine.target();
        machine.join(&[&target]);
        Some(machine)
    }

    /// `TOKEN@HOST:PORT` of a new token.
    pub(crate) fn target(&self) -> String {
        let line = self.token(&["create", "--print-join-command"]);
        line.trim().strip_prefix("xebec join ").unwrap().to_owned()
    }

    /// `xebec token` of who administers the cluster.
    pub(crate) fn token(&self, words: &[&str]) -> String {
        let ran = self.token_ran(words);
        assert!(ran.is_ok, "xebec token {words:?} failed: {}{}", ran.stdout, ran.stderr);
        ran.stdout
    }

    pub(crate) fn token_ran(&self, words: &[&str]) -> Ran {
        let mut command = self.cluster.host.command(env!("CARGO_BIN_EXE_xebec"));
        let kubeconfig = self.cluster.path("data/kubeconfig");
        command.arg("token").args(words).arg("--kubeconfig").arg(kubeconfig);
        ran(command.stdin(Stdio::null()).output().unwrap())
    }

    pub(crate) fn data(&self) -> std::path::PathBuf {
        self.cluster.path("joined")
    }

    /// `xebec` on this machine, with its directory.
    pub(crate) fn xebec(&self, words: &[&str]) -> Command {
        let mut command = self.cluster.host.neighbor_command(env!("CARGO_BIN_EXE_xebec"));
        command
            .args(words)
            .arg("--data-dir")
            .arg(self.data())
            .env("XEBEC_REGISTRY", self.cluster.path("joined-clusters"))
            .env("KUBECONFIG", self.cluster.path("joined-kubeconfig"))
            .env("HOME", self.cluster.path(""))
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn join_command(&self, words: &[&str]) -> Command {
        let cgroup = format!("{}-b", self.cluster.host.cgroup);
        let own = ["join", "--node-name", NAME, "--node-ip", NEIGHBOR, "--cgroup-root", &cgroup];
        self.xebec(&[&own, &["-v", "2"][..], words].concat())
    }

    /// Returns when the node is Ready.
    pub(crate) fn join(&mut self, words: &[&str]) {
        assert!(self.child.is_none(), "it runs already");
        let log = File::options().create(true).append(true).open(self.cluster.path("join.log"));
        let mut command = self.join_command(words);
        let mut child = command.stdout(Stdio::piped()).stderr(log.unwrap()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let is_ready = lines.by_ref().map_while(Result::ok).any(|it| it.contains("ready"));
        assert!(is_ready, "it ended before it was ready:\n{}", self.log());
        std::thread::spawn(move || lines.for_each(drop));
        self.child = Some(child);
    }

    /// Must fail; says what it said.
    pub(crate) fn refused(&self, words: &[&str]) -> String {
        let output = self.join_command(words).output().unwrap();
        let Ran { stdout, stderr, is_ok } = ran(output);
        assert!(!is_ok, "xebec join {words:?} should have failed but said\n{stdout}");
        stdout + &stderr
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.cluster.path("join.log")).unwrap_or_default()
    }

    pub(crate) fn kill(&mut self) {
        let mut child = self.child.take().expect("it runs");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Somebody else stopped it.
    pub(crate) fn ended(&mut self) {
        self.child.take().expect("it ran").wait().unwrap();
    }

    pub(crate) fn stop(&mut self) {
        let mut child = self.child.take().expect("it runs");
        Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
        assert!(child.wait().unwrap().success(), "xebec join stops cleanly:\n{}", self.log());
    }

    pub(crate) fn wait_ready(&self) {
        let template = "jsonpath={.status.conditions[?(@.type=='Ready')].status}";
        self.cluster.until(&["get", "node", NAME, "-o", template], |it| it == "True");
    }

    /// A pod that serves its name there.
    pub(crate) fn run_pod(&self, name: &str) {
        self.run_pod_on(NAME, name);
    }

    pub(crate) fn run_pod_on(&self, node: &str, name: &str) {
        let manifest = format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, labels: {{app: {name}}}}}, \
             spec: {{nodeName: {node}, terminationGracePeriodSeconds: 0, containers: [\
             {{name: main, image: xebec.local/toolbox, args: [http]}}]}}}}"
        );
        self.cluster.apply(&format!("{name}.yaml"), &manifest);
        self.cluster.wait_ready(&format!("app={name}"), 1);
    }
}

impl Drop for Machine {
    /// Also after a test that failed.
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("join:\n{}", self.log());
        }
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
        if self.data().exists() {
            let ran = ran(self.xebec(&["down", "--purge"]).output().unwrap());
            if !ran.is_ok {
                eprintln!("not removed: {}{}", ran.stdout, ran.stderr);
            }
        }
    }
}
