//! One connection's protocol: frames in, events out; answers in, frames out.

mod receive;
mod send;

use std::collections::VecDeque;
use std::task::{Context, Poll};

use bytes::Bytes;

use super::frame::{self, Reason, setting};
use super::hpack::{Decoder, Renderer};
use super::streams::{Stream, Streams};

/// What both sides begin with.
const WINDOW_FIRST: i64 = 65_535;
const FRAME_FIRST: usize = 16_384;

/// What the peer is told, and held to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) streams_max: u32,
    pub(crate) window_stream: u32,
    pub(crate) window_connection: u32,
    pub(crate) frame_max: u32,
    pub(crate) headers_max: u32,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A request begins. When it `is_complete`, nothing follows.
    Open { stream: u32, head: Head, is_complete: bool },
    /// The next bytes of a request; after the complete ones nothing follows. They count against the
    /// peer's windows until they are taken (`Session::take`).
    Data { stream: u32, bytes: Bytes, is_complete: bool },
    /// The peer has given the call up.
    Reset { stream: u32 },
}

/// What matters of a request's headers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) method: Method,
    pub(crate) path: String,
    /// Whether the body is gRPC's messages.
    pub(crate) is_grpc: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Get,
    Post,
    Other,
}

/// The stream has ended: nobody reads what is sent on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Closed;

pub(crate) struct Session {
    settings: Settings,
    greeting: Greeting,
    decoder: Decoder,
    renderer: Renderer,
    /// Headers that go on in the next frame.
    block: Option<Block>,
    last_stream: u32,
    streams: Streams,
    window_in: i64,
    /// Taken by readers, and not yet given back to the peer's window.
    taken: u32,
    window_out: i64,
    peer_window: i64,
    peer_frame: usize,
    /// Frames that are ready to be written.
    output: Vec<u8>,
    /// Streams that have data to send, in turn.
    queue: VecDeque<u32>,
    is_leaving: bool,
}

/// What has to come first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Greeting {
    Preface,
    Settings,
    Done,
}

struct Block {
    stream: u32,
    is_complete: bool,
    bytes: Vec<u8>,
}

impl Session {
    pub(crate) fn new(settings: Settings) -> Self {
        let mut output = Vec::new();
        frame::push(&mut output, frame::SETTINGS, 0, 0, |it| {
            frame::push_setting(it, setting::MAX_CONCURRENT_STREAMS, settings.streams_max);
            frame::push_setting(it, setting::INITIAL_WINDOW_SIZE, settings.window_stream);
            frame::push_setting(it, setting::MAX_FRAME_SIZE, settings.frame_max);
            frame::push_setting(it, setting::MAX_HEADER_LIST_SIZE, settings.headers_max);
        });
        let more = i64::from(settings.window_connection) - WINDOW_FIRST;
        if let Ok(more @ 1..) = u32::try_from(more) {
            frame::push_number(&mut output, frame::WINDOW_UPDATE, 0, more);
        }
        Self {
            settings,
            greeting: Greeting::Preface,
            decoder: Decoder::new(),
            renderer: Renderer::new(),
            block: None,
            last_stream: 0,
            streams: Streams::default(),
            window_in: i64::from(settings.window_connection).max(WINDOW_FIRST),
            taken: 0,
            window_out: WINDOW_FIRST,
            peer_window: WINDOW_FIRST,
            peer_frame: FRAME_FIRST,
            output,
            queue: VecDeque::new(),
            is_leaving: false,
        }
    }

    /// How many streams are open.
    pub(crate) fn n_streams(&self) -> usize {
        self.streams.len()
    }

    pub(crate) fn is_greeted(&self) -> bool {
        self.greeting == Greeting::Done
    }

    /// Whether there is something to write, or may be.
    pub(crate) fn has_output(&self) -> bool {
        !self.output.is_empty() || !self.queue.is_empty()
    }

    /// What is to be written next, as far as windows allow; `spent` is the buffer that was written
    /// last.
    pub(crate) fn output(&mut self, mut spent: Vec<u8>) -> Vec<u8> {
        self.pump();
        spent.clear();
        std::mem::replace(&mut self.output, spent)
    }

