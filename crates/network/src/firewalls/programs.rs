//! Running a program that others' firewalls are changed by.

use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use linux::network_namespace::NetworkNamespace;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Who says nothing for so long is ended.
const PATIENCE: Duration = Duration::from_secs(20);
/// More of what a program says is not read.
const OUTPUT_MAX: u64 = 16 << 20;
/// Of what it complains, this much is told.
const COMPLAINT_MAX: usize = 500;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the program {} is not there", .0.display())]
    Missing(PathBuf),
    #[error("run {}", program.display())]
    Run { program: PathBuf, source: io::Error },
    #[error("{} did not end within {PATIENCE:?}", .0.display())]
    Late(PathBuf),
    #[error("{} failed ({status}): {complaint}", program.display())]
    Refused { program: PathBuf, status: String, complaint: String },
}

/// What it says, in the namespace. `input` is short: a pipe holds it.
pub(crate) fn run(
    namespace: &NetworkNamespace,
    program: &Path,
    words: &[&str],
    input: &str,
) -> Result<String, Error> {
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => Error::Missing(program.to_owned()),
        _ => Error::Run { program: program.to_owned(), source },
    };
    let spawn = || {
        let piped = Stdio::piped;
        Command::new(program).args(words).stdin(piped()).stdout(piped()).stderr(piped()).spawn()
    };
    let child = namespace.run(spawn).map_err(|err| failed(err.source))?.map_err(failed)?;
    let ran = finish(child, input).map_err(failed)?;
    match ran {
        None => Err(Error::Late(program.to_owned())),
        Some((status, output, _)) if status.success() => Ok(output),
        Some((status, output, complaint)) => {
            // Some complain where others answer.
            let words = if complaint.trim().is_empty() { output } else { complaint };
            let complaint = words.trim().chars().take(COMPLAINT_MAX).collect();
            let (program, status) = (program.to_owned(), status.to_string());
            Err(Error::Refused { program, status, complaint })
        }
    }
}

type Ran = (std::process::ExitStatus, String, String);

/// `None`: it was ended.
fn finish(mut child: Child, input: &str) -> io::Result<Option<Ran>> {
    // One that ends early says why by itself.
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(input.as_bytes());
    }
    let (output, complaint) = (child.stdout.take(), child.stderr.take());
    std::thread::scope(|scope| {
        let output = scope.spawn(move || read(output));
        let complaint = scope.spawn(move || read(complaint));
        let has_ended = wait(&child)?;
        if !has_ended {
            child.kill()?;
        }
        let status = child.wait()?;
        let read = |it: std::thread::ScopedJoinHandle<'_, String>| it.join().unwrap_or_default();
        let (output, complaint) = (read(output), read(complaint));
        Ok(has_ended.then_some((status, output, complaint)))
    })
}

fn read(from: Option<impl io::Read>) -> String {
    let mut bytes = Vec::new();
    // What came before an error is what there is.
    let _ = from.map(|it| it.take(OUTPUT_MAX).read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Whether it ended in time.
fn wait(child: &Child) -> io::Result<bool> {
    let pid = Pid::from_child(child);
    let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
    let patience = Timespec { tv_sec: PATIENCE.as_secs().cast_signed(), tv_nsec: 0 };
    let pidfd = pidfd.as_fd();
    let mut waiting = [PollFd::from_borrowed_fd(pidfd, PollFlags::IN)];
    Ok(poll(&mut waiting, Some(&patience))? > 0)
}
