//! What the holder's forked child does to become a container, or a command in one. It has a single thread and no other
//! duty, so it may do anything, and everything it holds ends with it.
//!
//! Promises: either the program was executed, or one sentence says why not; nothing is left on the host in both cases.
//! Everything in the image and in the volumes is hostile: paths in the container are resolved inside its root by the
//! kernel (`RESOLVE_IN_ROOT`), mounts are placed by descriptors, and no descriptor of the host's is open when the program
//! or its directory is looked up.

use std::io::{self, Read as _};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;

use linux::process::Fork;

use crate::spec::Spec;

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
pub fn fork(_pids: PidNamespace<'_>) -> io::Result<Fork> {
    todo!()
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
pub fn start(_launch: Launch) -> ! {
    todo!()
}

/// In the child made by [`fork`] with [`PidNamespace::Of`] the container: becomes the command.
pub fn exec(_join: Join) -> ! {
    todo!()
}