    /// Bytes of a request have been taken: the peer may send as many more.
    pub(crate) fn take(&mut self, stream: u32, n_bytes: usize) {
        let n_bytes = n_bytes as u32;
        self.taken += n_bytes;
        if self.taken >= self.settings.window_connection / 2 {
            self.window_in += i64::from(self.taken);
            frame::push_number(&mut self.output, frame::WINDOW_UPDATE, 0, self.taken);
            self.taken = 0;
        }
        let Some(it) = self.streams.get_mut(&stream).filter(|it| !it.is_complete) else { return };
        it.taken += n_bytes;
        if it.taken >= self.settings.window_stream / 2 {
            it.window_in += i64::from(it.taken);
            frame::push_number(&mut self.output, frame::WINDOW_UPDATE, stream, it.taken);
            it.taken = 0;
        }
    }

    /// Keeps bytes of a request for its reader.
    pub(crate) fn deliver(&mut self, stream: u32, bytes: Bytes) {
        if let Some(it) = self.streams.get_mut(&stream) {
            if !bytes.is_empty() {
                it.inbox.push_back(bytes);
            }
            it.reader.take().into_iter().for_each(std::task::Waker::wake);
        }
    }

    /// What was delivered, piece by piece; `None` when the peer has sent everything.
    pub(crate) fn poll_read(
        &mut self,
        stream: u32,
        context: &Context<'_>,
    ) -> Poll<Result<Option<Bytes>, Closed>> {
        let Some(it) = self.streams.get_mut(&stream) else { return Poll::Ready(Err(Closed)) };
        if let Some(bytes) = it.inbox.pop_front() {
            self.take(stream, bytes.len());
            return Poll::Ready(Ok(Some(bytes)));
        }
        if it.is_complete {
            return Poll::Ready(Ok(None));
        }
        it.reader = Some(context.waker().clone());
        Poll::Pending
    }

    /// Ready when everything that was sent on the stream has left for the peer.
    pub(crate) fn poll_sent(
        &mut self,
        stream: u32,
        context: &Context<'_>,
    ) -> Poll<Result<(), Closed>> {
        let Some(it) = self.streams.get_mut(&stream) else { return Poll::Ready(Err(Closed)) };
        if it.outbox.is_empty() {
            return Poll::Ready(Ok(()));
        }
        it.sender = Some(context.waker().clone());
        Poll::Pending
    }

    /// Ready when the stream has ended.
    pub(crate) fn poll_closed(&mut self, stream: u32, context: &Context<'_>) -> Poll<()> {
        let Some(it) = self.streams.get_mut(&stream) else { return Poll::Ready(()) };
        it.sender = Some(context.waker().clone());
        Poll::Pending
    }

    /// The connection is over: every reader and sender is told.
    pub(crate) fn close(&mut self) {
        self.streams.drain().for_each(|(_, mut it)| it.wake());
        self.queue.clear();
    }

    fn remove(&mut self, stream: u32) -> Option<Stream> {
        let mut removed = self.streams.remove(&stream)?;
        removed.wake();
        // What nobody will read any more must not stay in the peer's way.
        let unread: usize = removed.inbox.iter().map(Bytes::len).sum();
        if unread > 0 {
            self.take(stream, unread);
        }
        Some(removed)
    }

    pub(crate) fn reset(&mut self, stream: u32, reason: Reason) {
        if self.remove(stream).is_some() {
            frame::push_number(&mut self.output, frame::RST_STREAM, stream, reason as u32);
        }
    }

    /// Nobody will answer any more. Nothing happens if somebody has.
    pub(crate) fn abandon(&mut self, stream: u32) {
        if self.streams.get(&stream).is_some_and(|it| it.ending.is_none()) {
            self.reset(stream, Reason::Cancel);
        }
    }

    pub(crate) fn ping(&mut self) {
        frame::push(&mut self.output, frame::PING, 0, 0, |it| it.extend_from_slice(&[0; 8]));
    }

    /// Tells the peer that no new calls are taken, and why. Those that are open go on.
    pub(crate) fn leave(&mut self, reason: Reason) {
        self.is_leaving = true;
        let last_stream = self.last_stream;
        frame::push(&mut self.output, frame::GOAWAY, 0, 0, |it| {
            it.extend_from_slice(&last_stream.to_be_bytes());
            it.extend_from_slice(&(reason as u32).to_be_bytes());
        });
    }
}
