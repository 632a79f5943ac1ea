//! A server of etcd's API in a directory of its own; killed and removed when dropped.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::bench::usage::now;

const PATIENCE: Duration = Duration::from_secs(30);

pub(super) struct Server {
    child: Child,
    pub(super) port: u16,
    _directory: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to do.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

impl Server {
    pub(super) fn etcd(program: &Path) -> Result<Self> {
        let peer = url(free_port()?);
        Self::start(program, |command, directory, listen| {
            command.arg("--data-dir").arg(directory);
            command.args(["--listen-client-urls", listen, "--advertise-client-urls", listen]);
            command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
            command.args(["--initial-cluster", &format!("default={peer}")]);
            // The load fills more than etcd's default quota in a few runs.
            command.args(["--quota-backend-bytes", "8589934592"]);
        })
    }

    pub(super) fn xebec(program: &Path) -> Result<Self> {
        Self::start(program, |command, directory, listen| {
            command.args(["store", "serve", "--data-dir"]).arg(directory);
            command.args(["--listen", listen]);
        })
    }

    pub(super) fn front(program: &Path) -> Result<Self> {
        Self::start(program, |command, directory, listen| {
            command.arg(directory).arg(listen);
        })
    }

    fn start(program: &Path, arguments: impl FnOnce(&mut Command, &Path, &str)) -> Result<Self> {
        let (directory, port) = (tempfile::tempdir()?, free_port()?);
        let mut command = Command::new(program);
        arguments(&mut command, &directory.path().join("data"), &url(port));
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = child.spawn().with_context(|| format!("starting {}", program.display()))?;
        let mut server = Self { child, port, _directory: directory };
        server.await_listening().with_context(|| format!("starting {}", program.display()))?;
        Ok(server)
    }

    fn await_listening(&mut self) -> Result<()> {
        let started = now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("it ended at once ({status})");
            }
            if started.elapsed() > PATIENCE {
                bail!("it does not listen");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        // etcd listens before it has elected itself.
        std::thread::sleep(Duration::from_secs(2));
        Ok(())
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }
}
