//! A command that runs beside a container's own program.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use linux::process::Signal;

use super::launch::{Executed, Launched, Setup};
use super::poll::{Poll, Source, Token};
use super::serve::Holder;
use crate::protocol::{Event, Message, Refusal, Reply};

pub(super) struct Exec {
    request: u64,
    pid: i32,
    pidfd: OwnedFd,
    /// `None` while it is the process that sets the command up, and not the command's own.
    exit: Option<Token>,
    /// While it is being set up: where it says why it could not be.
    setup: Option<(Setup, Token)>,
}

impl Exec {
    pub(super) fn watch(
        poll: &mut Poll,
        (connection, request): (Token, u64),
        launched: Launched,
    ) -> io::Result<Self> {
        let setup = poll.add(&launched.setup.report, Source::ExecSetup { connection })?;
        Ok(Self {
            request,
            pid: launched.pid,
            pidfd: launched.pidfd,
            exit: None,
            setup: Some((launched.setup, setup)),
        })
    }

    /// The command runs in a process of its own now. Returns its terminal.
    fn take_over(
        &mut self,
        connection: Token,
        poll: &mut Poll,
        executed: Executed,
    ) -> Result<Option<OwnedFd>, String> {
        let Executed { terminal, process } = executed;
        if let Some((pid, pidfd)) = process {
            let setter = std::mem::replace(&mut self.pidfd, pidfd);
            self.pid = pid;
            // It exits right after it has forked.
            let _ = linux::process::wait(setter.as_fd());
        }
        let exit = poll.add(&self.pidfd, Source::ExecExit { connection });
        self.exit = Some(exit.map_err(|err| {
            self.kill();
            format!("watching the command: {err}")
        })?);
        Ok(terminal)
    }

    pub(super) fn kill(&self) {
        let _ = linux::process::kill(self.pidfd.as_fd(), Signal::KILL);
    }
}

impl Holder {
    /// Its program was executed, or could not be.
    pub(super) fn exec_set_up(&mut self, connection: Token) {
        let Some(exec) = self.execs.get_mut(&connection) else { return };
        let Some((setup, token)) = exec.setup.take() else { return };
        self.poll.remove(token, &setup.report);
        let request = exec.request;
        let finished = setup.finish().and_then(|it| exec.take_over(connection, &mut self.poll, it));
        let pid = exec.pid;
        match finished {
            Ok(terminal) => {
                let reply = Reply::Started { at: self.now(), pid };
                self.reply_with(connection, request, reply, terminal.into_iter().collect());
            }
            Err(message) => {
                self.reap_exec(connection);
                let refusal = Refusal::CouldNotStart(message);
                self.reply(connection, request, Reply::Refused(refusal));
            }
        }
    }

    pub(super) fn exec_exited(&mut self, connection: Token) {
        // It may have ended before we have heard that it was executed.
        self.exec_set_up(connection);
        if let Some(code) = self.reap_exec(connection) {
            let event = Event::CommandExited { code };
            self.send(connection, &Message::Event(event), Vec::new());
        }
    }

    fn reap_exec(&mut self, connection: Token) -> Option<i32> {
        let exec = self.execs.remove(&connection)?;
        if let Some(exit) = exec.exit {
            self.poll.remove(exit, &exec.pidfd);
        }
        linux::process::wait(exec.pidfd.as_fd()).ok().map(linux::process::Status::code)
    }
}
