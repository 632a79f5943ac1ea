//! Starts a worker, and ends one. Which process it is, is written down, so that one that does not
//! answer can be ended.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use linux::process::{self, Identity, Pid, Signal};
use linux::seqpacket::Listener;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};

use super::{Error, Worker};
use crate::Place;
use crate::place::record;

/// So long one that ends may take for it.
const END: Duration = Duration::from_secs(5);
/// One that is found ends perhaps just then.
const ATTEMPTS: usize = 3;

#[derive(Serialize, Deserialize)]
struct Record {
    pid: i32,
    start_time: u64,
    boot: String,
}

pub(super) fn find_or_start(place: &Place) -> Result<Worker, Error> {
    let lock = lock(place).map_err(Error::Prepare)?;
    for _ in 0..ATTEMPTS {
        if let Some(worker) = Worker::find(place)? {
            return Ok(worker);
        }
        end(&place.directory).map_err(Error::Find)?;
        start(place)?;
    }
    drop(lock);
    Err(Error::Ended)
}

/// Two that start one at once would start two.
fn lock(place: &Place) -> io::Result<File> {
    DirBuilder::new().recursive(true).mode(0o700).create(&place.directory)?;
    let open = OpenOptions::new().write(true).create(true).truncate(false).open(place.lock());
    let file = open?;
    match stdx::lock_file(&file) {
        true => Ok(file),
        false => Err(io::Error::other("somebody else looks for the worker")),
    }
}

fn start(place: &Place) -> Result<(), Error> {
    let failed = |source| Error::Start { program: place.program.display().to_string(), source };
    // It listens before it runs, so that nobody has to wait for it.
    let listener = Listener::bind(&place.socket()).map_err(Error::Prepare)?;
    let stdin = listener.as_fd().try_clone_to_owned().map_err(failed)?;
    let mut command = Command::new(&place.program);
    command
        .args(&place.arguments)
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::from(stdin))
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = command.spawn().map_err(failed)?;
    let written = write_record(place, child.id());
    if written.is_err() {
        // Nobody would find it.
        let _ = child.kill();
        let _ = child.wait();
    }
    written.map_err(failed)
}

fn write_record(place: &Place, pid: u32) -> io::Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| io::Error::other("a process without a number"))?;
    let Identity { pid, start_time, boot } = Identity::of(pid)?;
    let text = serde_json::to_vec(&Record { pid, start_time, boot })?;
    let new = place.directory.join("worker.new");
    fs::write(&new, text)?;
    fs::rename(new, record(&place.directory))
}

/// Ends the worker and removes its directory, if there are any. What it carries ends with it.
pub fn purge(directory: &Path) -> Result<(), Error> {
    end(directory).map_err(Error::Find)?;
    match fs::remove_dir_all(directory) {
        Err(err) if err.kind() != io::ErrorKind::NotFound => Err(Error::Remove(err)),
        _ => Ok(()),
    }
}

/// Of the last one that was started here. Returns when it is gone, and what it had is free.
fn end(directory: &Path) -> io::Result<()> {
    let text = match fs::read(record(directory)) {
        Ok(text) => text,
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(err) => return Err(err),
    };
    // One that cannot be read was not written to its end, by a machine that lost its power.
    let Ok(Record { pid, start_time, boot }) = serde_json::from_slice(&text) else {
        return Ok(());
    };
    let known = Pid::from_raw(pid).filter(|_| pid > 0);
    if let Some(pidfd) = (Identity { pid, start_time, boot }).open()? {
        process::kill(pidfd.as_fd(), Signal::KILL)?;
        wait(&pidfd)?;
    }
    // A child of this process stays until it is reaped.
    if let Some(Ok(pidfd)) = known.map(process::open)
        && process::is_child(pidfd.as_fd())
        && process::has_ended(pidfd.as_fd())?
    {
        process::try_wait(pidfd.as_fd())?;
    }
    Ok(())
}

fn wait(pidfd: &OwnedFd) -> io::Result<()> {
    let mut ended = [PollFd::new(pidfd, PollFlags::IN)];
    let patience = Timespec { tv_sec: END.as_secs().cast_signed(), tv_nsec: 0 };
    match rustix::io::retry_on_intr(|| poll(&mut ended, Some(&patience)))? {
        0 => Err(io::Error::other("the worker does not end")),
        _ => Ok(()),
    }
}
