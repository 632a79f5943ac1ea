//! What the holder's forked child does to become a container, or a command in one, by the code of
//! the program that `xebec` sends it ([`handover`]), or the holder's own. It has a single
//! thread and no other duty, so it may do anything, and everything it holds ends with it.
//!
//! Promises: either the program was executed, or one sentence says why not; nothing is left on the
//! host in both cases. Everything in the image and in the volumes is hostile: paths in the
//! container are resolved inside its root by the kernel (`RESOLVE_IN_ROOT`), mounts are placed by
//! descriptors, and no descriptor of the host's is open when the program or its directory is looked
//! up.
//!
//! **Who can see the child meanwhile.** A process in a container that has CAP_SYS_PTRACE can do as
//! any process in its PID namespace: read its memory, go through its `/proc/<pid>/root` and its
//! descriptors, and run code as it. Being "not dumpable" does not help against that capability, nor
//! would being traced by somebody else. What helps is not to be there:
//!
//! - A container with a PID namespace of its own is set up by the first process of that namespace,
//!   which is alone in it until it executes the container's program.
//! - Where others are there already (a pod that shares its processes, a command in a container that
//!   runs), the child stays in the holder's PID namespace, out of sight, until it is what the
//!   program may be: in the container's mounts, as its user, with its capabilities and no others,
//!   with nothing of the host's open. Then it forks ([`Beside`]): the process that appears in the
//!   PID namespace is born with the container's rights and its view, and only has to execute. It is
//!   the holder's child like any other (`CLONE_PARENT`).
//!
//! Where no new privileges are forbidden, the filter of system calls must be in place before the
//! fork, since it takes CAP_SYS_ADMIN; such a filter has to allow clone(2), or the container's
//! commands cannot be started.

mod devices;
mod handover;
mod identity;
mod mounts;
mod paths;
mod program;
mod refusal;
mod stdio;

use std::convert::Infallible;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use linux::cgroups::Hierarchies;
use linux::mounts::{Attributes, Depth, Detached};
use linux::namespaces::Namespaces;
use linux::process::{self, CloneFlags, Fork, Pid, SharedPid};
use linux::rooted::{Missing, Root};
use rustix::fs::AtFlags;

pub use self::handover::{ARGUMENT, run};
pub(crate) use self::handover::{ENVIRONMENT, Handover, Task, exec as exec_by, start as start_by};
use self::refusal::{OrRefuse as _, Refusal, Result};
use self::stdio::Console;
use crate::spec::{NamespaceKind, Spec};

/// Longest sentence that is told.
const REPORT_MAX: u64 = 4096;

/// The exit code of a child that could not execute.
pub const CODE_REFUSED: i32 = 128;

/// A container to start.
pub struct Launch {
    /// The container's `config.json`.
    pub spec: PathBuf,
    /// The image's layers, uppermost first.
    pub layers: Vec<PathBuf>,
    /// What the container writes; `work` is overlayfs' own. Both on one file system, below the
    /// container's directory.
    pub upper: PathBuf,
    pub work: PathBuf,
    pub stdio: Stdio,
    /// Where the sentence goes if it does not start; made by [`report_channel`].
    pub report: OwnedFd,
    /// `None`: the child itself becomes the container.
    pub beside: Option<BesideOthers>,
}

/// A place in a PID namespace where others are already.
pub struct BesideOthers {
    /// A process of that namespace.
    pub process: OwnedFd,
    /// A mount namespace whose `/proc` is that namespace's, or a process in one.
    pub procs: OwnedFd,
    /// That PID namespace, where somebody else than we may have chosen what `/proc` shows.
    pub pids: Option<OwnedFd>,
    /// Where the pid of the container's process will be.
    pub told: SharedPid,
}

/// A command to run in a container that runs.
pub struct Join {
    /// The container's `config.json`.
    pub spec: PathBuf,
    /// The container's first process.
    pub container: OwnedFd,
    pub command: Vec<String>,
    pub stdio: Stdio,
    pub report: OwnedFd,
    /// Where the pid of the command's process will be.
    pub told: SharedPid,
}

pub enum Stdio {
    Streams {
        stdin: OwnedFd,
        stdout: OwnedFd,
        stderr: OwnedFd,
    },
    /// A terminal is opened in the container; its master is sent over this socket (one byte with
    /// one descriptor).
    Terminal {
        socket: linux::seqpacket::Connection,
    },
}

/// The PID namespace of the child that sets up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PidNamespace {
    /// As the holder's.
    Inherited,
    /// A new one, with the child as its first process.
    New,
}

/// Forks the holder, which has a single thread. The child calls [`start`] or [`exec`].
pub fn fork(pids: PidNamespace) -> io::Result<Fork> {
    let namespaces = match pids {
        PidNamespace::Inherited => Namespaces::NONE,
        PidNamespace::New => Namespaces::PID,
    };
    process::fork(CloneFlags { namespaces, ..CloneFlags::default() })
}

