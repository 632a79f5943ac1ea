//! Starts a holder process. Blocks; not for a task.

use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::{Command, Stdio};

use linux::seqpacket::Listener;

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

/// Of mimalloc, which is the program's allocator: a holder uses little memory for long, so no huge pages (which the allocator
/// then turns off for the whole process; see `launch::allow_huge_pages`), and what is free goes back at once.
const ENVIRONMENT: &[(&str, &str)] = &[("MIMALLOC_ALLOW_THP", "0"), ("MIMALLOC_PURGE_DELAY", "0")];

/// The socket listens before the holder runs, so that nobody has to wait for it to appear. The process started here
/// forks the holder and ends, so that the holder is init's child: it does not become a zombie of ours.
pub(super) fn spawn(program: &Path, directory: &Path) -> Result<(), Error> {
    let listener = Listener::bind(&directory.join("sock")).map_err(Error::Listen)?;
    let stdin = listener.as_fd().try_clone_to_owned().map_err(Error::Listen)?;
    let execute = |source| Error::Execute { program: program.display().to_string(), source };
    let status = Command::new(program)
        .arg(crate::holder::ARGUMENT)
        .arg(directory)
        .env_clear()
        .envs(ENVIRONMENT.iter().copied())
        .current_dir("/")
        .stdin(Stdio::from(stdin))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .map_err(execute)?;
    if status.success() { Ok(()) } else { Err(Error::Ended(status)) }
}
