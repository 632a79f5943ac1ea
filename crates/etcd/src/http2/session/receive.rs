//! What the peer sends, frame by frame.

use bytes::{Buf as _, Bytes, BytesMut};

use super::{Block, Event, Greeting, Head, Method, Session};
use crate::http2::Violation;
use crate::http2::frame::{self, PREFACE, Reason, WINDOW_MAX, setting};
use crate::http2::streams::Stream;

/// What a header counts beyond its bytes, by the standard.
const HEADER_OVERHEAD: usize = 32;

impl Session {
    /// The next event; `None` when more input is needed. After a violation the connection has to
    /// end.
    pub(crate) fn receive(&mut self, input: &mut BytesMut) -> Result<Option<Event>, Violation> {
        if self.greeting == Greeting::Preface {
            let len = input.len().min(PREFACE.len());
            if input[..len] != PREFACE[..len] {
                return Err(Violation(Reason::Protocol));
            }
            if len < PREFACE.len() {
                return Ok(None);
            }
            input.advance(len);
            self.greeting = Greeting::Settings;
        }
        while let Some(head) = frame::Head::parse(input) {
            if head.len > self.settings.frame_max as usize {
                return Err(Violation(Reason::FrameSize));
            }
            let Some(payload) = input.get(frame::HEAD..frame::HEAD + head.len) else {
                input.reserve(frame::HEAD + head.len - input.len());
                return Ok(None);
            };
            self.check_order(head)?;
            let event = if head.kind == frame::DATA {
                let content = head.content(payload)?;
                let padding = head.len - content.end;
                input.advance(frame::HEAD + content.start);
                let bytes = input.split_to(content.len()).freeze();
                input.advance(padding);
                self.on_data(head, bytes)?
            } else {
                let event = self.on_frame(head, payload)?;
                input.advance(frame::HEAD + head.len);
                event
            };
            if event.is_some() {
                return Ok(event);
            }
        }
        Ok(None)
    }

    /// Settings come first, and nothing comes between the frames of one header block.
    fn check_order(&mut self, head: frame::Head) -> Result<(), Violation> {
        if self.greeting == Greeting::Settings {
            if head.kind != frame::SETTINGS || head.has(frame::ACK) {
                return Err(Violation(Reason::Protocol));
            }
            self.greeting = Greeting::Done;
        }
        let is_continued = head.kind == frame::CONTINUATION;
        match &self.block {
            Some(block) if is_continued && block.stream == head.stream => Ok(()),
            None if !is_continued => Ok(()),
            _ => Err(Violation(Reason::Protocol)),
        }
    }

    fn on_frame(&mut self, head: frame::Head, payload: &[u8]) -> Result<Option<Event>, Violation> {
        match head.kind {
            frame::HEADERS => {
                let block = &payload[head.content(payload)?];
                if head.stream.is_multiple_of(2) {
                    return Err(Violation(Reason::Protocol));
                }
                let is_complete = head.has(frame::END_STREAM);
                if head.has(frame::END_HEADERS) {
                    return self.on_block(head.stream, is_complete, block);
                }
                self.begin_block(Block { stream: head.stream, is_complete, bytes: block.to_vec() })
            }
            frame::CONTINUATION => {
                let Some(mut block) = self.block.take() else { return Ok(None) };
                block.bytes.extend_from_slice(payload);
                if head.has(frame::END_HEADERS) {
                    return self.on_block(block.stream, block.is_complete, &block.bytes);
                }
                self.begin_block(block)
            }
            frame::RST_STREAM => {
                number(payload)?;
                if head.stream == 0 || head.stream > self.last_stream {
                    return Err(Violation(Reason::Protocol));
                }
                let removed = self.remove(head.stream);
                Ok(removed.map(|_| Event::Reset { stream: head.stream }))
            }
            frame::SETTINGS => self.on_settings(head, payload).map(|()| None),
            frame::PING => {
                if payload.len() != 8 {
                    return Err(Violation(Reason::FrameSize));
                }
                if head.stream != 0 {
                    return Err(Violation(Reason::Protocol));
                }
                if !head.has(frame::ACK) {
                    let pong = |it: &mut Vec<u8>| it.extend_from_slice(payload);
                    frame::push(&mut self.output, frame::PING, frame::ACK, 0, pong);
                }
                Ok(None)
            }
            frame::WINDOW_UPDATE => self.on_window(head.stream, number(payload)?).map(|()| None),
            frame::PRIORITY if payload.len() != 5 => Err(Violation(Reason::FrameSize)),
            frame::PRIORITY if head.stream == 0 => Err(Violation(Reason::Protocol)),
            frame::GOAWAY if head.stream != 0 => Err(Violation(Reason::Protocol)),
            frame::PUSH_PROMISE => Err(Violation(Reason::Protocol)),
            // Priorities are advice. A peer that leaves closes the connection when its calls have
            // ended. Frames of other kinds are to be ignored.
            _ => Ok(None),
        }
    }

