//! Forks the children that become containers and commands, with the ends of their streams.

use std::fs;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use linux::process::{Fork, Pid, SharedPid, Signal};
use linux::seqpacket;
use node_api::sandboxes::PidNamespace;
use rustix::pipe::PipeFlags;

use super::container::Container;
use super::life;
use super::serve::Holder;
use crate::logs::Stream;
use crate::protocol::Streams;
use crate::records::HeldRecord;
use crate::setup::{self, BesideOthers, Handover, Join, Launch, Stdio};

/// A child that is being set up. With `setup.told` it is not yet the process of the program.
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
    /// Where the child forks another process, which executes: its pid.
    told: Option<SharedPid>,
}

/// A program that was executed.
pub(super) struct Executed {
    pub(super) terminal: Option<OwnedFd>,
    /// Its process, where that is another one than the child that set it up.
    pub(super) process: Option<(i32, OwnedFd)>,
}

impl Setup {
    /// Whether the child that sets up is also the process of the program.
    pub(super) fn is_program(&self) -> bool {
        self.told.is_none()
    }

    /// Once `report` is readable: why the program was not executed, or what came of it.
    pub(super) fn finish(self) -> Result<Executed, String> {
        let reported = match setup::read_report(self.report) {
            Ok(None) => Ok(()),
            Ok(Some(reason)) => Err(reason),
            Err(err) => Err(format!("reading how the set-up went: {err}")),
        };
        let process = match (reported, &self.told) {
            (Ok(()), Some(told)) => Some(
                setup::forked(told)
                    .map_err(|err| format!("setting the program's process up: {err}"))?,
            ),
            (Ok(()), None) => None,
            (Err(reason), told) => {
                told.as_ref().into_iter().for_each(end_forked);
                return Err(reason);
            }
        };
        let process = process.map(|(pid, pidfd)| (pid.as_raw_nonzero().get(), pidfd));
        let Some(socket) = self.terminal else { return Ok(Executed { terminal: None, process }) };
        // It was sent before the program was executed. A child that was killed has sent nothing.
        let message = socket.receive().map_err(|err| format!("receiving the terminal: {err}"))?;
        let terminal = message.and_then(|it| it.descriptors.into_iter().next());
        Ok(Executed { terminal, process })
    }
}