/// Once the report has ended without a sentence: the process that the child has forked. An error if
/// there is none, or if it is not ours.
pub fn forked(told: &SharedPid) -> io::Result<(Pid, OwnedFd)> {
    let pid = told.get().ok_or_else(|| io::Error::other("it ended without a word"))?;
    // Not reaped yet, if it is our child: the number is not another's.
    let pidfd = process::open(pid)?;
    match process::is_child(pidfd.as_fd()) {
        true => Ok((pid, pidfd)),
        false => Err(io::Error::other(format!("process {} is no child", pid.as_raw_nonzero()))),
    }
}

/// Two ends: the first is read by [`read_report`], the second is `report` above. Both close on
/// exec.
pub fn report_channel() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = io::pipe()?;
    Ok((reader.into(), writer.into()))
}

/// Blocks until the child has executed (`None`) or given up (why). The caller closes its copy of
/// `report` first, by dropping the `Launch`.
pub fn read_report(reader: OwnedFd) -> io::Result<Option<String>> {
    let mut text = Vec::new();
    std::fs::File::from(reader).take(REPORT_MAX).read_to_end(&mut text)?;
    if text.is_empty() {
        return Ok(None);
    }
    Ok(Some(String::from_utf8_lossy(&text).into_owned()))
}

/// In the child made by [`fork`]: becomes the container.
pub fn start(launch: Launch) -> ! {
    let Launch { spec, layers, upper, work, stdio, report, beside } = launch;
    let image = Image { layers: &layers, upper: &upper, work: &work };
    let result = read_spec(&spec)
        .and_then(|spec| become_container(&spec, &image, stdio, report.as_fd(), beside));
    give_up(result, &report)
}

/// In the child made by [`fork`], in the holder's PID namespace: becomes the command.
pub fn exec(join: Join) -> ! {
    let Join { spec, container, command, stdio, report, told } = join;
    let result = read_spec(&spec)
        .and_then(|spec| become_command(&spec, &container, &command, stdio, report.as_fd(), told));
    give_up(result, &report)
}

fn read_spec(path: &Path) -> Result<Spec> {
    let doing = || "read the container's configuration".to_owned();
    let text = std::fs::read(path).or_refuse(doing)?;
    serde_json::from_slice(&text).map_err(io::Error::from).or_refuse(doing)
}

/// What the root is made of.
struct Image<'a> {
    layers: &'a [PathBuf],
    upper: &'a Path,
    work: &'a Path,
}

fn give_up(result: Result<Infallible>, report: &OwnedFd) -> ! {
    let Err(Refusal(sentence)) = result;
    let sentence = sentence.replace('\n', " ");
    // Nobody is left to be told if this fails.
    rustix::io::write(report, sentence.as_bytes()).ok();
    process::exit_now(CODE_REFUSED)
}

fn become_container(
    spec: &Spec,
    image: &Image<'_>,
    stdio: Stdio,
    report: BorrowedFd<'_>,
    beside: Option<BesideOthers>,
) -> Result<Infallible> {
    let hierarchies = prepare_process(spec)?;
    let (procs, beside) = match beside {
        Some(others) => others.join()?,
        None => (None, None),
    };
    linux::namespaces::unshare(own_namespaces(spec))
        .or_refuse(|| "unshare namespaces".to_owned())?;
    let null = paths::open_null()?;
    // In this order: see `mounts::prepare`.
    let prepared = mounts::prepare(&spec.mounts)?;
    linux::mounts::make_all_private().or_refuse(|| "make mounts private".to_owned())?;
    let target = Path::new(&spec.root.path);
    let root = linux::mounts::overlay(image.layers, image.upper, image.work, target)
        .or_refuse(|| "error mounting the image's layers".to_owned())?;
    let root = Root::from_descriptor(root);
    let procs = match (&beside, procs) {
        (None, _) => mounts::Procs::Own,
        (Some(_), procs) => mounts::Procs::Others(procs.into()),
    };
    let place = mounts::Place { root: &root, spec, hierarchies: &hierarchies, procs };
    for mount in prepared {
        mounts::place(mount, &place)?;
    }
    finish_root(&root, spec, &null)?;
    linux::mounts::pivot(root.as_fd()).or_refuse(|| "pivot_root".to_owned())?;
    drop((root, null));
    let identity = identity::look_up(&spec.process.user)?;
    let terminal = stdio::place(stdio, identity.uid, Console::Bound)?;
    process::close_descriptors(3, &[report]).or_refuse(|| "close descriptors".to_owned())?;
    let last = program::Last { report, terminal, beside };
    program::become_program(spec, &spec.process.args, &identity, last)
}

