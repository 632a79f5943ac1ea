//! The end of a cgroup: killing what is in it, and removing it.
//!
//! Version 2 (also beside version 1) kills at one stroke and tells when a cgroup is empty. With
//! version 1 alone the processes are killed one by one, frozen meanwhile so that none can fork
//! away, and their pidfds tell when they end.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};

use super::{Cgroup, Error, Version, directories_below, read, write};
use crate::process::{self, Pid, Signal};

/// Longest wait for killed processes; one that waits for a disk cannot be killed.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// How often killing, or removing, is tried.
const ROUNDS_MAX: u32 = 50;

pub(super) fn kill(cgroup: &Cgroup) -> Result<(), Error> {
    for _ in 0..ROUNDS_MAX {
        let unified = cgroup.hierarchies.unified().map(|it| cgroup.directory(it));
        if let Some(directory) = unified.filter(|it| it.join("cgroup.kill").exists()) {
            match write(&directory.join("cgroup.kill"), "1") {
                Err(err) if err.errno() == Some(libc::ENODEV) => {}
                result => result?,
            }
            wait_until_empty(cgroup, &directory)?;
        }
        // Elsewhere than in version 2, or there is none.
        let pids = cgroup.processes()?;
        if pids.is_empty() {
            return Ok(());
        }
        kill_one_by_one(cgroup, &pids)?;
    }
    Err(Error::StillRunning { name: cgroup.name.clone(), waited: WAIT_MAX })
}

/// `cgroup.events` has `populated 0` when nothing is in it or below; it tells changes by POLLPRI
/// (cgroups(7)).
fn wait_until_empty(cgroup: &Cgroup, directory: &Path) -> Result<(), Error> {
    let path = directory.join("cgroup.events");
    let failed = |source| Error::Read { path: path.clone(), source };
    let file = match std::fs::File::open(&path) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(()),
        result => result.map_err(failed)?,
    };
    for _ in 0..ROUNDS_MAX {
        // Reading from the start arms the notification.
        let mut text = [0; 256];
        let n = match rustix::io::pread(&file, &mut text, 0) {
            Err(rustix::io::Errno::NODEV) => return Ok(()),
            result => result.map_err(|err| failed(err.into()))?,
        };
        if String::from_utf8_lossy(&text[..n]).lines().any(|it| it == "populated 0") {
            return Ok(());
        }
        let mut polled = [PollFd::new(&file, PollFlags::PRI)];
        match rustix::event::poll(&mut polled, Some(&timespec(WAIT_MAX))) {
            Ok(0) => break,
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(err) => return Err(failed(err.into())),
        }
    }
    Err(Error::StillRunning { name: cgroup.name.clone(), waited: WAIT_MAX })
}

pub(super) fn kill_one_by_one(cgroup: &Cgroup, pids: &[i32]) -> Result<(), Error> {
    let freezer = cgroup.hierarchies.with("freezer").filter(|it| it.version == Version::V1);
    let state = freezer.map(|it| cgroup.directory(it).join("freezer.state"));
    if let Some(state) = state.as_deref().filter(|it| it.exists()) {
        write(state, "FROZEN")?;
    }
    let mut pidfds = Vec::new();
    for pid in pids.iter().filter_map(|it| Pid::from_raw(*it)) {
        // One that is gone already needs no killing.
        let Ok(pidfd) = process::open(pid) else { continue };
        if process::kill(pidfd.as_fd(), Signal::KILL).is_ok() {
            pidfds.push(pidfd);
        }
    }
    if let Some(state) = state.as_deref().filter(|it| it.exists()) {
        write(state, "THAWED")?;
    }
    wait_for_all(cgroup, pidfds)
}

fn wait_for_all(cgroup: &Cgroup, mut pidfds: Vec<OwnedFd>) -> Result<(), Error> {
    while !pidfds.is_empty() {
        let mut polled: Vec<PollFd<'_>> =
            pidfds.iter().map(|it| PollFd::new(it, PollFlags::IN)).collect();
        match rustix::event::poll(&mut polled, Some(&timespec(WAIT_MAX))) {
            Ok(0) => {
                return Err(Error::StillRunning { name: cgroup.name.clone(), waited: WAIT_MAX });
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(err) => {
                let path = PathBuf::from(&cgroup.name);
                return Err(Error::Read { path, source: err.into() });
            }
        }
        let has_ended: Vec<bool> = polled.iter().map(|it| !it.revents().is_empty()).collect();
        let mut ended = has_ended.into_iter();
        pidfds.retain(|_| !ended.next().unwrap_or(false));
    }
    Ok(())
}

fn timespec(duration: Duration) -> Timespec {
    Timespec { tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX), tv_nsec: 0 }
}

pub(super) fn remove(cgroup: &Cgroup) -> Result<(), Error> {
    if !cgroup.exists() {
        return Ok(());
    }
    let mut result = Ok(());
    for _ in 0..ROUNDS_MAX {
        kill(cgroup)?;
        result = cgroup.hierarchies.iter().try_for_each(|it| remove_tree(&cgroup.directory(it)));
        match &result {
            // Something was started meanwhile, or the kernel is still taking leave of what ended:
            // it has no event for the latter, so wait a moment.
            Err(err) if err.errno() == Some(libc::EBUSY) => {
                let moment = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
                rustix::event::poll(&mut [], Some(&moment)).ok();
            }
            _ => break,
        }
    }
    result
}

fn remove_tree(directory: &Path) -> Result<(), Error> {
    for child in directories_below(directory)? {
        remove_tree(&child)?;
    }
    match std::fs::remove_dir(directory) {
        Err(err) if err.kind() != io::ErrorKind::NotFound => {
            Err(Error::Remove { path: directory.to_owned(), source: err })
        }
        _ => Ok(()),
    }
}

/// Processes of a directory and those below.
pub(super) fn collect(directory: &Path, pids: &mut BTreeSet<i32>) -> Result<(), Error> {
    match read(&directory.join("cgroup.procs")) {
        Ok(text) => pids.extend(text.lines().filter_map(|it| it.parse::<i32>().ok())),
        // Gone, or going.
        Err(err) if matches!(err.errno(), Some(libc::ENOENT | libc::ENODEV)) => return Ok(()),
        Err(err) => return Err(err),
    }
    for child in directories_below(directory)? {
        collect(&child, pids)?;
    }
    Ok(())
}
