//! Debian's containerd, with runc and its shim, as the peer: directories, a socket and a network of
//! its own; everything is gone when it is dropped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::json;

use super::image;
use super::machine;
use crate::process::output;
use crate::test_deps;

const IMAGE: &str = "localhost/box:1";
const PAUSE: &str = "localhost/pause:1";
const TRIES: usize = 200;

/// Where its programs are.
pub(super) struct Containerd {
    packages: PathBuf,
}

/// One that runs.
pub(super) struct Daemon {
    packages: PathBuf,
    directory: tempfile::TempDir,
    child: Child,
}

impl Containerd {
    pub(super) fn find(root: &Path) -> Result<Self> {
        let program = test_deps::unpacked_program(root, "usr/bin/containerd")?;
        if !program.exists() {
            bail!("there is no {}", program.display());
        }
        Ok(Self { packages: root.join("target/test-packages") })
    }

    /// A shell that sleeps.
    #[expect(clippy::unused_self, reason = "every containerd that was started has it")]
    pub(super) fn image(&self) -> &'static str {
        IMAGE
    }

    /// Returns when it answers and has its images.
    pub(super) fn start(&self, namespace: &Child) -> Result<Daemon> {
        let directory = tempfile::Builder::new().prefix("xebec-bench-").tempdir()?;
        self.write_config(directory.path())?;
        let log = fs::File::create(directory.path().join("log"))?;
        let mut command = machine::inside(namespace, &self.packages.join("usr/bin/containerd"));
        let child = with_path(&mut command, &self.packages)
            .arg("-c")
            .arg(directory.path().join("config.toml"))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("starting containerd")?;
        let daemon = Daemon { packages: self.packages.clone(), directory, child };
        daemon.wait()?;
        let root = daemon.directory.path().join("image/root");
        fs::create_dir_all(root.join("bin"))?;
        fs::copy("/bin/busybox", root.join("bin/busybox"))?;
        let archive =
            image::archive(&root, &["/bin/busybox", "sleep", "1000000"], &[IMAGE, PAUSE])?;
        output(&mut daemon.import(&archive))?;
        Ok(daemon)
    }

    fn write_config(&self, directory: &Path) -> Result<()> {
        let (packages, at) = (self.packages.display(), directory.display());
        let text = format!(
            r#"version = 2
root = "{at}/root"
state = "{at}/state"
disabled_plugins = ["io.containerd.internal.v1.opt"]
[grpc]
address = "{at}/socket"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE}"
restrict_oom_score_adj = true
stream_server_address = "127.0.0.1"
stream_server_port = "0"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{packages}/usr/lib/cni"
conf_dir = "{at}/net.d"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
BinaryName = "{packages}/usr/sbin/runc"
"#
        );
        fs::write(directory.join("config.toml"), text)?;
        fs::create_dir(directory.join("net.d"))?;
        let addresses = json!({
            "type": "host-local", "dataDir": directory.join("ipam"),
            "ranges": [[{"subnet": "10.91.0.0/24"}]],
        });
        let network = json!({
            "cniVersion": "0.4.0", "name": "bench", "plugins": [{"type": "ptp", "ipam": addresses}],
        });
        fs::write(directory.join("net.d/10-bench.conflist"), network.to_string())?;
        Ok(())
    }
}

impl Daemon {
    pub(super) fn endpoint(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    fn ctr(&self) -> Command {
        let mut command = Command::new(self.packages.join("usr/bin/ctr"));
        command.arg("-a").arg(self.socket());
        command
    }

    pub(super) fn import(&self, archive: &Path) -> Command {
        let mut command = self.ctr();
        command.args(["-n", "k8s.io", "image", "import"]).arg(archive);
        command
    }

    /// It tells nobody when it is ready.
    fn wait(&self) -> Result<()> {
        for _ in 0..TRIES {
            if self.ctr().arg("version").output().is_ok_and(|it| it.status.success()) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        bail!("{}", fs::read_to_string(self.directory.path().join("log"))?)
    }

    /// Those that have our directory in their arguments: shims, which outlive it.
    fn shims(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
        let ours = self.directory.path().to_string_lossy().into_owned();
        let pids = entries.flatten().map(|it| it.file_name().to_string_lossy().into_owned());
        pids.filter(|pid| pid.bytes().all(|it| it.is_ascii_digit()))
            .filter(|pid| {
                let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                String::from_utf8_lossy(&words).contains(&ours)
            })
            .collect()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        for pid in self.shims() {
            let _ = Command::new("kill").args(["-9", &pid]).status();
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let ours = self.directory.path().to_string_lossy().into_owned();
        let at = mounts.lines().filter_map(|it| it.split(' ').nth(4));
        for at in at.filter(|it| it.starts_with(&ours)).collect::<Vec<_>>().into_iter().rev() {
            let _ = Command::new("umount").arg("-l").arg(at).status();
        }
    }
}

/// With the programs that it starts itself.
fn with_path<'a>(command: &'a mut Command, packages: &Path) -> &'a mut Command {
    let ours = ["usr/bin", "usr/sbin"].map(|it| packages.join(it));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = ours.into_iter().chain(std::env::split_paths(&path));
    match std::env::join_paths(all) {
        Ok(path) => command.env("PATH", path),
        Err(_) => command,
    }
}
