//! A machine of one test, for any number of clusters: a network of its own, a registry, a
//! kubeconfig, directories.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::host::Host;

pub(crate) struct Machine {
    pub(crate) host: Host,
    directory: tempfile::TempDir,
}

/// A command that has ended.
pub(crate) struct Ran {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) is_ok: bool,
}

impl Machine {
    /// `None` where it cannot be had: the test says so and ends.
    pub(crate) fn new() -> Option<Self> {
        if Command::new(kubectl()).args(["version", "--client"]).output().is_err() {
            eprintln!("SKIPPED: no kubectl on this machine");
            return None;
        }
        let machine = Self { host: Host::new()?, directory: tempfile::tempdir().unwrap() };
        std::fs::create_dir(machine.path("lib")).unwrap();
        Some(machine)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// With the environment of a user of this machine.
    fn prepare(&self, mut command: Command) -> Command {
        command
            .current_dir(self.directory.path())
            .env("HOME", self.directory.path())
            .env("KUBECONFIG", self.path("kubeconfig"))
            .env("XEBEC_REGISTRY", self.path("clusters"))
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = self.host.command(env!("CARGO_BIN_EXE_xebec"));
        command.args(words);
        self.prepare(command)
    }

    pub(crate) fn xebec(&self, words: &[&str]) -> Ran {
        run(self.command(words))
    }

    /// In a network namespace that has nothing to do with the machine's.
    pub(crate) fn elsewhere(&self, words: &[&str]) -> Ran {
        let mut command = Command::new("unshare");
        command.args(["--net", env!("CARGO_BIN_EXE_xebec")]).args(words);
        run(self.prepare(command))
    }

    pub(crate) fn ok(&self, words: &[&str]) -> String {
        let ran = self.xebec(words);
        assert!(ran.is_ok, "xebec {words:?} failed: {}{}", ran.stdout, ran.stderr);
        ran.stdout
    }

    /// Must fail; returns what it said of it.
    pub(crate) fn refused(&self, words: &[&str]) -> String {
        let ran = self.xebec(words);
        assert!(!ran.is_ok, "xebec {words:?} should have failed: {}", ran.stdout);
        ran.stderr
    }

    /// With another `/var/lib`, where the data directories of root's clusters are. Not for nodes,
    /// whose mounts would be there alone.
    pub(crate) fn with_own_lib(&self, words: &[&str]) -> Ran {
        let script = "mount --bind \"$0\" /var/lib && exec \"$@\"";
        let mut command = self.host.command("unshare");
        command.args(["--mount", "sh", "-c", script]).arg(self.path("lib"));
        command.arg(env!("CARGO_BIN_EXE_xebec")).args(words);
        run(self.prepare(command))
    }

    pub(crate) fn kubectl(&self, context: &str, words: &[&str]) -> Ran {
        let mut command = self.host.command(kubectl());
        command.args(["--context", context]).args(words);
        run(self.prepare(command))
    }

    /// Until the output is right; bounded.
    pub(crate) fn until(
        &self,
        context: &str,
        words: &[&str],
        is_right: impl Fn(&str) -> bool,
    ) -> String {
        let mut last = String::new();
        for _ in 0..600 {
            let ran = self.kubectl(context, words);
            last = ran.stdout + &ran.stderr;
            if is_right(&last) {
                return last;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("{context}: kubectl {words:?} never became right; last:\n{last}");
    }

    /// Two pods that answer, and their addresses.
    pub(crate) fn run_web(&self, context: &str) -> Vec<String> {
        let words = ["create", "deployment", "web", "--image=xebec.local/toolbox", "--replicas=2"];
        let made = self.kubectl(context, &words);
        assert!(made.is_ok, "{}", made.stderr);
        let addresses = "jsonpath={.items[?(@.status.phase=='Running')].status.podIP}";
        let found = self.until(context, &["get", "pods", "-o", addresses], |it| {
            it.split_whitespace().filter(|it| it.contains('.')).count() == 2
        });
        found.split_whitespace().map(str::to_owned).collect()
    }

    /// Whether each pod reaches each, the API server's Service too.
    pub(crate) fn check_web(&self, context: &str, addresses: &[String]) {
        for address in addresses {
            let url = format!("http://{address}:8080/");
            self.until(context, &["exec", "deploy/web", "--", "get", &url], |it| {
                it.starts_with("web-")
            });
        }
        self.until(context, &["exec", "deploy/web", "--", "dns", "kubernetes.default"], |it| {
            it.contains("10.")
        });
    }

    /// Every file and directory of the machine's user, and what is in the small ones.
    pub(crate) fn files(&self) -> Vec<String> {
        let mut found = Vec::new();
        walk(self.directory.path(), &mut found);
        found.sort();
        found
    }

    /// Without those of one directory, where a cluster is at work.
    pub(crate) fn files_but(&self, name: &str) -> Vec<String> {
        let below = format!("{}/", self.text(name));
        self.files().into_iter().filter(|it| !it.starts_with(&below)).collect()
    }
}

impl Drop for Machine {
    /// Every cluster that the registry knows, also after a test that failed.
    fn drop(&mut self) {
        let Ok(entries) = std::fs::read_dir(self.path("clusters")) else { return };
        for entry in entries.flatten() {
            let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
            let entry: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
            let Some(data) = entry["dataDir"].as_str() else { continue };
            let purged = match data.strip_prefix("/var/lib/") {
                Some(_) => self.with_own_lib(&["down", "--purge", "--data-dir", data]),
                None => self.xebec(&["down", "--purge", "--data-dir", data]),
            };
            if !purged.is_ok {
                eprintln!("not purged: {}", purged.stderr);
            }
        }
    }
}

fn kubectl() -> PathBuf {
    std::env::var_os("XEBEC_TEST_KUBECTL").map_or_else(|| "kubectl".into(), PathBuf::from)
}

pub(crate) fn run(mut command: Command) -> Ran {
    let output = command.output().unwrap();
    Ran {
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        is_ok: output.status.success(),
    }
}

fn walk(directory: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.push(format!("{}/", path.display()));
            walk(&path, found);
        } else {
            let content = std::fs::read_to_string(&path).unwrap_or_default();
            found.push(format!("{} {content}", path.display()));
        }
    }
}
