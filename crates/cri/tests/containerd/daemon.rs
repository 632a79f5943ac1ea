//! A containerd with directories, a socket and a network of its own. Ends with what stands on it.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::image::Image;

/// Only so that a test that waits for nothing ends.
const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const IMAGE: &str = "localhost/box:1";
const PAUSE: &str = "localhost/pause:1";
const PROGRAMS: &[&str] =
    &["usr/bin/containerd", "usr/bin/ctr", "usr/sbin/runc", "usr/lib/cni/ptp"];

/// The root of the unpacked packages.
fn packages() -> Option<PathBuf> {
    std::env::var_os("XEBEC_TEST_CONTAINERD").map(PathBuf::from)
}

pub(crate) fn missing() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("containers need root".to_owned());
    }
    let Some(packages) = packages() else {
        return Some("XEBEC_TEST_CONTAINERD names no unpacked containerd".to_owned());
    };
    let absent = PROGRAMS.iter().find(|it| !packages.join(it).exists());
    absent.map(|it| format!("{it} is not below {}", packages.display()))
}

pub(crate) struct Daemon {
    directory: tempfile::TempDir,
    containerd: Option<Child>,
    /// Words that come before each command, to run it elsewhere.
    inside: Vec<OsString>,
}

impl Daemon {
    pub(crate) fn start(inside: &[OsString]) -> Self {
        let directory = tempfile::Builder::new().prefix("xebec-cri-").tempdir().unwrap();
        let mut daemon = Self { directory, containerd: None, inside: inside.to_vec() };
        daemon.write_config();
        daemon.run();
        let archive = daemon.path("image.tar");
        fs::write(&archive, Image::busybox().archive(&[IMAGE, PAUSE])).unwrap();
        daemon.ctr(&["-n", "k8s.io", "image", "import", archive.to_str().unwrap()]);
        daemon
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.path("socket")
    }

    /// Must succeed; returns what it printed.
    pub(crate) fn ctr(&self, words: &[&str]) -> String {
        let output = self.program("usr/bin/ctr").arg("-a").arg(self.socket()).args(words).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    fn program(&self, name: &str) -> Command {
        let packages = packages().unwrap();
        let program = packages.join(name).into_os_string();
        let mut words = self.inside.iter().chain([&program]);
        let mut command = Command::new(words.next().unwrap());
        let ours = ["usr/bin", "usr/sbin"].map(|it| packages.join(it));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let all = ours.into_iter().chain(std::env::split_paths(&path));
        command.args(words).env("PATH", std::env::join_paths(all).unwrap());
        command
    }

    fn write_config(&self) {
        let packages = packages().unwrap();
        let (packages, directory) = (packages.display(), self.directory.path().display());
        let text = format!(
            r#"version = 2
root = "{directory}/root"
state = "{directory}/state"
disabled_plugins = ["io.containerd.internal.v1.opt"]
[grpc]
address = "{directory}/socket"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{PAUSE}"
restrict_oom_score_adj = true
stream_server_address = "127.0.0.1"
stream_server_port = "0"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{packages}/usr/lib/cni"
conf_dir = "{directory}/net.d"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
BinaryName = "{packages}/usr/sbin/runc"
"#
        );
        fs::write(self.path("config.toml"), text).unwrap();
        fs::create_dir(self.path("net.d")).unwrap();
        let network = format!(
            r#"{{"cniVersion":"0.4.0","name":"test","plugins":[{{"type":"ptp","ipam":{{"type":"host-local","dataDir":"{directory}/ipam","ranges":[[{{"subnet":"10.91.0.0/24"}}]]}}}}]}}"#
        );
        fs::write(self.path("net.d/10-test.conflist"), network).unwrap();
    }

    /// Returns when it answers.
    pub(crate) fn run(&mut self) {
        let log = fs::File::options().create(true).append(true).open(self.path("log")).unwrap();
        let child = self
            .program("usr/bin/containerd")
            .arg("-c")
            .arg(self.path("config.toml"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.containerd = Some(child);
        #[expect(clippy::disallowed_methods, reason = "it tells nobody when it is ready")]
        let deadline = Instant::now() + PATIENCE;
        let is_up = || {
            let mut look = self.program("usr/bin/ctr");
            look.arg("-a").arg(self.socket()).arg("version");
            look.output().is_ok_and(|it| it.status.success())
        };
        while !is_up() {
            #[expect(clippy::disallowed_methods, reason = "as above")]
            let is_late = Instant::now() > deadline;
            assert!(!is_late, "{}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// As `kill -9`: its pods run on.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.containerd.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// Ends it, when all that stood on it was removed, and sees that nothing is left.
    pub(crate) fn leave(mut self) {
        self.kill();
        let left = processes_with(self.directory.path());
        assert!(left.is_empty(), "left running: {left:?}");
        let left = mounts_below(self.directory.path());
        assert!(left.is_empty(), "left mounted: {left:?}");
    }
}

impl Drop for Daemon {
    /// Also after a test that failed.
    fn drop(&mut self) {
        self.kill();
        for pid in processes_with(self.directory.path()) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        for at in mounts_below(self.directory.path()).into_iter().rev() {
            let _ = rustix::mount::unmount(at, rustix::mount::UnmountFlags::DETACH);
        }
    }
}

fn mounts_below(directory: &Path) -> Vec<String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let ours = directory.to_str().unwrap();
    let places = mounts.lines().filter_map(|it| it.split(' ').nth(4));
    places.filter(|it| it.starts_with(ours)).map(str::to_owned).collect()
}

/// Those that have our directory in their arguments: shims, which outlive containerd.
fn processes_with(directory: &Path) -> Vec<rustix::process::Pid> {
    let ours = directory.to_str().unwrap();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<i32>() else { continue };
        let arguments = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let is_ours = String::from_utf8_lossy(&arguments).contains(ours);
        if is_ours && pid != std::process::id().cast_signed() {
            found.extend(rustix::process::Pid::from_raw(pid));
        }
    }
    found
}
