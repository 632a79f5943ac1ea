//! Starts a holder process. Blocks; not for a task.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use linux::seqpacket::Listener;
use node_api::ClusterId;

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("listening for the holder's clients")]
    Listen(#[source] io::Error),
    #[error("executing {program:?} as holder")]
    Execute {
        program: String,
        #[source]
        source: io::Error,
    },
    #[error("the holder ended at once: {0}")]
    Ended(std::process::ExitStatus),
}

/// This binary, so that what runs in containers cannot write to it. A holder's children enter
/// containers before they execute what is asked for, and that may be `/proc/self/exe`, by whatever
/// link or script: their own program, which is the host's (CVE-2019-5736). Executed through this
/// descriptor it is on a mount that is read-only and nowhere to be found.
pub(super) struct Program {
    file: OwnedFd,
    /// For command lines.
    path: PathBuf,
}

impl Program {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { file: linux::mounts::open_program(path)?, path: path.to_owned() })
    }

    /// For holders, whose children execute it to be set up.
    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// The socket listens before the holder runs, so that nobody has to wait for it to appear. The
/// process started here forks the holder and ends, so that the holder is init's child: it does not
/// become a zombie of ours.
pub(super) fn spawn(program: &Program, directory: &Path, cluster: ClusterId) -> Result<(), Error> {
    let listener = Listener::bind(&directory.join("sock")).map_err(Error::Listen)?;
    let stdin = listener.as_fd().try_clone_to_owned().map_err(Error::Listen)?;
    let execute = |source| Error::Execute { program: program.path.display().to_string(), source };
    let status = Command::new(format!("/proc/self/fd/{}", program.file.as_raw_fd()))
        .arg0(&program.path)
        .arg(crate::holder::ARGUMENT)
        .arg(directory)
        .arg(cluster.to_string())
        .env_clear()
        .envs(crate::setup::ENVIRONMENT.iter().copied())
        .current_dir("/")
        .stdin(Stdio::from(stdin))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .map_err(execute)?;
    if status.success() { Ok(()) } else { Err(Error::Ended(status)) }
}
