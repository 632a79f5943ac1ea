//! One container in its holder: its process, its streams, its log.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;

use jiff::Timestamp;
use linux::process::{Signal, Status};

use super::launch::Setup;
use super::life::{self, Step};
use super::output::{Attached, Output, Pumped, Sinks};
use super::poll::{Poll, Token};
use crate::logs::{LogFile, Stream};
use crate::protocol::{Life, Refusal};
use crate::records::HeldRecord;

pub(super) struct Container {
    pub(super) life: Life,
    pub(super) directory: PathBuf,
    pub(super) record: HeldRecord,
    /// From the fork until it was reaped.
    pub(super) process: Option<Process>,
    pub(super) log: LogFile,
    pub(super) outputs: Vec<Output>,
    pub(super) attached: Vec<Attached>,
    /// The other end of its stdin; with a terminal, the terminal's master. `None` once closed.
    pub(super) stdin: Option<OwnedFd>,
    pub(super) terminal: Option<OwnedFd>,
    /// The request that is answered when its program was executed.
    pub(super) starter: Option<(Token, u64)>,
}

/// Until the program was executed it may be another process, which sets it up.
pub(super) struct Process {
    pub(super) pid: i32,
    pub(super) pidfd: OwnedFd,
    /// `None` as long as it is that other process, whose end tells nothing that the report does
    /// not.
    pub(super) exit: Option<Token>,
    /// While it is being set up: where it says why it could not be.
    pub(super) setup: Option<(Setup, Token)>,
}

impl Container {
    pub(super) fn pump(&mut self, stream: Stream, poll: &mut Poll, now: Timestamp) {
        let Some(position) = self.outputs.iter().position(|it| it.stream == stream) else { return };
        let mut sinks = Sinks { log: &mut self.log, attached: &self.attached, now };
        if self.outputs[position].pump(&mut sinks) == Pumped::Ended {
            let output = self.outputs.remove(position);
            poll.remove(output.token, output.descriptor());
        }
    }

    /// Everything that it wrote is in the log when this returns.
    pub(super) fn drain(&mut self, poll: &mut Poll, now: Timestamp) {
        for output in std::mem::take(&mut self.outputs) {
            poll.remove(output.token, output.descriptor());
            output.drain(&mut Sinks { log: &mut self.log, attached: &self.attached, now });
        }
        self.stdin = None;
        self.terminal = None;
    }

    /// The process that set it up has done that, and another one runs the program.
    pub(super) fn replace_process(&mut self, (pid, pidfd): (i32, OwnedFd), exit: Token) {
        let Some(process) = &mut self.process else { return };
        let setter = std::mem::replace(&mut process.pidfd, pidfd);
        process.pid = pid;
        process.exit = Some(exit);
        // It exits right after it has forked.
        let _ = linux::process::wait(setter.as_fd());
    }

    pub(super) fn signal(&self, signal: i32) -> Result<(), Refusal> {
        life::running(&self.life)?;
        let signal = Signal::from_number(signal)
            .ok_or_else(|| Refusal::Kernel(format!("{signal} is no signal")))?;
        let process = self.process.as_ref().ok_or(Refusal::NotRunning)?;
        linux::process::kill(process.pidfd.as_fd(), signal)
            .map_err(|err| Refusal::Kernel(format!("sending signal {}: {err}", signal.number())))
    }

    /// Gives a client the container's output from now on. Its descriptors must not make the holder
    /// wait.
    pub(super) fn attach(&mut self, attached: Attached) -> io::Result<()> {
        for descriptor in [&attached.stdout, &attached.stderr].into_iter().flatten() {
            rustix::io::ioctl_fionbio(descriptor, true)?;
        }
        self.attached.push(attached);
        Ok(())
    }

    /// The client has gone. Returns whether it was attached.
    pub(super) fn detach(&mut self, connection: Token) -> bool {
        let before = self.attached.len();
        self.attached.retain(|it| it.connection != connection);
        let was_attached = self.attached.len() != before;
        if was_attached && self.record.config.stdin_once {
            self.stdin = None;
        }
        was_attached
    }

    pub(super) fn step(&mut self, step: Step, now: Timestamp) {
        let life = std::mem::replace(&mut self.life, Life::Starting);
        self.life = life::step(life, step, now);
    }

    /// Reaps its process, which has ended or is about to.
    pub(super) fn reap(&mut self, poll: &mut Poll) -> Option<Status> {
        let process = self.process.take()?;
        if let Some(exit) = process.exit {
            poll.remove(exit, &process.pidfd);
        }
        if let Some((setup, token)) = &process.setup {
            poll.remove(*token, &setup.report);
        }
        linux::process::wait(process.pidfd.as_fd()).ok()
    }
}