    fn begin_block(&mut self, block: Block) -> Result<Option<Event>, Violation> {
        if block.bytes.len() > self.settings.headers_max as usize {
            return Err(Violation(Reason::EnhanceYourCalm));
        }
        self.block = Some(block);
        Ok(None)
    }

    /// Read in any case: later blocks refer to this one.
    fn on_block(
        &mut self,
        stream: u32,
        is_complete: bool,
        block: &[u8],
    ) -> Result<Option<Event>, Violation> {
        let mut headers = Headers::default();
        let read = self.decoder.decode(block, |name, value| headers.take(name, value));
        read.map_err(|_| Violation(Reason::Compression))?;
        if let Some(it) = self.streams.get_mut(&stream) {
            // Trailers.
            if it.is_complete {
                return Err(Violation(Reason::StreamClosed));
            }
            if !is_complete {
                return Err(Violation(Reason::Protocol));
            }
            it.is_complete = true;
            return Ok(Some(Event::Data { stream, bytes: Bytes::new(), is_complete }));
        }
        // One that has ended here, or that the peer has been told will not be looked at.
        if stream <= self.last_stream || self.is_leaving {
            return Ok(None);
        }
        self.last_stream = stream;
        let is_full = self.streams.len() >= self.settings.streams_max as usize;
        let refusal = match headers.head() {
            _ if is_full => Reason::RefusedStream,
            _ if headers.size > self.settings.headers_max as usize => Reason::EnhanceYourCalm,
            None => Reason::Protocol,
            Some(head) => {
                let window_in = i64::from(self.settings.window_stream);
                let opened = Stream::new(window_in, self.peer_window, is_complete);
                self.streams.insert(stream, opened);
                return Ok(Some(Event::Open { stream, head, is_complete }));
            }
        };
        frame::push_number(&mut self.output, frame::RST_STREAM, stream, refusal as u32);
        Ok(None)
    }

    fn on_data(&mut self, head: frame::Head, bytes: Bytes) -> Result<Option<Event>, Violation> {
        let frame::Head { len, stream, .. } = head;
        if stream == 0 || stream > self.last_stream {
            return Err(Violation(Reason::Protocol));
        }
        self.window_in -= len as i64;
        if self.window_in < 0 {
            return Err(Violation(Reason::FlowControl));
        }
        let Some(it) = self.streams.get_mut(&stream) else {
            // The stream has ended here, which the peer did not know when it sent this.
            self.take(stream, len);
            return Ok(None);
        };
        it.window_in -= len as i64;
        let refusal = match (it.is_complete, it.window_in < 0) {
            (true, _) => Some(Reason::StreamClosed),
            (false, true) => Some(Reason::FlowControl),
            (false, false) => None,
        };
        if let Some(reason) = refusal {
            self.take(stream, len);
            self.reset(stream, reason);
            return Ok(Some(Event::Reset { stream }));
        }
        let is_complete = head.has(frame::END_STREAM);
        it.is_complete = is_complete;
        self.take(stream, len - bytes.len());
        Ok((is_complete || !bytes.is_empty()).then_some(Event::Data { stream, bytes, is_complete }))
    }

