//! One member of Debian's etcd: a process with a data directory. Ends with the value.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tempfile::TempDir;

/// The program, or `None` after saying loudly that there is none.
pub(crate) fn program(name: &str, variable: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let named = std::env::var_os(variable).map(PathBuf::from);
    let on_path = std::env::split_paths(&path).map(|it| it.join(name));
    let found = named.into_iter().chain(on_path).find(|it| it.is_file());
    if found.is_none() {
        println!("SKIPPED: no {name} on PATH and {variable} is not set");
    }
    found
}

pub(crate) fn etcd() -> Option<PathBuf> {
    program("etcd", "XEBEC_TEST_ETCD")
}

/// In memory where that is possible: etcd syncs on every write.
pub(crate) fn directory() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { TempDir::new_in(memory).unwrap() } else { TempDir::new().unwrap() }
}

/// An address of loopback for this process alone, so that etcd can have its usual ports on it.
pub(crate) fn address() -> String {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let pid = std::process::id();
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    assert!(n < 255, "too many members in one process");
    format!("127.{}.{}.{n}", (pid >> 8) & 0xff, pid & 0xff)
}

pub(crate) struct Member {
    child: Option<Child>,
    command: Box<dyn Fn() -> Command + Send + Sync>,
    pub(crate) client_url: String,
    data: TempDir,
}

impl Member {
    /// A cluster of one, on loopback.
    pub(crate) fn start(program: &Path) -> Self {
        Self::start_with(program, "http", &[])
    }

    /// With more arguments; `scheme` is of the clients' URL.
    pub(crate) fn start_with(program: &Path, scheme: &str, arguments: &[String]) -> Self {
        let address = address();
        let data = directory();
        let client_url = format!("{scheme}://{address}:2379");
        let peer_url = format!("http://{address}:2380");
        let (program, arguments) = (program.to_owned(), arguments.to_vec());
        let folder = data.path().join("data");
        let (clients, peers) = (client_url.clone(), peer_url.clone());
        let command = move || {
            let mut command = Command::new(&program);
            command
                .args(["--name", "one", "--heartbeat-interval", "20", "--election-timeout", "200"])
                .arg("--data-dir")
                .arg(&folder)
                .args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients])
                .args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers])
                .args(["--initial-cluster", &format!("one={peers}")])
                .args(&arguments);
            command
        };
        let mut member = Self::new(client_url, data, Box::new(command));
        member.run();
        member.await_ready();
        member
    }

    pub(crate) fn new(
        client_url: String,
        data: TempDir,
        command: Box<dyn Fn() -> Command + Send + Sync>,
    ) -> Self {
        Self { child: None, command, client_url, data }
    }

    /// Starts the process, on what data there is. Returns its id.
    pub(crate) fn run(&mut self) -> u32 {
        self.kill();
        let log = std::fs::File::create(self.data.path().join("log")).unwrap();
        let child = (self.command)()
            .args(["--logger", "zap", "--log-outputs", "stderr"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        self.child.insert(child).id()
    }

    pub(crate) fn child(&mut self) -> &mut Child {
        self.child.as_mut().expect("the member runs")
    }

    /// Waits until it serves clients, for which it needs a leader.
    pub(crate) fn await_ready(&mut self) {
        let log = self.data.path().join("log");
        for _ in 0..1500 {
            let text = std::fs::read_to_string(&log).unwrap();
            if text.contains("serving client traffic") {
                return;
            }
            if let Some(status) = self.child().try_wait().unwrap() {
                panic!("etcd ended: {status}: {text}");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("etcd is not ready: {}", std::fs::read_to_string(&log).unwrap());
    }

    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    pub(crate) fn signal(&self, signal: &str) {
        let Some(child) = &self.child else { return };
        let id = child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }

    pub(crate) fn pause(&self) {
        self.signal("-STOP");
    }

    pub(crate) fn resume(&self) {
        self.signal("-CONT");
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.kill();
    }
}
