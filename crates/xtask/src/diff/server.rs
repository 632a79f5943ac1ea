//! A server of ours for a comparison: stopped when dropped, and its directory removed.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail};

pub(super) struct Server {
    child: Child,
    directory: tempfile::TempDir,
}

impl Server {
    /// The debug build's API server, with no controllers beside it: upstream's has none either. So
    /// nobody takes away the finalizers of what can be in use, and none are given.
    pub(super) fn start_alone(root: &Path) -> Result<Self> {
        let xebec = root.join("target/debug/xebec");
        let unprotected = "--disable-admission-plugins=StorageObjectInUseProtection";
        let arguments = ["apiserver", "--bind-address", "127.0.0.1", unprotected];
        Self::start(&xebec, &arguments, "--secure-port", "API server ready")
    }

    /// `xebec ARGUMENTS PORT_FLAG N --data-dir D`, until it says that it is ready.
    pub(super) fn start(
        binary: &Path,
        arguments: &[&str],
        port_flag: &str,
        ready: &str,
    ) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut child = Command::new(binary)
            .args(arguments)
            .args([port_flag, &port.to_string()])
            .arg("--data-dir")
            .arg(directory.path().join("data"))
            .env("KUBECONFIG", directory.path().join("user-kubeconfig"))
            .env("XEBEC_REGISTRY", directory.path().join("clusters"))
            .stdout(Stdio::piped())
            .stderr(File::create(directory.path().join("log"))?)
            .spawn()
            .with_context(|| format!("starting xebec {}", arguments.join(" ")))?;
        let stdout = child.stdout.take().context("standard output is piped")?;
        let server = Self { child, directory };
        let mut lines = BufReader::new(stdout).lines();
        loop {
            let Some(line) = lines.next() else {
                let log = std::fs::read_to_string(server.directory.path().join("log"));
                bail!("xebec ended before it was ready: {}", log.unwrap_or_default());
            };
            if line?.contains(ready) {
                break;
            }
        }
        // Keep reading, so that the child never blocks on a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Ok(server)
    }

    pub(super) fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    pub(super) fn kubeconfig(&self) -> PathBuf {
        self.data().join("kubeconfig")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        stop(&mut self.child);
    }
}

/// A program that runs beside.
pub(super) struct Beside(pub(super) Child);

impl Drop for Beside {
    fn drop(&mut self) {
        stop(&mut self.0);
    }
}

fn stop(child: &mut Child) {
    let _ = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    let _ = child.wait();
}
