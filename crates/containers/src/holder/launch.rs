//! Forks the children that become containers and commands, with the ends of their streams.

use std::fs;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use linux::process::Fork;
use linux::seqpacket;
use node_api::sandboxes::PidNamespace;
use rustix::pipe::PipeFlags;

use super::container::Container;
use super::serve::Holder;
use crate::files;
use crate::logs::Stream;
use crate::protocol::{ContainerRecord, Streams};
use crate::setup::{self, Join, Launch, Stdio};
use crate::spec::Spec;

/// A child that is being set up.
pub(super) struct Launched {
    pub(super) pid: i32,
    pub(super) pidfd: OwnedFd,
    pub(super) setup: Setup,
    /// What it writes; reading never blocks. None with a terminal.
    pub(super) outputs: Vec<(Stream, OwnedFd)>,
    pub(super) stdin: Option<OwnedFd>,
}

/// Where a child says why it could not be set up, and sends its terminal's master.
pub(super) struct Setup {
    pub(super) report: OwnedFd,
    terminal: Option<seqpacket::Connection>,
}

impl Setup {
    /// Once `report` is readable: why the program was not executed, or the terminal that it was given.
    pub(super) fn finish(self) -> Result<Option<OwnedFd>, String> {
        match setup::read_report(self.report) {
            Ok(None) => {}
            Ok(Some(reason)) => return Err(reason),
            Err(err) => return Err(format!("reading how the set-up went: {err}")),
        }
        let Some(socket) = self.terminal else { return Ok(None) };
        // It was sent before the program was executed. A child that was killed has sent nothing.
        let message = socket.receive().map_err(|err| format!("receiving the terminal: {err}"))?;
        Ok(message.and_then(|it| it.descriptors.into_iter().next()))
    }
}

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("reading the container's configuration")]
    ReadConfiguration(#[source] io::Error),
    #[error("the container has no configuration")]
    NoConfiguration,
    #[error("making the streams")]
    MakeStreams(#[source] io::Error),
    #[error("forking")]
    Fork(#[source] io::Error),
}

/// The holder's ends of a child's streams.
#[derive(Default)]
struct Ends {
    outputs: Vec<(Stream, OwnedFd)>,
    stdin: Option<OwnedFd>,
    terminal: Option<seqpacket::Connection>,
}

pub(super) fn container(
    holder: &Holder,
    directory: &Path,
    record: &ContainerRecord,
) -> Result<Launched, Error> {
    let spec = read_spec(directory)?;
    let pids = match (holder.sandbox.config.pid, &holder.pod_init) {
        (PidNamespace::Pod, Some(init)) => setup::PidNamespace::Of(init.pidfd()),
        (PidNamespace::Host, _) => setup::PidNamespace::Inherited,
        (PidNamespace::Pod | PidNamespace::Container, _) => setup::PidNamespace::New,
    };
    let (stdio, ends) = if record.config.tty { terminal() } else { pipes(record.config.stdin) }
        .map_err(Error::MakeStreams)?;
    let (reader, report) = setup::report_channel().map_err(Error::MakeStreams)?;
    let launch = Launch {
        spec,
        layers: record.layers.clone(),
        upper: directory.join("upper"),
        work: directory.join("work"),
        stdio,
        report,
    };
    match setup::fork(pids).map_err(Error::Fork)? {
        Fork::Child => {
            allow_huge_pages();
            setup::start(launch)
        }
        Fork::Parent { pid, pidfd } => Ok(launched(pid, pidfd, reader, ends)),
    }
}

/// `descriptors` are those of the streams that are true, in the order of their numbers.
pub(super) fn command(
    container: &Container,
    process: OwnedFd,
    command: Vec<String>,
    streams: Streams,
    descriptors: Vec<OwnedFd>,
) -> Result<Launched, Error> {
    let spec = read_spec(&container.directory)?;
    let (stdio, ends) = if streams.tty { terminal() } else { given(streams, descriptors) }
        .map_err(Error::MakeStreams)?;
    let (reader, report) = setup::report_channel().map_err(Error::MakeStreams)?;
    let pids_of = process.try_clone().map_err(Error::MakeStreams)?;
    let join = Join { spec, container: process, command, stdio, report };
    match setup::fork(setup::PidNamespace::Of(pids_of.as_fd())).map_err(Error::Fork)? {
        Fork::Child => {
            allow_huge_pages();
            setup::exec(join)
        }
        Fork::Parent { pid, pidfd } => Ok(launched(pid, pidfd, reader, ends)),
    }
}

/// The holder has them turned off for itself; programs would inherit that (prctl(2), PR_SET_THP_DISABLE).
fn allow_huge_pages() {
    // A kernel without them has nothing to allow.
    let _ = rustix::thread::disable_transparent_huge_pages(false);
}

fn launched(pid: linux::process::Pid, pidfd: OwnedFd, report: OwnedFd, ends: Ends) -> Launched {
    Launched {
        pid: pid.as_raw_nonzero().get(),
        pidfd,
        setup: Setup { report, terminal: ends.terminal },
        outputs: ends.outputs,
        stdin: ends.stdin,
    }
}

fn read_spec(directory: &Path) -> Result<Spec, Error> {
    files::read_json(&directory.join("config.json"))
        .map_err(Error::ReadConfiguration)?
        .ok_or(Error::NoConfiguration)
}

fn terminal() -> io::Result<(Stdio, Ends)> {
    let (ours, socket) = seqpacket::Connection::pair()?;
    ours.set_nonblocking()?;
    Ok((Stdio::Terminal { socket }, Ends { terminal: Some(ours), ..Ends::default() }))
}

/// The container's ends block, as programs expect; ours do not.
fn pipes(has_stdin: bool) -> io::Result<(Stdio, Ends)> {
    let pipe = || rustix::pipe::pipe_with(PipeFlags::CLOEXEC);
    let (read_stdout, stdout) = pipe()?;
    let (read_stderr, stderr) = pipe()?;
    for descriptor in [&read_stdout, &read_stderr] {
        rustix::io::ioctl_fionbio(descriptor, true)?;
    }
    let (stdin, write_stdin) = if has_stdin {
        let (stdin, write_stdin) = pipe()?;
        (stdin, Some(write_stdin))
    } else {
        (null()?, None)
    };
    let ends = Ends {
        outputs: vec![(Stream::Stdout, read_stdout), (Stream::Stderr, read_stderr)],
        stdin: write_stdin,
        terminal: None,
    };
    Ok((Stdio::Streams { stdin, stdout, stderr }, ends))
}

fn given(streams: Streams, descriptors: Vec<OwnedFd>) -> io::Result<(Stdio, Ends)> {
    let mut descriptors = descriptors.into_iter();
    let mut next = |is_given: bool| match is_given.then(|| descriptors.next()).flatten() {
        Some(descriptor) => Ok(descriptor),
        None => null(),
    };
    let stdio = Stdio::Streams {
        stdin: next(streams.stdin)?,
        stdout: next(streams.stdout)?,
        stderr: next(streams.stderr)?,
    };
    Ok((stdio, Ends::default()))
}

fn null() -> io::Result<OwnedFd> {
    Ok(fs::OpenOptions::new().read(true).write(true).open("/dev/null")?.into())
}
