//! The connection of `xebec` to one holder: calls with answers, and events in the order in which
//! they happened.
//!
//! One task reads, and applies each event to the book before it reads on: whoever gets an answer
//! finds in the book what happened before it.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lifecycle::Latch;
use linux::seqpacket;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::oneshot;

use super::found;
use super::process::Process;
use super::watched::watched;
use crate::protocol::{self, ContainerStatus, Event, Message, Refusal, Reply, Request, VERSION};

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("connecting to the holder")]
    Connect(#[source] io::Error),
    #[error("talking to the holder")]
    Socket(#[source] io::Error),
    #[error("too many wait for the holder already")]
    Busy,
    #[error("the connection to the holder has ended")]
    Ended,
    #[error("the holder lives but has not answered within {0:?}")]
    Silent(Duration),
    #[error("the holder lives but has not done it within {0:?}")]
    Late(Duration),
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
    /// [`Error::Busy`] when others wait to be let in already.
    pub(super) fn connect(socket: &Path) -> Result<Self, Error> {
        let both = Interest::READABLE | Interest::WRITABLE;
        let connection = seqpacket::Connection::connect_now(socket);
        let socket =
            connection.and_then(|it| watched(it, both)).map_err(|err| match err.kind() {
                io::ErrorKind::WouldBlock => Error::Busy,
                _ => Error::Connect(err),
            })?;
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
            .ok_or(Error::Ended)?;
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
    /// Of the holder, which may be older or newer than ours.
    pub(super) version: u32,
    pub(super) process: Arc<Process>,
    calls: Mutex<Calls>,
    /// Something was asked and is not answered in time: nothing was heard since.
    is_silent: AtomicBool,
    /// Set when nobody reads any more, and the book says what came of the holder.
    pub(super) ended: Latch,
}

#[derive(Default)]
struct Calls {
    next: u64,
    waiting: BTreeMap<u64, oneshot::Sender<Reply>>,
    has_ended: bool,
}

impl Link {
    /// Says hello and asks for the state. Events before the answer are contained in it. Waits for
    /// as long as it takes.
    pub(super) async fn open(directory: &Path) -> Result<(Arc<Self>, Vec<ContainerStatus>), Error> {
        let session = Session::connect(&found::socket(directory))?;
        let hello = session.call(&Request::Hello { version: VERSION }, &[]).await?;
        let (pid, version) = match hello {
            (Reply::Welcome { pid, version }, _) => (pid, version),
            (other, _) => return Err(Error::Unexpected(format!("{other:?}"))),
        };
        let containers = match session.call(&Request::State, &[]).await? {
            (Reply::State { containers }, _) => containers,
            (other, _) => return Err(Error::Unexpected(format!("{other:?}"))),
        };
        let process = Process::answered(pid, directory).map_err(Error::Socket)?;
        let link = Self {
            session,
            version,
            process: Arc::new(process),
            calls: Mutex::new(Calls { next: 1, ..Calls::default() }),
            is_silent: AtomicBool::new(false),
            ended: Latch::default(),
        };
        Ok((Arc::new(link), containers))
    }

    fn calls(&self) -> std::sync::MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) async fn call(&self, request: &Request) -> Result<Reply, Error> {
        self.call_with(request, &[]).await
    }

    pub(super) async fn call_with(
        &self,
        request: &Request,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<Reply, Error> {
        let (answer, answered) = oneshot::channel();
        let id = {
            let mut calls = self.calls();
            if calls.has_ended {
                return Err(Error::Ended);
            }
            let id = calls.next;
            calls.next += 1;
            calls.waiting.insert(id, answer);
            id
        };
        let packet = protocol::encode_request(id, request)?;
        if let Err(err) = self.session.send(&packet, descriptors).await {
            self.calls().waiting.remove(&id);
            return Err(err);
        }
        match answered.await {
            Ok(Reply::Refused(refusal)) => Err(Error::Refused(refusal)),
            Ok(reply) => Ok(reply),
            Err(_) => Err(Error::Ended),
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
            let received = self.session.receive().await;
            self.is_silent.store(false, Ordering::Relaxed);
            match received {
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

    pub(super) fn is_silent(&self) -> bool {
        self.is_silent.load(Ordering::Relaxed)
    }

    /// Until something is heard: what was asked will be answered then. Returns whether this is
    /// news.
    pub(super) fn set_silent(&self) -> bool {
        !self.is_silent.swap(true, Ordering::Relaxed)
    }

    /// Nobody reads any more: calls get no answers.
    pub(super) fn hang_up(&self) {
        let mut calls = self.calls();
        calls.has_ended = true;
        calls.waiting.clear();
    }

    /// The same, and what came of the holder is in the book.
    pub(super) fn end(&self) {
        self.hang_up();
        self.ended.set();
    }
}
