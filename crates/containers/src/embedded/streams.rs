//! Streams into containers: commands, attached clients, connections to ports.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use node_api::containers::{Connection, ContainerState, ExecRequest, Output, Streams};
use node_api::{ContainerId, Error, SandboxId};
use stdx::Backoff;

use super::Inner;
use super::book::Known;
use super::containers::instructions;
use super::follow::told;
use super::found;
use super::link::{self, Link, Session};
use super::pipes::{Ends, Held, Kept};
use super::terminal::{self, Descriptor};
use crate::protocol::{self, Refusal, Request};
use crate::setup::Task;

impl Inner {
    pub(super) async fn exec(
        &self,
        id: &ContainerId,
        request: ExecRequest,
    ) -> Result<Streams, Error> {
        let ExecRequest { command, tty, stdin, stdout, stderr } = request;
        let known = self.running(id)?;
        let streams = protocol::Streams { tty, stdin, stdout, stderr: stderr && !tty };
        let ends = if tty { Ends::default() } else { Ends::new(streams).map_err(pipe_error)? };
        let (session, descriptors) =
            self.start_command(id, &known, command, streams, &ends.theirs()).await?;
        let guard = Arc::new(session);
        if !tty {
            return Ok(ends.into_streams(&guard));
        }
        let master = descriptors.into_iter().next().ok_or_else(|| {
            Error::node("executing a command", link::Error::Unexpected("no terminal".to_owned()))
        })?;
        terminal::streams(&self.tasks, master, streams, guard).map_err(pipe_error)
    }

    pub(super) async fn exec_output(
        &self,
        id: &ContainerId,
        command: Vec<String>,
        timeout: Duration,
        limit: usize,
    ) -> Result<Output, Error> {
        let known = self.running(id)?;
        let streams = protocol::Streams { stdout: true, stderr: true, ..Default::default() };
        let mut ends = Ends::new(streams).map_err(pipe_error)?;
        let has_begun = AtomicBool::new(false);
        let run = async {
            let theirs = ends.theirs();
            let (session, _) = self.start_command(id, &known, command, streams, &theirs).await?;
            drop(theirs);
            has_begun.store(true, Ordering::Relaxed);
            ends.close_theirs();
            let (mut stdout, mut stderr) = (Kept::new(limit), Kept::new(limit));
            let code = {
                let reading = futures_util::future::join(
                    stdout.read(ends.stdout.as_mut()),
                    stderr.read(ends.stderr.as_mut()),
                );
                tokio::select! {
                    biased;
                    code = session.exit_code() => code,
                    _ = reading => session.exit_code().await,
                }
            };
            let code = code.map_err(|err| Error::node("waiting for a command", err))?;
            // A process that it left behind may hold the pipes open: take what is there, wait for
            // nothing.
            stdout.take_rest(ends.stdout.as_mut());
            stderr.take_rest(ends.stderr.as_mut());
            Ok(Output { code, stdout: stdout.into_bytes(), stderr: stderr.into_bytes() })
        };
        // The session ends with the future, and the command with the session.
        let ran = tokio::time::timeout(timeout, run).await;
        ran.unwrap_or_else(|_| match has_begun.load(Ordering::Relaxed) {
            true => Err(Error::TimedOut(timeout)),
            // The command is not to blame.
            false => Err(Error::NotResponding(known.sandbox.clone())),
        })
    }

    pub(super) async fn attach(
        &self,
        id: &ContainerId,
        request: ExecRequest,
    ) -> Result<Streams, Error> {
        let known = self.running(id)?;
        let tty = known.record.config.tty;
        let streams = protocol::Streams {
            tty,
            stdin: request.stdin && known.record.config.stdin,
            stdout: request.stdout,
            stderr: request.stderr && !tty,
        };
        // The container's own stdin comes back with the answer.
        let outputs = protocol::Streams { stdin: false, ..streams };
        let ends = Ends::new(outputs).map_err(pipe_error)?;
        ends.grow();
        let request = Request::Attach { container: id.to_string(), streams };
        let link = self.link_of(&known)?;
        let opened = self.open_session(&known.sandbox, &link, &request, &ends.theirs()).await;
        let (session, descriptors) = opened.map_err(|err| refused(id, &known, err))?;
        let guard = Arc::new(session);
        let mut attached = ends.into_streams(&guard);
        if let Some(stdin) = descriptors.into_iter().next() {
            let stdin = Descriptor::new(stdin).map_err(pipe_error)?;
            if tty {
                attached.resize = Some(terminal::resizer(&self.tasks, stdin.clone()));
            }
            attached.stdin = Some(Box::new(Held::new(stdin, guard)));
        }
        Ok(attached)
    }

