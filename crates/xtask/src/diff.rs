//! `cargo xtask diff api`: our API server beside upstream's, by what clients can see of them.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::process::run;

/// Where kinds have their examples.
const EXAMPLES: &str = "crates/api/src";

pub(crate) fn api(root: &Path, arguments: &[&str]) -> Result<()> {
    let upstream = std::env::var_os("UPSTREAM_KUBECONFIG")
        .context("UPSTREAM_KUBECONFIG names no API server of upstream's to compare with")?;
    // At once: alone, the example would have dependencies with other features, built anew.
    let mut build = Command::new("cargo");
    let what = ["build", "-p", "app", "-p", "client", "--bin", "xebec", "--example", "differ"];
    run(build.args(what).current_dir(root))?;
    let server = Server::start(&root.join("target/debug/xebec"))?;
    let mut differ = Command::new(root.join("target/debug/examples/differ"));
    differ.arg(server.kubeconfig()).arg(upstream).args(arguments);
    run(differ.args(examples(&root.join(EXAMPLES))?))
}

/// Our API server, alone: upstream's has no controllers beside it either. Stopped when dropped, and
/// its directory removed.
struct Server {
    child: Child,
    directory: tempfile::TempDir,
}

impl Server {
    fn start(binary: &Path) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut child = Command::new(binary)
            .args(["apiserver", "--bind-address", "127.0.0.1", "--secure-port", &port.to_string()])
            .arg("--data-dir")
            .arg(directory.path().join("data"))
            .stdout(Stdio::piped())
            .stderr(File::create(directory.path().join("log"))?)
            .spawn()
            .context("starting xebec apiserver")?;
        let stdout = child.stdout.take().context("standard output is piped")?;
        let server = Self { child, directory };
        let mut lines = BufReader::new(stdout).lines();
        loop {
            let Some(line) = lines.next() else {
                bail!("xebec apiserver ended before it was ready")
            };
            if line?.contains("API server ready") {
                break;
            }
        }
        // Keep reading, so that the child never blocks on a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Ok(server)
    }

    fn kubeconfig(&self) -> PathBuf {
        self.directory.path().join("data/kubeconfig")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        let _ = self.child.wait();
    }
}

fn examples(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(examples(&path)?);
        } else if is_example(&path) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// `example.json`, and `example.v1.json` of another version of a kind.
fn is_example(path: &Path) -> bool {
    let name = path.file_name().and_then(|it| it.to_str()).unwrap_or_default();
    name.starts_with("example.") && name.ends_with(".json")
}