impl BesideOthers {
    /// Takes what only the host's mounts lead to; the child that is forked later will be in the
    /// namespace.
    fn join(self) -> Result<(Option<Detached>, Option<Beside>)> {
        let procs = Detached::copy_from(self.procs.as_fd(), Path::new("/proc"))
            .or_refuse(|| "find the procfs of the pod".to_owned())?;
        if !linux::mounts::is_proc(&procs).or_refuse(|| "look at the procfs".to_owned())? {
            return Err(Refusal("what is mounted as /proc is no procfs".to_owned()));
        }
        if let Some(pids) = &self.pids {
            refuse_other_procs(&procs, pids)?;
        }
        linux::namespaces::join_process(self.process.as_fd(), Namespaces::PID)
            .or_refuse(|| "join the PID namespace".to_owned())?;
        Ok((Some(procs), Some(Beside::new(self.told))))
    }
}

/// The first process that a procfs shows is the first of the namespace whose processes it shows.
fn refuse_other_procs(procs: &Detached, pids: &OwnedFd) -> Result<()> {
    let look = || "look whose processes /proc shows".to_owned();
    let shown = rustix::fs::statat(procs, "1/ns/pid", AtFlags::empty()).or_refuse(look)?;
    let wanted = rustix::fs::fstat(pids).or_refuse(look)?;
    if (shown.st_dev, shown.st_ino) != (wanted.st_dev, wanted.st_ino) {
        return Err(Refusal("what is mounted as /proc shows other processes".to_owned()));
    }
    Ok(())
}

/// The program's process is a new one, in the PID namespace that was joined.
struct Beside {
    told: SharedPid,
}

impl Beside {
    /// Before descriptors are closed by their numbers.
    fn new(mut told: SharedPid) -> Self {
        told.close_file();
        Self { told }
    }
}

/// Those that each container has for itself; that of PIDs was made, or joined, by forking.
fn own_namespaces(spec: &Spec) -> Namespaces {
    let has_cgroup = spec.has_new(NamespaceKind::Cgroup);
    Namespaces::MOUNT | if has_cgroup { Namespaces::CGROUP } else { Namespaces::NONE }
}

/// What needs the host's file system: the cgroup, the inclination to be killed for memory, and
/// leaving the holder's session.
fn prepare_process(spec: &Spec) -> Result<Arc<Hierarchies>> {
    let hierarchies = Hierarchies::detect().or_refuse(|| "find cgroups".to_owned())?;
    if !spec.linux.cgroups_path.is_empty() {
        hierarchies
            .cgroup(&spec.linux.cgroups_path)
            .and_then(|it| it.join())
            .or_refuse(|| "join the cgroup".to_owned())?;
    }
    if let Some(score) = spec.process.oom_score_adj {
        set_oom_score(score)?;
    }
    process::die_with_parent().or_refuse(|| "die with the holder".to_owned())?;
    process::new_session().or_refuse(|| "setsid".to_owned())?;
    // Kernels may be built without keyrings.
    process::new_session_keyring().ok();
    process::hide().or_refuse(|| "hide from the container".to_owned())?;
    Ok(hierarchies)
}

/// Lowering it takes CAP_SYS_RESOURCE; without, the container is killed a little sooner than it
/// could be.
fn set_oom_score(score: i32) -> Result<()> {
    let written = std::fs::OpenOptions::new()
        .write(true)
        .open("/proc/self/oom_score_adj")
        .and_then(|mut file| file.write_all(score.to_string().as_bytes()));
    match written {
        Err(err) if err.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        result => result.or_refuse(|| "write oom_score_adj".to_owned()),
    }
}

/// What is done to the root when all is mounted.
fn finish_root(root: &Root, spec: &Spec, null: &OwnedFd) -> Result<()> {
    for (name, value) in &spec.linux.sysctl {
        paths::set_sysctl(root, name, value)?;
    }
    paths::make_read_only(root, &spec.linux.readonly_paths)?;
    paths::mask(root, &spec.linux.masked_paths, null)?;
    root.ensure(&spec.process.cwd, Missing::Directory)
        .or_refuse(|| format!("make the working directory {:?}", spec.process.cwd))?;
    if spec.root.readonly {
        let attributes = Attributes { read_only: Some(true), ..Attributes::default() };
        linux::mounts::set_attributes(root.as_fd(), attributes, Depth::One)
            .or_refuse(|| "make the root read-only".to_owned())?;
    }
    Ok(())
}

fn become_command(
    spec: &Spec,
    container: &OwnedFd,
    command: &[String],
    stdio: Stdio,
    report: BorrowedFd<'_>,
    told: SharedPid,
) -> Result<Infallible> {
    prepare_process(spec)?;
    linux::namespaces::join_process(container.as_fd(), own_namespaces(spec) | Namespaces::PID)
        .or_refuse(|| "join the container's namespaces".to_owned())?;
    let identity = identity::look_up(&spec.process.user)?;
    let terminal = stdio::place(stdio, identity.uid, Console::Unbound)?;
    let last = program::Last { report, terminal, beside: Some(Beside::new(told)) };
    process::close_descriptors(3, &[report]).or_refuse(|| "close descriptors".to_owned())?;
    program::become_program(spec, command, &identity, last)
}
