//! A cluster for one test, and the clients that talk to it.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

pub(crate) struct Cluster {
    child: Child,
    directory: tempfile::TempDir,
    kubectl: PathBuf,
    /// Flags that every start has.
    flags: Vec<String>,
}

/// A `kubectl` run that has ended.
pub(crate) struct Ran {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) is_ok: bool,
}

impl Cluster {
    /// `None` where there is no kubectl: the test says so and ends.
    pub(crate) fn start(simulate: usize) -> Option<Self> {
        Self::start_with(tempfile::tempdir().unwrap(), simulate, &[])
    }

    /// With more flags, and with what is in the directory already: data in `data/`.
    pub(crate) fn start_with(
        directory: tempfile::TempDir,
        simulate: usize,
        flags: &[&str],
    ) -> Option<Self> {
        let kubectl = kubectl()?;
        let flags: Vec<String> = flags.iter().map(|it| (*it).to_owned()).collect();
        let child = start_server(directory.path(), simulate, &flags);
        Some(Self { child, directory, kubectl, flags })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a manifest and returns its path.
    pub(crate) fn file(&self, name: &str, content: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, content).unwrap();
        path.display().to_string()
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.kubectl);
        command
            .args(arguments)
            .env("KUBECONFIG", self.path("data/kubeconfig"))
            .env("HOME", self.directory.path())
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        let output = self.command(arguments).output().unwrap();
        ran(output)
    }

    /// Must succeed; returns standard output.
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert!(
            ran.is_ok,
            "kubectl {arguments:?} failed\n{}{}\nserver log:\n{}",
            ran.stdout,
            ran.stderr,
            self.log()
        );
        ran.stdout
    }

    /// Must fail; returns standard error.
    pub(crate) fn refused(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert!(!ran.is_ok, "kubectl {arguments:?} should have failed but said\n{}", ran.stdout);
        ran.stderr
    }

    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let text = self.ok(&[arguments, &["-o", "json"]].concat());
        serde_json::from_str(&text).unwrap()
    }

    /// Runs until the output satisfies the condition; bounded, and shows the last output when it
    /// gives up.
    pub(crate) fn until(&self, arguments: &[&str], is_right: impl Fn(&str) -> bool) -> String {
        let mut last = String::new();
        for _ in 0..300 {
            let ran = self.run(arguments);
            last = ran.stdout + &ran.stderr;
            if is_right(&last) {
                return last;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!(
            "kubectl {arguments:?} never became right; last:\n{last}\nserver log:\n{}",
            self.log()
        );
    }

    /// Until a definition is served. `kubectl wait` fails on one that has no conditions yet, here and
    /// with upstream.
    pub(crate) fn until_established(&self, definition: &str) {
        let path = r#"jsonpath={.status.conditions[?(@.type=="Established")].status}"#;
        self.until(&["get", "crd", definition, "-o", path], |it| it == "True");
    }

    /// curl with the administrator's certificate; the path starts with `/`.
    pub(crate) fn curl(&self, path: &str, arguments: &[&str]) -> String {
        let pki = self.path("data/pki");
        let output = Command::new("curl")
            // What comes for people is indented.
            .args(["-sS", "--max-time", "60", "-A", "test", "--cacert"])
            .arg(pki.join("ca.crt"))
            .arg("--cert")
            .arg(pki.join("admin.crt"))
            .arg("--key")
            .arg(pki.join("admin.key"))
            .args(arguments)
            .arg(format!("{}{path}", self.server()))
            .output()
            .unwrap();
        let ran = ran(output);
        assert!(ran.is_ok, "curl {path} failed: {}", ran.stderr);
        ran.stdout
    }

    /// `https://127.0.0.1:PORT`
    pub(crate) fn server(&self) -> String {
        self.ok(&["config", "view", "-o", "jsonpath={.clusters[0].cluster.server}"])
    }

    /// What the server holds in memory.
    pub(crate) fn resident_bytes(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).unwrap();
        let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1_024
    }

    pub(crate) fn kill_and_restart(&mut self, simulate: usize) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.child = start_server(self.directory.path(), simulate, &self.flags);
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Also what somebody else has killed.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }

    /// Ctrl-C.
    pub(crate) fn stop(&mut self) {
        Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap();
        assert!(self.child.wait().unwrap().success(), "xebec up stops cleanly:\n{}", self.log());
    }

    pub(crate) fn restart(&mut self, simulate: usize) {
        self.child = start_server(self.directory.path(), simulate, &self.flags);
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        let _ = self.child.wait();
    }
}

fn ran(output: Output) -> Ran {
    Ran {
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        is_ok: output.status.success(),
    }
}

/// Starts `xebec up` and returns when it says that the cluster is ready. The port stays the same
/// over restarts, so that clients can come back.
pub(crate) fn start_server(directory: &Path, simulate: usize, flags: &[String]) -> Child {
    let port_file = directory.join("port");
    let port = std::fs::read_to_string(&port_file).unwrap_or_else(|_| {
        let port = test_ports::reserve().to_string();
        std::fs::write(&port_file, &port).unwrap();
        port
    });
    let mut child = Command::new(env!("CARGO_BIN_EXE_xebec"))
        .args(["up", "--node", "none", "--simulate", &simulate.to_string(), "--https-port", &port])
        .arg("--data-dir")
        .arg(directory.join("data"))
        .args(flags)
        .env("KUBECONFIG", directory.join("user-kubeconfig"))
        .env("XEBEC_REGISTRY", directory.join("clusters"))
        .stdout(Stdio::piped())
        .stderr(File::options().create(true).append(true).open(directory.join("log")).unwrap())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let is_ready =
        lines.by_ref().map_while(Result::ok).any(|it| it.contains("Your cluster is ready"));
    let log = || std::fs::read_to_string(directory.join("log")).unwrap_or_default();
    assert!(is_ready, "xebec up ended before it was ready:\n{}", log());
    std::thread::spawn(move || lines.for_each(drop));
    child
}

pub(crate) fn kubectl() -> Option<PathBuf> {
    let path = std::env::var_os("XEBEC_TEST_KUBECTL")
        .map_or_else(|| PathBuf::from("kubectl"), PathBuf::from);
    if Command::new(&path)
        .args(["version", "--client"])
        .output()
        .is_ok_and(|it| it.status.success())
    {
        return Some(path);
    }
    eprintln!("SKIPPED: no kubectl on this machine");
    None
}

/// The lines of a table by name, with columns separated by single spaces.
pub(crate) fn row(table: &str, name: &str) -> String {
    let line = table.lines().find(|it| it.split_whitespace().next() == Some(name));
    let line = line.unwrap_or_else(|| panic!("no row {name:?} in\n{table}"));
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

pub(crate) fn header(table: &str) -> String {
    table.lines().next().unwrap_or("").split_whitespace().collect::<Vec<_>>().join(" ")
}
