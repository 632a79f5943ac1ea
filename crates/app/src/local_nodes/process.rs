//! Which processes a node's first one and its agent are, written down as the machine sees them.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::time::Duration;

use linux::process::{self, Identity, Pid, Signal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};

use crate::data_dir::write_private;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    pid: i32,
    start_time: u64,
    boot: String,
}

/// A process that surely lives while this is called.
pub(super) fn note(path: &Path, pid: Pid) -> io::Result<()> {
    let Identity { pid, start_time, boot } = Identity::of(pid)?;
    write_private(path, &serde_json::to_vec(&Record { pid, start_time, boot })?)
}

/// One that lives.
pub(super) struct Found {
    pub(super) pid: i32,
    pub(super) pidfd: OwnedFd,
}

/// `None`: there is none, or it has ended.
pub(super) fn find(path: &Path) -> io::Result<Option<Found>> {
    let text = match std::fs::read(path) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(None),
        text => text?,
    };
    // One that cannot be read was not written to its end, by a machine that lost its power.
    let Ok(Record { pid, start_time, boot }) = serde_json::from_slice(&text) else {
        return Ok(None);
    };
    let pidfd = Identity { pid, start_time, boot }.open()?;
    Ok(pidfd.map(|pidfd| Found { pid, pidfd }))
}

/// Returns when it is gone.
pub(super) fn end(found: &Found, signal: Signal, patience: Duration) -> io::Result<()> {
    process::kill(found.pidfd.as_fd(), signal)?;
    let mut ended = [PollFd::new(&found.pidfd, PollFlags::IN)];
    let patience_left = Timespec {
        tv_sec: patience.as_secs().cast_signed(),
        tv_nsec: patience.subsec_nanos().into(),
    };
    match rustix::io::retry_on_intr(|| poll(&mut ended, Some(&patience_left)))? {
        0 => Err(io::Error::other(format!("process {} still runs after {patience:?}", found.pid))),
        _ => Ok(()),
    }
}
