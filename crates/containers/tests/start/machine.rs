//! An image, a cgroup and a network of the tests' own, and containers on them.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use containers::cgroups::Tree;
use containers::setup::{self, BesideOthers, Join, Launch, PidNamespace, Stdio};
use containers::spec::{self, Inputs, Spec};
use linux::namespaces::Namespaces;
use linux::process::{self, Fork, SharedPid, Status};
use node_api::containers::ContainerConfig;
use node_api::images::ImageConfig;
use node_api::sandboxes::SandboxConfig;
use node_api::{ImageId, PodRef, PodUid};

const BUSYBOX: &str = "/usr/bin/busybox";

pub(crate) struct Machine {
    directory: tempfile::TempDir,
    pub(crate) tree: Tree,
    root_cgroup: String,
    facts: spec::Machine,
    counter: std::cell::Cell<u32>,
}

/// How a container ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) refused: Option<String>,
    pub(crate) status: Status,
    pub(crate) output: String,
}

pub(crate) struct Running {
    pub(crate) spec: Spec,
    pub(crate) pidfd: OwnedFd,
    pub(crate) refused: Option<String>,
    output: File,
    name: String,
}

impl Running {
    /// Its PID namespace.
    fn pids(&self) -> OwnedFd {
        let known = format!("/proc/self/fdinfo/{}", self.pidfd.as_raw_fd());
        let known = std::fs::read_to_string(known).unwrap();
        let pid = known.lines().find_map(|it| it.strip_prefix("Pid:")).unwrap().trim();
        File::open(format!("/proc/{pid}/ns/pid")).unwrap().into()
    }

