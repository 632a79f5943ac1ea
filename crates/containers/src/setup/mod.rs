//! What the holder's forked child does to become a container, or a command in one. It has a single thread and no other
//! duty, so it may do anything, and everything it holds ends with it.
//!
//! Promises: either the program was executed, or one sentence says why not; nothing is left on the host in both cases.
//! Everything in the image and in the volumes is hostile: paths in the container are resolved inside its root by the
//! kernel (`RESOLVE_IN_ROOT`), mounts are placed by descriptors, and no descriptor of the host's is open when the program
//! or its directory is looked up.

mod devices;
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
use linux::mounts::{Attributes, Depth};
use linux::namespaces::Namespaces;
use linux::process::{self, CloneFlags, Fork};
use linux::rooted::{Missing, Root};

use self::refusal::{OrRefuse as _, Refusal, Result};
use self::stdio::Console;
use crate::spec::{NamespaceKind, Spec};

/// Longest sentence that is told.
const REPORT_MAX: u64 = 4096;

/// The exit code of a child that could not execute.
pub const CODE_REFUSED: i32 = 128;

/// A container to start.
pub struct Launch {
    pub spec: Spec,
    /// The image's layers, uppermost first.
    pub layers: Vec<PathBuf>,
    /// What the container writes; `work` is overlayfs' own. Both on one file system, below the container's directory.
    pub upper: PathBuf,
    pub work: PathBuf,
    pub stdio: Stdio,
    /// Where the sentence goes if it does not start; made by [`report_channel`].
    pub report: OwnedFd,
}

/// A command to run in a container that runs.
pub struct Join {
    /// The container's.
    pub spec: Spec,
    /// The container's first process.
    pub container: OwnedFd,
    pub command: Vec<String>,
    pub stdio: Stdio,
    pub report: OwnedFd,
}

pub enum Stdio {
    Streams {
        stdin: OwnedFd,
        stdout: OwnedFd,
        stderr: OwnedFd,
    },
    /// A terminal is opened in the container; its master is sent over this socket (one byte with one descriptor).
    Terminal {
        socket: linux::seqpacket::Connection,
    },
}

/// The child's PID namespace.
#[derive(Clone, Copy)]
pub enum PidNamespace<'a> {
    /// As the holder's.
    Inherited,
    /// A new one, with the child as its first process.
    New,
    /// That of this process.
    Of(BorrowedFd<'a>),
}

/// Forks the holder, which has a single thread. The child calls [`start`] or [`exec`].
pub fn fork(pids: PidNamespace<'_>) -> io::Result<Fork> {
    match pids {
        PidNamespace::Inherited => process::fork(CloneFlags::default()),
        PidNamespace::New => {
            process::fork(CloneFlags { namespaces: Namespaces::PID, ..CloneFlags::default() })
        }
        PidNamespace::Of(process) => process::fork_beside(process, CloneFlags::default()),
    }
}

/// Two ends: the first is read by [`read_report`], the second is `report` above. Both close on exec.
pub fn report_channel() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reader, writer) = io::pipe()?;
    Ok((reader.into(), writer.into()))
}

/// Blocks until the child has executed (`None`) or given up (why). The caller closes its copy of `report` first, by
/// dropping the `Launch`.
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
    let Launch { spec, layers, upper, work, stdio, report } = launch;
    let image = Image { layers: &layers, upper: &upper, work: &work };
    let result = become_container(&spec, &image, stdio, report.as_fd());
    give_up(result, &report)
}

/// In the child made by [`fork`] with [`PidNamespace::Of`] the container: becomes the command.
pub fn exec(join: Join) -> ! {
    let Join { spec, container, command, stdio, report } = join;
    let result = become_command(&spec, &container, &command, stdio, report.as_fd());
    give_up(result, &report)
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
) -> Result<Infallible> {
    let hierarchies = prepare_process(spec)?;
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
    let place = mounts::Place { root: &root, spec, hierarchies: &hierarchies };
    for mount in prepared {
        mounts::place(mount, &place)?;
    }
    finish_root(&root, spec, &null)?;
    linux::mounts::pivot(root.as_fd()).or_refuse(|| "pivot_root".to_owned())?;
    drop((root, null));
    let identity = identity::look_up(&spec.process.user)?;
    stdio::place(stdio, identity.uid, Console::Bound)?;
    process::close_descriptors(3, &[report]).or_refuse(|| "close descriptors".to_owned())?;
    program::become_program(spec, &spec.process.args, &identity, report)
}

/// Those that each container has for itself; that of PIDs was made, or joined, by forking.
fn own_namespaces(spec: &Spec) -> Namespaces {
    let has_cgroup = spec.has_new(NamespaceKind::Cgroup);
    Namespaces::MOUNT | if has_cgroup { Namespaces::CGROUP } else { Namespaces::NONE }
}

/// What needs the host's file system: the cgroup, the inclination to be killed for memory, and leaving the holder's session.
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
    process::new_session().or_refuse(|| "setsid".to_owned())?;
    // Kernels may be built without keyrings.
    process::new_session_keyring().ok();
    process::hide().or_refuse(|| "hide from the container".to_owned())?;
    Ok(hierarchies)
}

/// Lowering it takes CAP_SYS_RESOURCE; without, the container is killed a little sooner than it could be.
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
) -> Result<Infallible> {
    prepare_process(spec)?;
    linux::namespaces::join_process(container.as_fd(), own_namespaces(spec))
        .or_refuse(|| "join the container's namespaces".to_owned())?;
    let identity = identity::look_up(&spec.process.user)?;
    stdio::place(stdio, identity.uid, Console::Unbound)?;
    process::close_descriptors(3, &[report]).or_refuse(|| "close descriptors".to_owned())?;
    program::become_program(spec, command, &identity, report)
}