    fn on_settings(&mut self, head: frame::Head, payload: &[u8]) -> Result<(), Violation> {
        if head.stream != 0 {
            return Err(Violation(Reason::Protocol));
        }
        let is_ack = head.has(frame::ACK);
        if !payload.len().is_multiple_of(6) || (is_ack && !payload.is_empty()) {
            return Err(Violation(Reason::FrameSize));
        }
        if is_ack {
            return Ok(());
        }
        for setting in payload.as_chunks::<6>().0 {
            let [a, b, c, d, e, f] = *setting;
            let value = u32::from_be_bytes([c, d, e, f]);
            match u16::from_be_bytes([a, b]) {
                setting::HEADER_TABLE_SIZE => self.renderer.limit(value),
                setting::INITIAL_WINDOW_SIZE => self.on_peer_window(value)?,
                setting::MAX_FRAME_SIZE if !(1 << 14..1 << 24).contains(&value) => {
                    return Err(Violation(Reason::Protocol));
                }
                setting::MAX_FRAME_SIZE => self.peer_frame = value as usize,
                _ => {}
            }
        }
        frame::push_head(&mut self.output, 0, frame::SETTINGS, frame::ACK, 0);
        Ok(())
    }

    /// Open streams have as much more, or less: perhaps less than nothing.
    fn on_peer_window(&mut self, value: u32) -> Result<(), Violation> {
        let value = i64::from(value);
        let more = value - self.peer_window;
        self.peer_window = value;
        let mut widest = value;
        for (stream, it) in &mut self.streams {
            it.window_out += more;
            widest = widest.max(it.window_out);
            if !it.outbox.is_empty() && !it.is_queued {
                it.is_queued = true;
                self.queue.push_back(*stream);
            }
        }
        if widest > WINDOW_MAX { Err(Violation(Reason::FlowControl)) } else { Ok(()) }
    }

    fn on_window(&mut self, stream: u32, more: u32) -> Result<(), Violation> {
        let more = i64::from(more & 0x7fff_ffff);
        if stream > self.last_stream {
            return Err(Violation(Reason::Protocol));
        }
        if stream == 0 {
            self.window_out += more;
            return match self.window_out {
                _ if more == 0 => Err(Violation(Reason::Protocol)),
                WINDOW_MAX.. if self.window_out > WINDOW_MAX => Err(Violation(Reason::FlowControl)),
                _ => Ok(()),
            };
        }
        let Some(it) = self.streams.get_mut(&stream) else { return Ok(()) };
        it.window_out += more;
        if more == 0 {
            self.reset(stream, Reason::Protocol);
        } else if it.window_out > WINDOW_MAX {
            self.reset(stream, Reason::FlowControl);
        } else if !it.outbox.is_empty() && !it.is_queued {
            it.is_queued = true;
            self.queue.push_back(stream);
        }
        Ok(())
    }
}

fn number(payload: &[u8]) -> Result<u32, Violation> {
    let bytes = payload.try_into().map_err(|_| Violation(Reason::FrameSize))?;
    Ok(u32::from_be_bytes(bytes))
}

/// A request's headers while they are read.
#[derive(Default)]
struct Headers {
    method: Option<Method>,
    path: Option<String>,
    is_grpc: bool,
    is_malformed: bool,
    size: usize,
}

impl Headers {
    fn take(&mut self, name: &[u8], value: &[u8]) {
        self.size += name.len() + value.len() + HEADER_OVERHEAD;
        match name {
            b":method" => {
                self.is_malformed |= self.method.is_some();
                self.method = Some(match value {
                    b"GET" => Method::Get,
                    b"POST" => Method::Post,
                    _ => Method::Other,
                });
            }
            b":path" => {
                self.is_malformed |= self.path.is_some() || value.is_empty();
                self.path = Some(String::from_utf8_lossy(value).into_owned());
            }
            b"content-type" => self.is_grpc = value.starts_with(b"application/grpc"),
            _ => self.is_malformed |= name.is_empty() || name.iter().any(u8::is_ascii_uppercase),
        }
    }

    fn head(&mut self) -> Option<Head> {
        let (method, path) = self.method.zip(self.path.take())?;
        let is_grpc = self.is_grpc && method == Method::Post;
        (!self.is_malformed).then_some(Head { method, path, is_grpc })
    }
}
