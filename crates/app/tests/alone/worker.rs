//! A node on the neighbor: what was enrolled for it, and the processes that run there.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::cluster::{Cluster, Ran, ran};
use crate::host::{NEIGHBOR, NODE};

pub(crate) const NAME: &str = "node-b";
pub(crate) const PODS: &str = "10.244.7.0/24";

/// The cluster is dropped last: what the node left is removed first.
pub(crate) struct Worker {
    kubelet: Option<Child>,
    proxy: Option<Child>,
    pub(crate) cluster: Cluster,
}

impl Worker {
    /// A control plane without a node, and files for one. Nothing runs on the neighbor yet.
    pub(crate) fn enroll() -> Option<Self> {
        let mut cluster = Cluster::prepare()?;
        // Without a way to the world a machine does not reach cluster IPs itself.
        cluster.host.on_neighbor(&["ip", "route", "add", "default", "via", NODE]);
        cluster.up_with(&["--node", "none", "--bind-address", "0.0.0.0"]);
        let server = format!("https://{NODE}:6443");
        let output = cluster.path("files").display().to_string();
        let address = ["--address", NEIGHBOR, "--server", &server, "--output", &output];
        cluster.xebec_ok(&[&["enroll", NAME], &address[..]].concat());
        let configuration = format!(
            "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n\
             podLogsDir: log\ncgroupRoot: {}\ntlsCertFile: kubelet.crt\n\
             tlsPrivateKeyFile: kubelet.key\nauthentication: {{x509: {{clientCAFile: ca.crt}}}}\n",
            cluster.host.cgroup
        );
        std::fs::write(cluster.path("files/kubelet.yaml"), configuration).unwrap();
        Some(Self { kubelet: None, proxy: None, cluster })
    }

    /// With both, and addresses for pods. Returns when the node is Ready.
    pub(crate) fn start() -> Option<Self> {
        let mut worker = Self::enroll()?;
        worker.start_kubelet(&["--pod-cidr", PODS]);
        worker.start_proxy(&["--cluster-cidr", "10.244.0.0/16"]);
        worker.wait_ready();
        Some(worker)
    }

    pub(crate) fn file(&self, name: &str) -> String {
        self.cluster.path("files").join(name).display().to_string()
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.cluster.path("root")
    }

    /// `xebec` on the neighbor.
    pub(crate) fn xebec(&self, words: &[&str]) -> Command {
        let mut command = self.cluster.host.neighbor_command(env!("CARGO_BIN_EXE_xebec"));
        command.args(words).env("HOME", self.cluster.path("")).stdin(Stdio::null());
        command
    }

    fn kubelet_command(&self, flags: &[&str]) -> Command {
        let (kubeconfig, config) = (self.file("kubelet.kubeconfig"), self.file("kubelet.yaml"));
        let root = self.root().display().to_string();
        let own = [
            "kubelet",
            "--kubeconfig",
            &kubeconfig,
            "--config",
            &config,
            "--root-dir",
            &root,
            "--hostname-override",
            NAME,
            "--node-ip",
            NEIGHBOR,
        ];
        self.xebec(&[&own, flags].concat())
    }

    fn proxy_command(&self, flags: &[&str]) -> Command {
        let kubeconfig = self.file("proxy.kubeconfig");
        let own = ["proxy", "--kubeconfig", &kubeconfig, "--hostname-override", NAME];
        self.xebec(&[&own, flags].concat())
    }

    /// Returns when it serves.
    pub(crate) fn start_kubelet(&mut self, flags: &[&str]) {
        assert!(self.kubelet.is_none(), "it runs already");
        self.kubelet = Some(self.spawn(self.kubelet_command(flags), "kubelet.log"));
    }

    pub(crate) fn start_proxy(&mut self, flags: &[&str]) {
        assert!(self.proxy.is_none(), "it runs already");
        self.proxy = Some(self.spawn(self.proxy_command(flags), "proxy.log"));
    }

    fn spawn(&self, mut command: Command, log: &str) -> Child {
        let file = File::options().create(true).append(true).open(self.cluster.path(log)).unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(file).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let is_ready = lines.by_ref().map_while(Result::ok).any(|it| it.contains("ready"));
        assert!(is_ready, "it ended before it was ready:\n{}", self.log(log));
        std::thread::spawn(move || lines.for_each(drop));
        child
    }

    pub(crate) fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.cluster.path(name)).unwrap_or_default()
    }

    pub(crate) fn kill_kubelet(&mut self) {
        kill(self.kubelet.take().expect("it runs"), "-KILL");
    }

    pub(crate) fn kill_proxy(&mut self) {
        kill(self.proxy.take().expect("it runs"), "-KILL");
    }

    /// Stops both, and removes what they made. Says what that printed.
    pub(crate) fn clean_up(&mut self) -> Vec<Ran> {
        for child in [self.kubelet.take(), self.proxy.take()].into_iter().flatten() {
            kill(child, "-TERM");
        }
        let commands = [self.kubelet_command(&["--cleanup"]), self.proxy_command(&["--cleanup"])];
        commands.into_iter().map(|mut it| ran(it.output().unwrap())).collect()
    }

    pub(crate) fn wait_ready(&self) {
        self.wait_condition("{.status}", |it| it == "True");
    }

    /// Until a field of the condition Ready is right.
    pub(crate) fn wait_condition(&self, field: &str, is_right: impl Fn(&str) -> bool) -> String {
        let field = field.trim_matches(['{', '}']);
        let template = format!("jsonpath={{.status.conditions[?(@.type=='Ready')]{field}}}");
        self.cluster.until(&["get", "node", NAME, "-o", &template], is_right)
    }

    pub(crate) fn curl(&self, url: &str) -> String {
        self.cluster.host.on_neighbor(&["curl", "-sS", "--max-time", "10", url])
    }
}

/// `nsenter` executes in its place, so its pid is the program's.
fn kill(mut child: Child, signal: &str) {
    Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    child.wait().unwrap();
}

impl Drop for Worker {
    /// Also after a test that failed.
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("kubelet:\n{}\nproxy:\n{}", self.log("kubelet.log"), self.log("proxy.log"));
        }
        for ran in self.clean_up().iter().filter(|it| !it.is_ok) {
            eprintln!("not removed: {}{}", ran.stdout, ran.stderr);
        }
    }
}
