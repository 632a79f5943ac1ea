//! The connection of `xebec` to one holder: calls with answers, and events in the order in which
//! they happened.
//!
//! One task reads, and applies each event to the book before it reads on: whoever gets an answer
//! finds in the book what happened before it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use lifecycle::Latch;
use linux::process::Pid;
use linux::seqpacket;
use node_api::network::Namespace;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::oneshot;

use super::watched::watched;
use crate::protocol::{self, ContainerStatus, Event, Message, Refusal, Reply, Request, VERSION};

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("connecting to the holder")]
    Connect(#[source] io::Error),
    #[error("talking to the holder")]
    Socket(#[source] io::Error),
    #[error("the holder has gone")]
    Gone,
    #[error(transparent)]
    Protocol(#[from] protocol::Error),
    #[error("the holder answered something else: {0}")]
    Unexpected(String),
    #[error(transparent)]
    Refused(Refusal),
}

/// A connection of its own, used by one at a time.
pub(super) struct Session {
    socket: AsyncFd<seqpacket::Connection>,
}

impl Session {
    pub(super) async fn connect(socket: &Path) -> Result<Self, Error> {
        let path = socket.to_owned();
        // A stopped holder with a full queue of connections would block us.
        let connection = tokio::task::spawn_blocking(move || {
            let connection = seqpacket::Connection::connect(&path)?;
            connection.set_nonblocking()?;
            Ok(connection)
        });
        let connection = connection.await.map_err(|err| Error::Connect(err.into()))?;
        let both = Interest::READABLE | Interest::WRITABLE;
        let socket = connection.and_then(|it| watched(it, both)).map_err(Error::Connect)?;
        Ok(Self { socket })
    }

    async fn send(&self, packet: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<(), Error> {
        self.socket
            .async_io(Interest::WRITABLE, |it| it.send(packet, descriptors))
            .await
            .map_err(Error::Socket)
    }

    pub(super) async fn receive(&self) -> Result<(Message, Vec<OwnedFd>), Error> {
        let packet = self
            .socket
            .async_io(Interest::READABLE, seqpacket::Connection::receive)
            .await
            .map_err(Error::Socket)?
            .ok_or(Error::Gone)?;
        Ok((protocol::decode_message(&packet.bytes)?, packet.descriptors))
    }

    /// Sends one request and waits for its answer; events that come first are skipped.
    pub(super) async fn call(
        &self,
        request: &Request,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<(Reply, Vec<OwnedFd>), Error> {
        const ID: u64 = 0;
        self.send(&protocol::encode_request(ID, request)?, descriptors).await?;
        loop {
            match self.receive().await? {
                (Message::Reply { reply: Reply::Refused(refusal), .. }, _) => {
                    return Err(Error::Refused(refusal));
                }
                (Message::Reply { reply, .. }, descriptors) => return Ok((reply, descriptors)),
                (Message::Event(_), _) => {}
            }
        }
    }

    /// The exit code of the command that this session has started.
    pub(super) async fn exit_code(&self) -> Result<i32, Error> {
        loop {
            if let (Message::Event(Event::CommandExited { code }), _) = self.receive().await? {
                return Ok(code);
            }
        }
    }
}

/// The one connection that is told every event. Shared by all who call.
pub(super) struct Link {
    session: Session,
    pid: i32,
    /// Of the holder, which may be older or newer than ours.
    pub(super) version: u32,
    pidfd: OwnedFd,
    calls: Mutex<Calls>,
    /// Set when the holder is gone and the book says so.
    pub(super) ended: Latch,
}

#[derive(Default)]
struct Calls {
    next: u64,
    waiting: BTreeMap<u64, oneshot::Sender<Reply>>,
    has_ended: bool,
}

impl Link {
    /// Says hello and asks for the state. Events before the answer are contained in it.
    pub(super) async fn open(socket: &Path) -> Result<(Arc<Self>, Vec<ContainerStatus>), Error> {
        let session = Session::connect(socket).await?;
        let hello = session.call(&Request::Hello { version: VERSION }, &[]).await?;
        let (pid, version) = match hello {
            (Reply::Welcome { pid, version }, _) => (pid, version),
            (other, _) => return Err(Error::Unexpected(format!("{other:?}"))),
        };
        let containers = match session.call(&Request::State, &[]).await? {
            (Reply::State { containers }, _) => containers,
            (other, _) => return Err(Error::Unexpected(format!("{other:?}"))),
        };
        // It has answered: it is alive, so the number is still its own.
        let pidfd = Pid::from_raw(pid)
            .ok_or(Error::Gone)
            .and_then(|it| linux::process::open(it).map_err(Error::Socket))?;
        let calls = Mutex::new(Calls { next: 1, ..Calls::default() });
        let link = Self { session, pid, version, pidfd, calls, ended: Latch::default() };
        Ok((Arc::new(link), containers))
    }

    fn calls(&self) -> std::sync::MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) async fn call(&self, request: &Request) -> Result<Reply, Error> {
        let (answer, answered) = oneshot::channel();
        let id = {
            let mut calls = self.calls();
            if calls.has_ended {
                return Err(Error::Gone);
            }
            let id = calls.next;
            calls.next += 1;
            calls.waiting.insert(id, answer);
            id
        };
        let packet = protocol::encode_request(id, request)?;
        if let Err(err) = self.session.send(&packet, &[]).await {
            self.calls().waiting.remove(&id);
            return Err(err);
        }
        match answered.await {
            Ok(Reply::Refused(refusal)) => Err(Error::Refused(refusal)),
            Ok(reply) => Ok(reply),
            Err(_) => Err(Error::Gone),
        }
    }

    /// Sends a request whose answer nobody reads.
    pub(super) async fn send_only(&self, request: &Request) -> Result<(), Error> {
        self.session.send(&protocol::encode_request(0, request)?, &[]).await
    }

    /// Reads messages until the connection ends, giving each event to `apply` before anybody hears
    /// of what follows it.
    pub(super) async fn read(&self, apply: impl Fn(Event)) -> Error {
        loop {
            match self.session.receive().await {
                Ok((Message::Event(event), _)) => apply(event),
                Ok((Message::Reply { id, reply }, _)) => {
                    // Whoever asked may have lost interest.
                    if let Some(answer) = self.calls().waiting.remove(&id) {
                        let _ = answer.send(reply);
                    }
                }
                Err(err) => return err,
            }
        }
    }

    /// Nobody reads any more: calls get no answers.
    pub(super) fn end(&self) {
        let mut calls = self.calls();
        calls.has_ended = true;
        calls.waiting.clear();
        drop(calls);
        self.ended.set();
    }

    /// Resolves when the process is gone, and with it its namespaces.
    pub(super) async fn exited(&self) -> io::Result<()> {
        let pidfd = watched(self.pidfd.try_clone()?, Interest::READABLE)?;
        let _ready = pidfd.readable().await?;
        Ok(())
    }

    /// The pod's, in which the holder lives.
    pub(super) fn namespace(&self) -> io::Result<Arc<dyn Namespace>> {
        Ok(Arc::new(HoldersNamespace { pid: self.pid, pidfd: self.pidfd.try_clone()? }))
    }

    pub(super) fn kill(&self) {
        let _ = linux::process::kill(self.pidfd.as_fd(), linux::process::Signal::KILL);
    }
}

#[derive(Debug)]
struct HoldersNamespace {
    pid: i32,
    pidfd: OwnedFd,
}

impl Namespace for HoldersNamespace {
    fn open(&self) -> io::Result<Option<OwnedFd>> {
        let opened = File::open(format!("/proc/{}/ns/net", self.pid));
        // It has not ended yet: so what was opened is its own, and not that of another process with
        // its number.
        if linux::process::has_ended(self.pidfd.as_fd())? {
            return Ok(None);
        }
        opened.map(|it| Some(it.into()))
    }
}
