//! A node on a machine beside the control plane's: what was enrolled for it, and the processes that
//! run there.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;

use crate::cluster::{Cluster, Ran, ran};
use crate::host::{NEIGHBOR, NODE, inside, namespace, ok};

pub(crate) const NAME: &str = "node-b";
pub(crate) const PODS: &str = "10.244.7.0/24";

/// Of the second worker, which has a cable of its own.
pub(crate) const NAME_SECOND: &str = "node-c";
pub(crate) const PODS_SECOND: &str = "10.244.8.0/24";
const NODE_SECOND: &str = "198.51.100.1";
const NEIGHBOR_SECOND: &str = "198.51.100.2";

struct Place {
    name: &'static str,
    address: &'static str,
    pods: &'static str,
    /// `None`: the host's neighbor.
    namespace: Option<Child>,
}

/// The cluster is dropped last: what the node left is removed first.
pub(crate) struct Worker {
    kubelet: Option<Child>,
    proxy: Option<Child>,
    place: Place,
    pub(crate) cluster: Rc<Cluster>,
}

impl Worker {
    /// A control plane without a node, and files for one. Nothing runs on the neighbor yet.
    pub(crate) fn enroll() -> Option<Self> {
        Self::enroll_with(&[])
    }

    /// With more flags for the control plane.
    pub(crate) fn enroll_with(flags: &[&str]) -> Option<Self> {
        let mut cluster = Cluster::prepare()?;
        // Without a way to the world a machine does not reach cluster IPs itself.
        cluster.host.on_neighbor(&["ip", "route", "add", "default", "via", NODE]);
        cluster.up_with(&[&["--node", "none", "--bind-address", "0.0.0.0"], flags].concat());
        let place = Place { name: NAME, address: NEIGHBOR, pods: PODS, namespace: None };
        Some(Self::on(place, Rc::new(cluster)))
    }

    /// Another machine for the cluster of this one. The control plane's is the router between both,
    /// and knows which pods are where.
    pub(crate) fn start_second(&self) -> Self {
        let host = &self.cluster.host;
        let machine = namespace();
        host.join(&machine, "eth1", (NODE_SECOND, NEIGHBOR_SECOND));
        let way = ["ip", "route", "add", "default", "via", NODE_SECOND];
        ok(&mut inside(&machine, "ip"), &way);
        host.on_node(&["sysctl", "-qw", "net.ipv4.ip_forward=1"]);
        host.on_node(&["ip", "route", "add", PODS, "via", NEIGHBOR]);
        host.on_node(&["ip", "route", "add", PODS_SECOND, "via", NEIGHBOR_SECOND]);
        let place = Place {
            name: NAME_SECOND,
            address: NEIGHBOR_SECOND,
            pods: PODS_SECOND,
            namespace: Some(machine),
        };
        let mut worker = Self::on(place, self.cluster.clone());
        worker.start_both();
        worker
    }

    fn on(place: Place, cluster: Rc<Cluster>) -> Self {
        let worker = Self { kubelet: None, proxy: None, place, cluster };
        let (Place { name, address, .. }, cluster) = (&worker.place, &worker.cluster);
        let server = format!("https://{NODE}:6443");
        let output = worker.directory("files").display().to_string();
        let flags = ["--address", address, "--server", &server, "--output", &output];
        cluster.xebec_ok(&[&["enroll", name], &flags[..]].concat());
        let configuration = format!(
            "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n\
             podLogsDir: log\ncgroupRoot: {}-{name}\ntlsCertFile: kubelet.crt\n\
             tlsPrivateKeyFile: kubelet.key\nauthentication: {{x509: {{clientCAFile: ca.crt}}}}\n",
            cluster.host.cgroup
        );
        std::fs::write(worker.file("kubelet.yaml"), configuration).unwrap();
        worker
    }

    /// With both, and addresses for pods. Returns when the node is Ready.
    pub(crate) fn start() -> Option<Self> {
        let mut worker = Self::enroll()?;
        worker.start_both();
        Some(worker)
    }

    fn start_both(&mut self) {
        self.start_kubelet(&["--pod-cidr", self.place.pods]);
        self.start_proxy(&["--cluster-cidr", "10.244.0.0/16"]);
        self.wait_ready();
    }

    fn directory(&self, name: &str) -> PathBuf {
        self.cluster.path(&format!("{}-{name}", self.place.name))
    }

    pub(crate) fn file(&self, name: &str) -> String {
        self.directory("files").join(name).display().to_string()
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.directory("root")
    }

    /// A command on its machine.
    pub(crate) fn command(&self, program: &str) -> Command {
        match &self.place.namespace {
            None => self.cluster.host.neighbor_command(program),
            Some(machine) => inside(machine, program),
        }
    }

    /// `xebec` on its machine.
    pub(crate) fn xebec(&self, words: &[&str]) -> Command {
        let mut command = self.command(env!("CARGO_BIN_EXE_xebec"));
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
            self.place.name,
            "--node-ip",
            self.place.address,
        ];
        self.xebec(&[&own, flags].concat())
    }

    fn proxy_command(&self, flags: &[&str]) -> Command {
        let kubeconfig = self.file("proxy.kubeconfig");
        let own = ["proxy", "--kubeconfig", &kubeconfig, "--hostname-override", self.place.name];
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
        let file = File::options().create(true).append(true).open(self.directory(log)).unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(file).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let is_ready = lines.by_ref().map_while(Result::ok).any(|it| it.contains("ready"));
        assert!(is_ready, "it ended before it was ready:\n{}", self.log(log));
        std::thread::spawn(move || lines.for_each(drop));
        child
    }

    pub(crate) fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.directory(name)).unwrap_or_default()
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
        self.cluster.until(&["get", "node", self.place.name, "-o", &template], is_right)
    }

    pub(crate) fn curl(&self, url: &str) -> String {
        let words = ["curl", "-sS", "--max-time", "10", url];
        ok(&mut self.command(words[0]), &words)
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
        if let Some(machine) = &mut self.place.namespace {
            let _ = machine.kill();
            let _ = machine.wait();
        }
    }
}
