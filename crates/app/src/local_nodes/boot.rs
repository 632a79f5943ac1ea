//! The program that boots a node: makes its namespaces, and in them what becomes its first process,
//! which does nothing but to keep them, and to reap. Single-threaded; runs before anything else of
//! the binary is started.

use std::ffi::{CString, OsString};
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, bail};
use linux::cgroups::{Cgroup, Hierarchies};
use linux::namespaces::Namespaces;
use linux::process::{CloneFlags, Fork, Pid};
use rustix::pipe::PipeFlags;

use super::place::Place;
use super::{mounts, process};

/// How the node's first process is called in the list of the machine's.
const INIT: &str = "xebec-node";
/// Cgroups of the node's own, beside those of its pods.
const CGROUP_OF_INIT: &str = "init";
pub(super) const CGROUP_OF_AGENT: &str = "agent";
/// More of why not than anybody reads.
const REASON_MAX: u64 = 16 << 10;

/// Boots it, and returns when its first process is what it is to be. Whatever there was of it
/// before is gone by then.
pub(super) fn boot(place: &Place) -> Result<()> {
    let doing = || format!("booting the node {}", place.name);
    cgroup(place).and_then(|it| it.remove()).with_context(doing)?;
    let output = super::command("boot")
        .args([&place.directory, &place.cluster_directory])
        .arg(&place.name)
        .arg(&place.cgroup)
        .stdin(Stdio::null())
        .output()
        .with_context(doing)?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim().trim_start_matches("error: ");
    bail!(
        "{}: {said}{}",
        doing(),
        if said.is_empty() { output.status.to_string() } else { String::new() }
    )
}

/// With all that is in it, also of a first process that nobody wrote down.
pub(super) fn cgroup(place: &Place) -> Result<Cgroup, linux::cgroups::Error> {
    Hierarchies::detect()?.cgroup(&place.cgroup)
}

/// The program. `arguments`: the directories of the node and of its cluster, its name, its cgroup.
pub(super) fn run(arguments: &[OsString]) -> Result<()> {
    let [directory, cluster, name, cgroup] = arguments else { bail!("expected four arguments") };
    let (directory, cluster) = (PathBuf::from(directory), PathBuf::from(cluster));
    let (name, cgroup) = (name.to_string_lossy(), cgroup.to_string_lossy());
    let cgroup = Hierarchies::detect()?.cgroup(&cgroup)?;
    cgroup.create()?;
    // It is the root of the cgroups that the node sees.
    cgroup.join()?;
    let (ours, theirs) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).context("making a pipe")?;
    let namespaces = Namespaces::CGROUP
        | Namespaces::IPC
        | Namespaces::MOUNT
        | Namespaces::NETWORK
        | Namespaces::PID
        | Namespaces::UTS;
    let flags = CloneFlags { namespaces, ..CloneFlags::default() };
    match linux::process::fork(flags).context("making the node's namespaces")? {
        Fork::Parent { pid, pidfd } => {
            drop(theirs);
            let booted = follow(ours, &pidfd).and_then(|()| note(&directory, pid));
            if booted.is_err() {
                let _ = linux::process::kill(pidfd.as_fd(), linux::process::Signal::KILL);
            }
            booted
        }
        Fork::Child => {
            drop(ours);
            let failed = become_init(&directory, &cluster, &name, &theirs);
            let why = failed.map_or_else(|err| format!("{err:#}"), |()| String::new());
            // Nobody is left to be told if this fails.
            let _ = std::fs::File::from(theirs).write_all(why.as_bytes());
            linux::process::exit_now(1)
        }
    }
}

/// Its end of the pipe closes when it executes, or has said why it does not.
fn follow(pipe: OwnedFd, init: &OwnedFd) -> Result<()> {
    let mut why = String::new();
    let pipe = std::fs::File::from(pipe);
    pipe.take(REASON_MAX).read_to_string(&mut why).context("waiting for the first process")?;
    if !why.is_empty() {
        bail!("{why}");
    }
    if linux::process::has_ended(init.as_fd()).context("looking at the first process")? {
        bail!("its first process has ended");
    }
    Ok(())
}

fn note(directory: &Path, pid: Pid) -> Result<()> {
    let path = directory.join("init.json");
    process::note(&path, pid).with_context(|| format!("writing {}", path.display()))
}

/// Returns only if it could not.
fn become_init(directory: &Path, cluster: &Path, name: &str, report: &OwnedFd) -> Result<()> {
    linux::process::new_session().context("making a session")?;
    rustix::process::chdir("/").context("going to /")?;
    mounts::apply(cluster, directory)?;
    rustix::system::sethostname(name.as_bytes()).context("setting the host name")?;
    linux::loopback::bring_up().context("bringing up the loopback interface")?;
    let own = Hierarchies::detect()?.cgroup(CGROUP_OF_INIT)?;
    own.create()?;
    // Version 2 has processes in leaves alone.
    own.join()?;
    let words = [INIT.as_bytes(), directory.as_os_str().as_bytes()];
    let words = words.map(CString::new).into_iter().collect::<Result<Vec<_>, _>>()?;
    linux::pause::become_init(&words, report.as_fd()).context("becoming the first process")
}
