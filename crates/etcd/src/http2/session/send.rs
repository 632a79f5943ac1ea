//! Answers: headers at once, data as the peer's windows allow, streams in turn.

use bytes::Bytes;

use super::Session;
use crate::http2::frame::{self, Reason};
use crate::http2::streams::{Ending, Stream};
use crate::wire::Status;

/// More than this is not made ready at once: it is copied, and streams take turns.
const OUTPUT_MAX: usize = 256 << 10;
/// A longer frame would let one stream hold up the others.
const FRAME_MAX: usize = 64 << 10;

impl Session {
    /// A whole answer: its one message, with success.
    pub(crate) fn answer(&mut self, stream: u32, message: Bytes) {
        if self.open(stream) {
            self.send(stream, message);
            self.finish(stream, Ok(()));
        }
    }

    /// Begins an answer; false if nobody waits for it.
    pub(crate) fn open(&mut self, stream: u32) -> bool {
        if !self.streams.contains_key(&stream) {
            return false;
        }
        let renderer = &mut self.renderer;
        let head = |it: &mut Vec<u8>| renderer.head(it);
        frame::push(&mut self.output, frame::HEADERS, frame::END_HEADERS, stream, head);
        true
    }

    pub(crate) fn send(&mut self, stream: u32, bytes: Bytes) {
        let Some(it) = self.streams.get_mut(&stream) else { return };
        let room = self.window_out.min(it.window_out).min(self.peer_frame as i64);
        let fits = it.outbox.is_empty() && self.output.len() < OUTPUT_MAX;
        if fits && bytes.len() as i64 <= room {
            self.window_out -= bytes.len() as i64;
            it.window_out -= bytes.len() as i64;
            push_data(&mut self.output, &bytes, 0, stream);
            return;
        }
        it.outbox.push_back(bytes);
        if !it.is_queued {
            it.is_queued = true;
            self.queue.push_back(stream);
        }
    }

    /// Ends an answer that was begun.
    pub(crate) fn finish(&mut self, stream: u32, ended: Result<(), Status>) {
        let Some(it) = self.streams.get_mut(&stream) else { return };
        if it.outbox.is_empty() {
            self.push_trailers(stream, &ended);
            self.end(stream);
        } else {
            it.ending = Some(Ending::Trailers(ended));
        }
    }

    /// An answer without a message: its headers alone say why.
    pub(crate) fn refuse(&mut self, stream: u32, status: &Status) {
        if !self.streams.contains_key(&stream) {
            return;
        }
        let renderer = &mut self.renderer;
        let flags = frame::END_HEADERS | frame::END_STREAM;
        frame::push(&mut self.output, frame::HEADERS, flags, stream, |it| {
            renderer.head(it);
            status.fields(|name, value| renderer.field(it, name.as_bytes(), value.as_bytes()));
        });
        self.end(stream);
    }

    /// An answer to a request that is no gRPC.
    pub(crate) fn plain(&mut self, stream: u32, code: u16, body: &str) {
        let Some(it) = self.streams.get_mut(&stream) else { return };
        let renderer = &mut self.renderer;
        let is_empty = body.is_empty();
        let flags = if is_empty { frame::END_STREAM } else { 0 } | frame::END_HEADERS;
        frame::push(&mut self.output, frame::HEADERS, flags, stream, |block| {
            renderer.plain(block, code, b"application/json");
        });
        if is_empty {
            return self.end(stream);
        }
        it.outbox.push_back(Bytes::copy_from_slice(body.as_bytes()));
        it.ending = Some(Ending::Data);
        it.is_queued = true;
        self.queue.push_back(stream);
    }

    fn push_trailers(&mut self, stream: u32, ended: &Result<(), Status>) {
        let renderer = &mut self.renderer;
        let flags = frame::END_HEADERS | frame::END_STREAM;
        frame::push(&mut self.output, frame::HEADERS, flags, stream, |it| match ended {
            Ok(()) => renderer.success(it),
            Err(status) => {
                status.fields(|name, value| renderer.field(it, name.as_bytes(), value.as_bytes()));
            }
        });
    }

    /// Our side has said everything. A peer that has not is told that the rest is not wanted.
    fn end(&mut self, stream: u32) {
        if self.remove(stream).is_some_and(|it| !it.is_complete) {
            let reason = Reason::NoError as u32;
            frame::push_number(&mut self.output, frame::RST_STREAM, stream, reason);
        }
    }

    /// Makes frames of what waits, as far as windows allow.
    pub(super) fn pump(&mut self) {
        while self.output.len() < OUTPUT_MAX
            && self.window_out > 0
            && let Some(stream) = self.queue.pop_front()
        {
            let Some(it) = self.streams.get_mut(&stream) else { continue };
            it.is_queued = false;
            let room = self.window_out.min(it.window_out).max(0) as usize;
            let Some(bytes) = it.next_piece(room.min(self.peer_frame).min(FRAME_MAX)) else {
                // It waits for its window.
                continue;
            };
            self.window_out -= bytes.len() as i64;
            it.window_out -= bytes.len() as i64;
            if !it.outbox.is_empty() {
                it.is_queued = true;
                self.queue.push_back(stream);
                push_data(&mut self.output, &bytes, 0, stream);
                continue;
            }
            it.sender.take().into_iter().for_each(std::task::Waker::wake);
            match it.ending.take() {
                None => push_data(&mut self.output, &bytes, 0, stream),
                Some(Ending::Data) => {
                    push_data(&mut self.output, &bytes, frame::END_STREAM, stream);
                    self.end(stream);
                }
                Some(Ending::Trailers(ended)) => {
                    push_data(&mut self.output, &bytes, 0, stream);
                    self.push_trailers(stream, &ended);
                    self.end(stream);
                }
            }
        }
    }
}

impl Stream {
    fn next_piece(&mut self, len_max: usize) -> Option<Bytes> {
        let first = self.outbox.front_mut().filter(|_| len_max > 0)?;
        if first.len() > len_max {
            return Some(first.split_to(len_max));
        }
        self.outbox.pop_front()
    }
}

fn push_data(output: &mut Vec<u8>, bytes: &[u8], flags: u8, stream: u32) {
    frame::push_head(output, bytes.len(), frame::DATA, flags, stream);
    output.extend_from_slice(bytes);
}
