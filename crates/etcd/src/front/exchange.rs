//! One call on the server's side: its messages in, at the peer's pace and within bounds, and its messages and status out.

use std::sync::Arc;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{RecvStream, SendStream};
use http::{HeaderValue, Request, Response, StatusCode, header};
use prost::Message;

use super::error;
use super::peer::Peer;
use crate::wire::channel::send_paced;
use crate::wire::frame::{self, Decoder};
use crate::wire::{Code, Status};

/// What etcd lets a message have beyond the limit of requests, so that it can answer with its own error.
const OVERHEAD: usize = 512 << 10;
/// What may lie in HTTP/2's buffers at once for one call; more than this waits for the peer's window.
const UNPACED_MAX: usize = 64 << 10;

pub(super) struct Inbound {
    recv: RecvStream,
    decoder: Decoder,
    peer: Arc<Peer>,
    /// Bytes in the decoder that the peer has taken note of.
    held: usize,
}

impl Drop for Inbound {
    fn drop(&mut self) {
        self.peer.release(self.held);
    }
}

impl Inbound {
    pub(super) fn new(recv: RecvStream, peer: Arc<Peer>) -> Self {
        let message_max = peer.front.limits.request_bytes + OVERHEAD;
        Self { recv, decoder: Decoder::new(message_max), peer, held: 0 }
    }

    /// The next message as bytes; `None` when the client has finished. Cancel-safe.
    pub(super) async fn next_bytes(&mut self) -> Result<Option<Bytes>, Status> {
        loop {
            if let Some(message) = self.decoder.next_message()? {
                if self.decoder.is_empty() {
                    self.peer.release(std::mem::take(&mut self.held));
                }
                return Ok(Some(message));
            }
            let Some(piece) = self.recv.data().await else {
                return match self.decoder.is_empty() {
                    true => Ok(None),
                    false => Err(Status::new(Code::Internal, "grpc: the message ends too early")),
                };
            };
            let piece = piece.map_err(|_| Status::new(Code::Canceled, "grpc: canceled"))?;
            let _ = self.recv.flow_control().release_capacity(piece.len());
            self.held += piece.len();
            if !self.peer.hold(piece.len()) {
                return Err(error::too_many_requests());
            }
            self.decoder.push(piece);
        }
    }

    pub(super) async fn next<M: Message + Default>(&mut self) -> Result<Option<M>, Status> {
        match self.next_bytes().await? {
            Some(bytes) => frame::decode(bytes).map(Some),
            None => Ok(None),
        }
    }

    /// The only message of a call that has one.
    pub(super) async fn only<M: Message + Default>(&mut self) -> Result<(M, usize), Status> {
        let Some(bytes) = self.next_bytes().await? else {
            return Err(Status::new(Code::Internal, "grpc: the request has no message"));
        };
        let len = bytes.len();
        Ok((frame::decode(bytes)?, len))
    }
}

/// The way back, before anything was said.
pub(super) struct Reply {
    respond: SendResponse<Bytes>,
}

/// A peer that is gone needs no answer: sending to it fails, and that is all.
pub(super) struct Gone;

impl From<h2::Error> for Gone {
    fn from(_: h2::Error) -> Self {
        Self
    }
}

impl Reply {
    pub(super) fn new(respond: SendResponse<Bytes>) -> Self {
        Self { respond }
    }

    /// One message and success, or the status alone.
    pub(super) async fn finish<A: Message>(self, answer: Result<A, Status>) -> Result<(), Gone> {
        let answer = match answer {
            Ok(answer) => frame::encode(&answer),
            Err(status) => return self.refuse(&status),
        };
        let mut outbound = self.open()?;
        outbound.send_bytes(answer).await?;
        outbound.finish(Ok(()))
    }

    pub(super) fn open(mut self) -> Result<Outbound, Gone> {
        Ok(Outbound { send: self.respond.send_response(head(), false)? })
    }

    /// A call that failed before its first message: headers alone say so.
    pub(super) fn refuse(mut self, status: &Status) -> Result<(), Gone> {
        let mut response = head();
        status.write_to(response.headers_mut());
        self.respond.send_response(response, true)?;
        Ok(())
    }

    /// Plain HTTP, for probes and for whoever does not speak gRPC.
    pub(super) fn plain(mut self, code: StatusCode, body: String) -> Result<(), Gone> {
        let mut response = Response::new(());
        *response.status_mut() = code;
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        let mut send = self.respond.send_response(response, false)?;
        send.send_data(Bytes::from(body), true)?;
        Ok(())
    }
}

fn head() -> Response<()> {
    let mut response = Response::new(());
    let grpc = HeaderValue::from_static("application/grpc");
    response.headers_mut().insert(header::CONTENT_TYPE, grpc);
    response
}

pub(super) struct Outbound {
    send: SendStream<Bytes>,
}

impl Outbound {
    /// One message of a stream: never sent faster than the peer reads.
    pub(super) async fn send_streamed(&mut self, message: &impl Message) -> Result<(), Gone> {
        Ok(send_paced(&mut self.send, frame::encode(message)).await?)
    }

    async fn send_bytes(&mut self, bytes: Bytes) -> Result<(), Gone> {
        if bytes.len() <= UNPACED_MAX {
            self.send.send_data(bytes, false)?;
            return Ok(());
        }
        Ok(send_paced(&mut self.send, bytes).await?)
    }

    pub(super) fn finish(mut self, ended: Result<(), Status>) -> Result<(), Gone> {
        let mut trailers = Status::ok_trailers();
        if let Err(status) = ended {
            status.write_to(&mut trailers);
        }
        self.send.send_trailers(trailers)?;
        Ok(())
    }

    /// Resolves when the client has given the call up.
    pub(super) async fn reset(&mut self) {
        let _ = std::future::poll_fn(|cx| self.send.poll_reset(cx)).await;
    }
}

/// What is wrong with the head of a request, if it is not gRPC.
pub(super) fn is_grpc<B>(request: &Request<B>) -> bool {
    request.method() == http::Method::POST
        && request
            .headers()
            .get(header::CONTENT_TYPE)
            .is_some_and(|it| it.as_bytes().starts_with(b"application/grpc"))
}
