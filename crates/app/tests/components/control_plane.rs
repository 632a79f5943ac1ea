//! An API server of its own process, and what else is started beside it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal};

use crate::process::Process;

pub(crate) struct ControlPlane {
    server: Option<Process>,
    port: String,
    kubectl: PathBuf,
    home: tempfile::TempDir,
}

/// A component, with what it logs.
pub(crate) struct Component {
    process: Process,
    log: PathBuf,
}

impl ControlPlane {
    /// `None` where there is no kubectl: the test says so and ends.
    pub(crate) fn start() -> Option<Self> {
        let kubectl = std::env::var_os("XEBEC_TEST_KUBECTL").unwrap_or_else(|| "kubectl".into());
        if Command::new(&kubectl).args(["version", "--client"]).output().is_err() {
            eprintln!("SKIPPED: no kubectl on this machine");
            return None;
        }
        let home = tempfile::tempdir().unwrap();
        let mut it = Self {
            server: None,
            port: test_ports::reserve().to_string(),
            kubectl: kubectl.into(),
            home,
        };
        it.start_server();
        Some(it)
    }

    /// Returns when it is ready.
    pub(crate) fn start_server(&mut self) {
        let flags = ["--data-dir", &self.data(""), "--secure-port", &self.port];
        let flags = [&flags[..], &["--bind-address", "127.0.0.1"]].concat();
        self.server = Some(self.spawn("apiserver", &flags).process);
        self.until(&["get", "--raw", "/readyz"], |it| it == "ok");
    }

    /// At once.
    pub(crate) fn kill_server(&mut self) {
        self.server = None;
    }

    pub(crate) fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// In the server's directory: `pki/ca.crt`, `scheduler.kubeconfig`.
    pub(crate) fn data(&self, name: &str) -> String {
        self.path("data").join(name).display().to_string()
    }

    pub(crate) fn file(&self, name: &str, content: &str) -> String {
        std::fs::write(self.path(name), content).unwrap();
        self.path(name).display().to_string()
    }

    /// A command of `xebec`.
    pub(crate) fn spawn(&self, name: &str, flags: &[&str]) -> Component {
        self.spawn_as(Path::new(env!("CARGO_BIN_EXE_xebec")), name, &[&[name], flags].concat())
    }

    pub(crate) fn spawn_as(&self, program: &Path, log: &str, arguments: &[&str]) -> Component {
        let log = self.path(&format!("{log}.log"));
        let file = File::options().create(true).append(true).open(&log).unwrap();
        let mut command = Command::new(program);
        command.args(arguments).env("HOME", self.home.path());
        let child = command.stdout(Stdio::null()).stderr(file).spawn().unwrap();
        Component { process: Process(child), log }
    }

    /// What kubectl prints, on either stream.
    pub(crate) fn run(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(&self.kubectl);
        command.args(arguments).env("KUBECONFIG", self.data("kubeconfig"));
        let output = command.env("HOME", self.home.path()).output().unwrap();
        let text = |it: &[u8]| String::from_utf8_lossy(it).into_owned();
        text(&output.stdout) + &text(&output.stderr)
    }

    pub(crate) fn until(&self, arguments: &[&str], is_right: impl Fn(&str) -> bool) -> String {
        self.until_said(|| self.run(arguments), is_right)
    }

    /// Asks until the answer is right; bounded, and shows what was logged when it gives up.
    pub(crate) fn until_said(
        &self,
        ask: impl Fn() -> String,
        is_right: impl Fn(&str) -> bool,
    ) -> String {
        for _ in 0..300 {
            let said = ask();
            if is_right(&said) {
                return said;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let logs = std::fs::read_dir(self.home.path()).unwrap().map(|it| it.unwrap().path());
        let logs = logs.filter(|it| it.extension().is_some_and(|it| it == "log"));
        let logs: Vec<_> = logs.map(|it| std::fs::read_to_string(it).unwrap()).collect();
        panic!("it was never right: {}\n{}", ask(), logs.join("\n\n"));
    }

    /// Who leads, as the Lease says.
    pub(crate) fn holder(&self, lease: &str) -> String {
        let holder = "jsonpath={.spec.holderIdentity}";
        self.run(&["get", "lease", lease, "-n", "kube-system", "-o", holder])
    }

    /// Another than `before`.
    pub(crate) fn until_led(&self, lease: &str, before: &str) -> String {
        let is_another =
            |it: &str| !it.is_empty() && it != before && !it.contains("Error from server");
        self.until_said(|| self.holder(lease), is_another)
    }
}

impl Component {
    /// As systemd would, until it has ended.
    pub(crate) fn stop(&mut self) {
        let pid = Pid::from_child(&self.process.0);
        rustix::process::kill_process(pid, Signal::TERM).unwrap();
        assert!(self.process.0.wait().unwrap().success(), "{}", self.log());
    }

    /// Its exit code, when it ends by itself.
    pub(crate) fn end(&mut self) -> Option<i32> {
        self.process.0.wait().unwrap().code()
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}