/// It has said why it could not execute, and has nothing left to do but to end.
fn end_forked(told: &SharedPid) {
    if let Ok((_, pidfd)) = setup::forked(told) {
        let _ = linux::process::kill(pidfd.as_fd(), Signal::KILL);
        let _ = linux::process::wait(pidfd.as_fd());
    }
}

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("making the streams")]
    MakeStreams(#[source] io::Error),
    #[error("finding the processes to be among")]
    FindProcesses(#[source] io::Error),
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
    record: &HeldRecord,
    handover: Option<Handover>,
) -> Result<Launched, Error> {
    let beside = beside(holder, record).map_err(Error::FindProcesses)?;
    let pids = match holder.config.pid {
        PidNamespace::Container if beside.is_none() => setup::PidNamespace::New,
        PidNamespace::Pod | PidNamespace::Host | PidNamespace::Container => {
            setup::PidNamespace::Inherited
        }
    };
    let (stdio, ends) = if record.config.tty { terminal() } else { pipes(record.config.stdin) }
        .map_err(Error::MakeStreams)?;
    let (reader, report) = setup::report_channel().map_err(Error::MakeStreams)?;
    let launch = Launch {
        spec: config(directory),
        layers: record.layers.clone(),
        upper: directory.join("upper"),
        work: directory.join("work"),
        stdio,
        report,
        beside,
    };
    match setup::fork(pids).map_err(Error::Fork)? {
        Fork::Child => {
            allow_huge_pages();
            match handover {
                Some(handover) => setup::start_by(handover, launch),
                None => setup::start(launch),
            }
        }
        Fork::Parent { pid, pidfd } => {
            let told = launch.beside.map(|it| it.told);
            Ok(launched((pid, pidfd), reader, ends, told))
        }
    }
}

/// Where the processes are that the container is to be among, if there are any.
fn beside(holder: &Holder, record: &HeldRecord) -> io::Result<Option<BesideOthers>> {
    match (holder.config.pid, &record.config.target) {
        (PidNamespace::Pod, _) => beside_pod(holder).map(Some),
        (PidNamespace::Container, Some(target)) => beside_target(holder, target).map(Some),
        (PidNamespace::Container, None) | (PidNamespace::Host, _) => Ok(None),
    }
}

/// Those of the pod, whose containers share them.
fn beside_pod(holder: &Holder) -> io::Result<BesideOthers> {
    let Some(init) = &holder.pod_init else {
        return Err(io::Error::other("the first process of the pod has ended"));
    };
    Ok(BesideOthers {
        process: init.pidfd().try_clone_to_owned()?,
        procs: init.procs().try_clone_to_owned()?,
        pids: None,
        told: SharedPid::new()?,
    })
}

/// Those of another container. Its procfs is the container's own to change, if it may mount: hence
/// `pids`.
fn beside_target(holder: &Holder, target: &str) -> io::Result<BesideOthers> {
    let running = holder.containers.get(target).filter(|it| life::running(&it.life).is_ok());
    let Some(process) = running.and_then(|it| it.process.as_ref()) else {
        return Err(io::Error::other("the target container is not running"));
    };
    // A child of ours that we have not reaped: the number is its own.
    let pids = fs::File::open(format!("/proc/{}/ns/pid", process.pid))?;
    Ok(BesideOthers {
        process: process.pidfd.try_clone()?,
        procs: process.pidfd.try_clone()?,
        pids: Some(pids.into()),
        told: SharedPid::new()?,
    })
}

/// A command that is asked for.
pub(super) struct Wanted {
    pub(super) command: Vec<String>,
    pub(super) streams: Streams,
    /// Those of the streams that are true, in the order of their numbers.
    pub(super) descriptors: Vec<OwnedFd>,
    pub(super) handover: Option<Handover>,
}

pub(super) fn command(
    container: &Container,
    process: OwnedFd,
    wanted: Wanted,
) -> Result<Launched, Error> {
    let Wanted { command, streams, descriptors, handover } = wanted;
    let spec = config(&container.directory);
    let (stdio, ends) = if streams.tty { terminal() } else { given(streams, descriptors) }
        .map_err(Error::MakeStreams)?;
    let (reader, report) = setup::report_channel().map_err(Error::MakeStreams)?;
    let told = SharedPid::new().map_err(Error::MakeStreams)?;
    let join = Join { spec, container: process, command, stdio, report, told };
    match setup::fork(setup::PidNamespace::Inherited).map_err(Error::Fork)? {
        Fork::Child => {
            allow_huge_pages();
            match handover {
                Some(handover) => setup::exec_by(handover, join),
                None => setup::exec(join),
            }
        }
        Fork::Parent { pid, pidfd } => Ok(launched((pid, pidfd), reader, ends, Some(join.told))),
    }
}

/// The holder has them turned off for itself; programs would inherit that (prctl(2),
/// PR_SET_THP_DISABLE).
fn allow_huge_pages() {
    // A kernel without them has nothing to allow.
    let _ = linux::process::allow_huge_pages();
}

fn launched(
    (pid, pidfd): (Pid, OwnedFd),
    report: OwnedFd,
    ends: Ends,
    told: Option<SharedPid>,
) -> Launched {
    Launched {
        pid: pid.as_raw_nonzero().get(),
        pidfd,
        setup: Setup { report, terminal: ends.terminal, told },
        outputs: ends.outputs,
        stdin: ends.stdin,
    }
}

/// Read by the child alone: see [`HeldRecord`].
fn config(directory: &Path) -> PathBuf {
    directory.join("config.json")
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