    pub(crate) fn wait_until_ended(&self) {
        let mut polled = [rustix::event::PollFd::new(&self.pidfd, rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut polled, None).unwrap();
    }
}

impl Machine {
    pub(crate) fn new() -> Result<Self, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("containers need root".to_owned());
        }
        if !Path::new(BUSYBOX).exists() {
            return Err(format!("no {BUSYBOX} (Debian package busybox-static)"));
        }
        // The first three as a holder has them; that of mounts so that others' mounts are not taken
        // for ours.
        let namespaces =
            Namespaces::NETWORK | Namespaces::IPC | Namespaces::UTS | Namespaces::MOUNT;
        linux::namespaces::unshare(namespaces)
            .and_then(|()| linux::mounts::make_all_private())
            .map_err(|err| format!("no namespaces: {err}"))?;
        let root_cgroup = format!("xebec-test-start-{}", std::process::id());
        let tree = Tree::open(&root_cgroup).map_err(|err| stdx::error_chain(&err))?;
        let directory = tempfile::tempdir().map_err(|err| err.to_string())?;
        let machine = Self {
            directory,
            tree,
            root_cgroup,
            facts: spec::Machine::detect().map_err(|err| err.to_string())?,
            counter: 0.into(),
        };
        machine.make_image();
        Ok(machine)
    }

    /// Two layers, so that the order shows.
    fn make_image(&self) {
        let base = self.path("base");
        std::fs::create_dir_all(base.join("bin")).unwrap();
        std::fs::create_dir_all(base.join("etc")).unwrap();
        std::fs::create_dir_all(base.join("tmp")).unwrap();
        std::fs::copy(BUSYBOX, base.join("bin/busybox")).unwrap();
        for name in [
            "sh", "cat", "id", "ls", "mount", "unshare", "sleep", "touch", "pwd", "env", "mknod",
            "head", "grep", "stat", "tty", "hostname", "chroot", "dd", "wc",
        ] {
            symlink("busybox", base.join("bin").join(name)).unwrap();
        }
        let passwd = "root:x:0:0:root:/root:/bin/sh\napp:x:1000:1000::/home/app:/bin/sh\n";
        std::fs::write(base.join("etc/passwd"), passwd).unwrap();
        std::fs::write(base.join("etc/group"), "root:x:0:\napp:x:1000:\nvideo:x:44:app\n").unwrap();
        std::fs::write(base.join("etc/which"), "base").unwrap();
        std::fs::write(base.join("etc/noexec"), "#!/bin/sh\n").unwrap();
        std::fs::create_dir_all(self.path("top/etc")).unwrap();
        std::fs::write(self.path("top/etc/which"), "top").unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A layer on top of the others, which a test fills.
    pub(crate) fn layer(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    pub(crate) fn spec(
        &self,
        change: impl FnOnce(&mut ContainerConfig, &mut SandboxConfig),
    ) -> Spec {
        let mut container = container_config();
        let mut sandbox = sandbox_config();
        change(&mut container, &mut sandbox);
        let name = format!("c{}", self.counter.replace(self.counter.get() + 1));
        let root = self.path(&name).join("rootfs");
        spec::render(Inputs {
            container: &container,
            image: &ImageConfig::default(),
            sandbox: &sandbox,
            machine: &self.facts,
            root: root.to_str().unwrap(),
            cgroup: &self.tree.path(&name),
            pod_mounts: &[],
            seccomp_profile: None,
            devices: &[],
            image_mounts: &[],
        })
        .unwrap()
    }

    /// `sh -c script` with everything at its default but what `change` changes.
    pub(crate) fn run(
        &self,
        script: &str,
        change: impl FnOnce(&mut ContainerConfig, &mut SandboxConfig),
    ) -> Outcome {
        let spec = self.spec(|container, sandbox| {
            container.command = ["/bin/sh", "-c", script].map(str::to_owned).into();
            change(container, sandbox);
        });
        self.run_spec(spec, &[])
    }

    pub(crate) fn run_spec(&self, spec: Spec, layers: &[PathBuf]) -> Outcome {
        let running = self.start(spec, layers);
        self.finish(running)
    }

    pub(crate) fn start(&self, spec: Spec, layers: &[PathBuf]) -> Running {
        self.start_in(spec, layers, None)
    }

    /// With a terminal if the configuration wants one; beside the processes of another container,
    /// with what a third one sees as `/proc`, or alone.
    pub(crate) fn start_in(
        &self,
        spec: Spec,
        layers: &[PathBuf],
        other: Option<(&Running, &Running)>,
    ) -> Running {
        self.tree.create_container(&spec).unwrap();
        let root = PathBuf::from(&spec.root.path);
        let directory = root.parent().unwrap();
        for name in ["rootfs", "upper", "work"] {
            std::fs::create_dir_all(directory.join(name)).unwrap();
        }
        let layers = layers.iter().cloned().chain([self.path("top"), self.path("base")]);
        let (reader, report) = setup::report_channel().unwrap();
        let (ends, stdio) = Ends::new(spec.process.terminal);
        let config = directory.join("config.json");
        std::fs::write(&config, serde_json::to_vec(&spec).unwrap()).unwrap();
        let launch = Launch {
            spec: config,
            layers: layers.collect(),
            upper: directory.join("upper"),
            work: directory.join("work"),
            stdio,
            report,
            beside: other.map(|(processes, procs)| BesideOthers {
                process: processes.pidfd.try_clone().unwrap(),
                procs: procs.pidfd.try_clone().unwrap(),
                pids: Some(processes.pids()),
                told: SharedPid::new().unwrap(),
            }),
        };
        let pids = if other.is_some() { PidNamespace::Inherited } else { PidNamespace::New };
        let Fork::Parent { pidfd, .. } = setup::fork(pids).unwrap() else { setup::start(launch) };
        let Launch { beside, report, stdio, .. } = launch;
        drop((report, stdio));
        let refused = setup::read_report(reader).unwrap();
        let pidfd = match beside {
            Some(beside) => last_process(pidfd, &beside.told),
            None => pidfd,
        };
        let name = directory.file_name().unwrap().to_str().unwrap().to_owned();
        let output = ends.output(refused.is_none());
        Running { spec, pidfd, refused, output, name }
    }

    pub(crate) fn finish(&self, mut running: Running) -> Outcome {
        let output = read_all(&mut running.output);
        let status = process::wait(running.pidfd.as_fd()).unwrap();
        self.tree.remove_now(&running.name).unwrap();
        Outcome { refused: running.refused, status, output }
    }

    pub(crate) fn kill(&self, running: Running) -> Outcome {
        process::kill(running.pidfd.as_fd(), process::Signal::KILL).unwrap();
        self.finish(running)
    }

    /// A command in a running container, with a terminal or without.
    pub(crate) fn exec(&self, running: &Running, command: &[&str], terminal: bool) -> Outcome {
        let (reader, report) = setup::report_channel().unwrap();
        let (ends, stdio) = Ends::new(terminal);
        let root = Path::new(&running.spec.root.path);
        let join = Join {
            spec: root.with_file_name("config.json"),
            container: running.pidfd.try_clone().unwrap(),
            command: command.iter().map(|it| (*it).to_owned()).collect(),
            stdio,
            report,
            told: SharedPid::new().unwrap(),
        };
        let pids = PidNamespace::Inherited;
        let Fork::Parent { pidfd, .. } = setup::fork(pids).unwrap() else { setup::exec(join) };
        let Join { report, stdio, told, .. } = join;
        drop((report, stdio));
        let refused = setup::read_report(reader).unwrap();
        let pidfd = last_process(pidfd, &told);
        let output = read_all(&mut ends.output(refused.is_none()));
        let status = process::wait(pidfd.as_fd()).unwrap();
        Outcome { refused, status, output }
    }

    /// What a test run has left on the machine.
    pub(crate) fn leave(self) -> Vec<String> {
        let mut left = Vec::new();
        let hierarchies = linux::cgroups::Hierarchies::detect().unwrap();
        let root = hierarchies.cgroup(&self.root_cgroup).unwrap();
        left.extend(root.children().unwrap().into_iter().map(|it| format!("cgroup {it}")));
        root.remove().unwrap();
        let mountinfo = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let ours = self.directory.path().to_str().unwrap();
        left.extend(mountinfo.lines().filter(|it| it.contains(ours)).map(str::to_owned));
        left
    }
}

/// The one that executes, if it came to that.
fn last_process(setter: OwnedFd, told: &SharedPid) -> OwnedFd {
    if told.get().is_none() {
        return setter;
    }
    assert_eq!(process::wait(setter.as_fd()).unwrap(), Status::Exited(0));
    setup::forked(told).unwrap().1
}

/// Our ends of a program's streams.
enum Ends {
    Pipe(File),
    Socket(linux::seqpacket::Connection),
}

impl Ends {
    fn new(terminal: bool) -> (Self, Stdio) {
        if terminal {
            let (ours, socket) = linux::seqpacket::Connection::pair().unwrap();
            return (Self::Socket(ours), Stdio::Terminal { socket });
        }
        let (output, writer) = std::io::pipe().unwrap();
        let writer = OwnedFd::from(writer);
        let stdio = Stdio::Streams {
            stdin: File::open("/dev/null").unwrap().into(),
            stdout: writer.try_clone().unwrap(),
            stderr: writer,
        };
        (Self::Pipe(File::from(OwnedFd::from(output))), stdio)
    }

    fn output(self, has_started: bool) -> File {
        match self {
            Self::Pipe(file) => file,
            Self::Socket(socket) if has_started => {
                let message = socket.receive().unwrap().unwrap();
                File::from(message.descriptors.into_iter().next().unwrap())
            }
            Self::Socket(_) => File::open("/dev/null").unwrap(),
        }
    }
}

fn read_all(file: &mut File) -> String {
    let mut output = Vec::new();
    let mut buffer = [0; 4096];
    // A terminal whose other end is closed reads as EIO.
    while let Ok(n @ 1..) = file.read(&mut buffer) {
        output.extend(&buffer[..n]);
    }
    String::from_utf8_lossy(&output).replace('\r', "").trim_end().to_owned()
}

fn container_config() -> ContainerConfig {
    node_api::fake::plain_container("test", ImageId::new("sha256:0"))
}

fn sandbox_config() -> SandboxConfig {
    node_api::fake::plain_sandbox(PodRef {
        namespace: "default".to_owned(),
        name: "test".to_owned(),
        uid: PodUid::new("0"),
    })
}

/// For what the kernel does in its own time. Bounded.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..2000 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("never: {what}");
}
