//! Streams into containers: commands, attached clients, connections to ports.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use node_api::containers::{Connection, ContainerState, ExecRequest, Output, Streams};
use node_api::{ContainerId, Error, SandboxId};

use super::Inner;
use super::book::Known;
use super::link::{self, Session};
use super::pipes::{Ends, Held, Kept};
use super::terminal::{self, Descriptor};
use crate::protocol::{self, Refusal, Request};

impl Inner {
    pub(super) async fn exec(
        &self,
        id: &ContainerId,
        request: ExecRequest,
    ) -> Result<Streams, Error> {
        let ExecRequest { command, tty, stdin, stdout, stderr } = request;
        let (known, socket) = self.running(id)?;
        let streams = protocol::Streams { tty, stdin, stdout, stderr: stderr && !tty };
        let ends = if tty { Ends::default() } else { Ends::new(streams).map_err(pipe_error)? };
        let request = Request::Exec { container: id.to_string(), command, streams };
        let session = connect(&socket).await?;
        let (_, descriptors) =
            session.call(&request, &ends.theirs()).await.map_err(|err| refused(id, &known, err))?;
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
        let (known, socket) = self.running(id)?;
        let streams = protocol::Streams { stdout: true, stderr: true, ..Default::default() };
        let mut ends = Ends::new(streams).map_err(pipe_error)?;
        let request = Request::Exec { container: id.to_string(), command, streams };
        let run = async {
            let session = connect(&socket).await?;
            session.call(&request, &ends.theirs()).await.map_err(|err| refused(id, &known, err))?;
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
        tokio::time::timeout(timeout, run).await.unwrap_or(Err(Error::TimedOut(timeout)))
    }

    pub(super) async fn attach(
        &self,
        id: &ContainerId,
        request: ExecRequest,
    ) -> Result<Streams, Error> {
        let (known, socket) = self.running(id)?;
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
        let session = connect(&socket).await?;
        let request = Request::Attach { container: id.to_string(), streams };
        let (_, descriptors) =
            session.call(&request, &ends.theirs()).await.map_err(|err| refused(id, &known, err))?;
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
        let session = connect(&self.sandbox_directory(sandbox).join("sock")).await?;
        let doing = || format!("connecting to port {port} of sandbox {sandbox}");
        let (_, descriptors) = session
            .call(&Request::Connect { port }, &[])
            .await
            .map_err(|err| Error::node(doing(), err))?;
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

    fn running(&self, id: &ContainerId) -> Result<(Known, PathBuf), Error> {
        let known = self.known(id)?;
        if !matches!(*known.state.borrow(), ContainerState::Running { .. }) {
            return Err(Error::NotRunning(id.clone()));
        }
        let socket = self.sandbox_directory(&known.sandbox).join("sock");
        Ok((known, socket))
    }
}

async fn connect(socket: &Path) -> Result<Session, Error> {
    Session::connect(socket).await.map_err(|err| Error::node("connecting to the holder", err))
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
        err => Error::node(format!("asking the holder of sandbox {}", known.sandbox), err),
    }
}
