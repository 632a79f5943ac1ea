//! A command that runs beside a container's own program.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use linux::process::Signal;

use super::launch::{Launched, Setup};
use super::poll::{Poll, Source, Token};
use super::serve::Holder;
use crate::protocol::{Event, Message, Refusal, Reply};

pub(super) struct Exec {
    request: u64,
    pid: i32,
    pidfd: OwnedFd,
    exit: Token,
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
        let exit = poll.add(&launched.pidfd, Source::ExecExit { connection })?;
        Ok(Self {
            request,
            pid: launched.pid,
            pidfd: launched.pidfd,
            exit,
            setup: Some((launched.setup, setup)),
        })
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
        let (pid, request) = (exec.pid, exec.request);
        match setup.finish() {
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
        self.poll.remove(exec.exit, &exec.pidfd);
        linux::process::wait(exec.pidfd.as_fd()).ok().map(linux::process::Status::code)
    }
}
