//! One call that has a task of its own: its messages in, at the reader's pace and within bounds,
//! and its messages and status out.

use std::future::poll_fn;
use std::sync::Arc;

use bytes::Bytes;
use prost::Message;

use super::error;
use super::peer::Peer;
use crate::http2::Closed;
use crate::wire::frame::{self, Decoder};
use crate::wire::{Code, Status};

/// What etcd lets a message have beyond the limit of requests, so that it can answer with its own
/// error.
const OVERHEAD: usize = 512 << 10;

/// The messages of one request, out of the pieces that arrive.
pub(super) struct Messages {
    decoder: Decoder,
    peer: Arc<Peer>,
    /// Bytes in the decoder that the peer has taken note of.
    held: usize,
}

impl Drop for Messages {
    fn drop(&mut self) {
        self.peer.release(self.held);
    }
}

impl Messages {
    pub(super) fn new(peer: Arc<Peer>) -> Self {
        let message_max = peer.front.limits.request_bytes + OVERHEAD;
        Self { decoder: Decoder::new(message_max), peer, held: 0 }
    }

    pub(super) fn push(&mut self, piece: Bytes) -> Result<(), Status> {
        self.held += piece.len();
        if !self.peer.hold(piece.len()) {
            return Err(error::too_many_requests());
        }
        self.decoder.push(piece);
        Ok(())
    }

    pub(super) fn next(&mut self) -> Result<Option<Bytes>, Status> {
        let message = self.decoder.next_message()?;
        if self.decoder.is_empty() {
            self.peer.release(std::mem::take(&mut self.held));
        }
        Ok(message)
    }

    /// The request has ended: fails if it did so in the middle of a message.
    pub(super) fn end(&self) -> Result<(), Status> {
        match self.decoder.is_empty() {
            true => Ok(()),
            false => Err(Status::new(Code::Internal, "grpc: the message ends too early")),
        }
    }
}

pub(super) fn no_message() -> Status {
    Status::new(Code::Internal, "grpc: the request has no message")
}

pub(super) struct Inbound {
    messages: Messages,
    stream: u32,
}

impl Inbound {
    pub(super) fn new(stream: u32, peer: Arc<Peer>) -> Self {
        Self { messages: Messages::new(peer), stream }
    }

    /// The next message as bytes; `None` when the client has finished. Cancel-safe.
    async fn next_bytes(&mut self) -> Result<Option<Bytes>, Status> {
        loop {
            if let Some(message) = self.messages.next()? {
                return Ok(Some(message));
            }
            let link = &self.messages.peer.link;
            match poll_fn(|cx| link.with(|it| it.poll_read(self.stream, cx))).await {
                Ok(Some(piece)) => self.messages.push(piece)?,
                Ok(None) => return self.messages.end().map(|()| None),
                Err(Closed) => return Err(Status::new(Code::Canceled, "grpc: canceled")),
            }
        }
    }

    pub(super) async fn next<M: Message + Default>(&mut self) -> Result<Option<M>, Status> {
        match self.next_bytes().await? {
            Some(bytes) => frame::decode(bytes).map(Some),
            None => Ok(None),
        }
    }

    /// The only message of a call that has one.
    pub(super) async fn only<M: Message + Default>(&mut self) -> Result<M, Status> {
        self.next().await?.ok_or_else(no_message)
    }
}

/// The way back, before anything was said. A client whose call is dropped without an answer is told
/// that it was given up.
pub(super) struct Reply {
    stream: u32,
    peer: Arc<Peer>,
}

/// A peer that is gone needs no answer: sending to it fails, and that is all.
pub(super) struct Gone;

impl From<Closed> for Gone {
    fn from(_: Closed) -> Self {
        Self
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.peer.link.with(|session| session.abandon(self.stream));
    }
}

impl Reply {
    pub(super) fn new(stream: u32, peer: Arc<Peer>) -> Self {
        Self { stream, peer }
    }

    pub(super) fn peer(&self) -> &Arc<Peer> {
        &self.peer
    }

    /// One message and success, or the status alone. Returns when the client has taken it.
    pub(super) async fn finish<A: Message>(self, answer: Result<A, Status>) -> Result<(), Gone> {
        match answer {
            Ok(answer) => {
                let mut outbound = self.open()?;
                outbound.send_streamed(&answer).await?;
                outbound.finish(Ok(()))
            }
            Err(status) => self.refuse(&status),
        }
    }

    pub(super) fn open(self) -> Result<Outbound, Gone> {
        match self.peer.link.with(|session| session.open(self.stream)) {
            true => Ok(Outbound { reply: self }),
            false => Err(Gone),
        }
    }

    /// A call that failed before its first message: headers alone say so.
    pub(super) fn refuse(self, status: &Status) -> Result<(), Gone> {
        self.peer.link.with(|session| session.refuse(self.stream, status));
        Ok(())
    }
}

pub(super) struct Outbound {
    reply: Reply,
}

impl Outbound {
    /// One message of a stream: returns when it has left, so that nothing is sent faster than the
    /// peer reads.
    pub(super) async fn send_streamed(&mut self, message: &impl Message) -> Result<(), Gone> {
        let Reply { stream, peer } = &self.reply;
        peer.link.with(|session| session.send(*stream, frame::encode(message)));
        poll_fn(|cx| peer.link.with(|session| session.poll_sent(*stream, cx))).await?;
        Ok(())
    }

    pub(super) fn finish(self, ended: Result<(), Status>) -> Result<(), Gone> {
        self.reply.peer.link.with(|session| session.finish(self.reply.stream, ended));
        Ok(())
    }

    /// Resolves when the client has given the call up.
    pub(super) async fn reset(&mut self) {
        let Reply { stream, peer } = &self.reply;
        poll_fn(|cx| peer.link.with(|session| session.poll_closed(*stream, cx))).await;
    }
}