    pub(super) async fn connect(
        &self,
        sandbox: &SandboxId,
        port: u16,
    ) -> Result<Box<dyn Connection>, Error> {
        if self.book.sandbox(sandbox).is_none() {
            return Err(Error::NoSandbox(sandbox.clone()));
        }
        let doing = || format!("connecting to port {port} of sandbox {sandbox}");
        let ended = || Error::node(doing(), link::Error::Ended);
        let link = self.link(sandbox)?.ok_or_else(ended)?;
        let (_, descriptors) = self
            .open_session(sandbox, &link, &Request::Connect { port }, &[])
            .await
            .map_err(|err| told(sandbox, doing(), err))?;
        let descriptor = descriptors.into_iter().next().ok_or_else(|| {
            Error::node(doing(), link::Error::Unexpected("no connection".to_owned()))
        })?;
        let stream = std::net::TcpStream::from(descriptor);
        stream
            .set_nonblocking(true)
            .and_then(|()| tokio::net::TcpStream::from_std(stream))
            .map(|it| -> Box<dyn Connection> { Box::new(it) })
            .map_err(|err| Error::node(doing(), err))
    }

    fn running(&self, id: &ContainerId) -> Result<Known, Error> {
        let known = self.known(id)?;
        match *known.state.borrow() {
            ContainerState::Running { .. } => {}
            ContainerState::Created | ContainerState::Exited(_) => {
                return Err(Error::NotRunning(id.clone()));
            }
        }
        Ok(known)
    }

    /// `theirs` are the ends of the streams.
    async fn start_command(
        &self,
        id: &ContainerId,
        known: &Known,
        command: Vec<String>,
        streams: protocol::Streams,
        theirs: &[BorrowedFd<'_>],
    ) -> Result<(Session, Vec<OwnedFd>), Error> {
        let link = self.link_of(known)?;
        let directory = self.container_directory(&known.sandbox, id);
        let task =
            || Task::Command { spec: directory.join("config.json"), command: command.clone() };
        let instructions = instructions(&link, task)?;
        let handover = instructions.is_some();
        // What is in the instructions need not be said twice.
        let command = if handover { Vec::new() } else { command };
        let request = Request::Exec { container: id.to_string(), command, streams, handover };
        let descriptors = [theirs, &self.handed_over(instructions.as_ref())].concat();
        let opened = self.open_session(&known.sandbox, &link, &request, &descriptors).await;
        opened.map_err(|err| refused(id, known, err))
    }

    fn link_of(&self, known: &Known) -> Result<Arc<Link>, Error> {
        self.link(&known.sandbox)?.ok_or_else(|| {
            let doing = format!("asking the holder of sandbox {}", known.sandbox);
            Error::node(doing, link::Error::Ended)
        })
    }

    /// A connection of its own, with the answer to its first request.
    async fn open_session(
        &self,
        sandbox: &SandboxId,
        link: &Link,
        request: &Request,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(Session, Vec<OwnedFd>), link::Error> {
        let socket = found::socket(&self.sandbox_directory(sandbox));
        let opened = async {
            let session = connect(&socket).await?;
            let (_, descriptors) = session.call(request, descriptors).await?;
            Ok((session, descriptors))
        };
        self.patiently(sandbox, link, opened).await
    }
}

/// Many may come at once. No longer than whoever waits for it.
async fn connect(socket: &Path) -> Result<Session, link::Error> {
    let mut backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(100));
    loop {
        match Session::connect(socket) {
            Err(link::Error::Busy) => tokio::time::sleep(backoff.step()).await,
            connected => return connected,
        }
    }
}

fn pipe_error(err: io::Error) -> Error {
    Error::node("making streams for a command", err)
}

fn refused(id: &ContainerId, known: &Known, err: link::Error) -> Error {
    match err {
        link::Error::Refused(Refusal::CouldNotStart(why)) => Error::Refused(why),
        link::Error::Refused(Refusal::NotRunning | Refusal::NoContainer) => {
            Error::NotRunning(id.clone())
        }
        err => {
            let doing = format!("asking the holder of sandbox {}", known.sandbox);
            told(&known.sandbox, doing, err)
        }
    }
}
