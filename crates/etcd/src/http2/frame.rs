//! Frames: nine bytes that say what follows, and what follows (RFC 9113, sections 4 and 6).

use std::ops::Range;

use super::Violation;

pub(super) const HEAD: usize = 9;
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub(super) const WINDOW_MAX: i64 = (1 << 31) - 1;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const PRIORITY: u8 = 2;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PUSH_PROMISE: u8 = 5;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

pub(super) const ACK: u8 = 0x1;
pub(super) const END_STREAM: u8 = 0x1;
pub(super) const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITIZED: u8 = 0x20;

/// Why a stream or a connection ends (section 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    NoError = 0,
    Protocol = 1,
    FlowControl = 3,
    StreamClosed = 5,
    FrameSize = 6,
    RefusedStream = 7,
    Cancel = 8,
    Compression = 9,
    EnhanceYourCalm = 11,
}

pub(super) mod setting {
    pub(in crate::http2) const HEADER_TABLE_SIZE: u16 = 1;
    pub(in crate::http2) const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub(in crate::http2) const INITIAL_WINDOW_SIZE: u16 = 4;
    pub(in crate::http2) const MAX_FRAME_SIZE: u16 = 5;
    pub(in crate::http2) const MAX_HEADER_LIST_SIZE: u16 = 6;
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) len: usize,
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
}

impl Head {
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let [a, b, c, kind, flags, d, e, f, g] = *bytes.first_chunk::<HEAD>()?;
        let len = u32::from_be_bytes([0, a, b, c]) as usize;
        let stream = u32::from_be_bytes([d, e, f, g]) & 0x7fff_ffff;
        Some(Self { len, kind, flags, stream })
    }

    pub(super) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Where in the payload of HEADERS or DATA its content lies, without padding and priority.
    pub(super) fn content(self, payload: &[u8]) -> Result<Range<usize>, Violation> {
        let (mut start, mut end) = (0, payload.len());
        if self.has(PADDED) {
            let padding = usize::from(*payload.first().ok_or(Violation(Reason::Protocol))?);
            start += 1;
            end = end.saturating_sub(padding);
        }
        if self.kind == HEADERS && self.has(PRIORITIZED) {
            start += 5;
        }
        if start > end { Err(Violation(Reason::Protocol)) } else { Ok(start..end) }
    }
}

/// Writes the head of a frame; its payload has to follow.
pub(super) fn push_head(output: &mut Vec<u8>, len: usize, kind: u8, flags: u8, stream: u32) {
    let [_, a, b, c] = (len as u32).to_be_bytes();
    let [d, e, f, g] = stream.to_be_bytes();
    output.extend_from_slice(&[a, b, c, kind, flags, d, e, f, g]);
}

/// A frame whose payload is written by `payload`, at once.
pub(super) fn push(
    output: &mut Vec<u8>,
    kind: u8,
    flags: u8,
    stream: u32,
    payload: impl FnOnce(&mut Vec<u8>),
) {
    let start = output.len();
    push_head(output, 0, kind, flags, stream);
    payload(output);
    let [_, a, b, c] = ((output.len() - start - HEAD) as u32).to_be_bytes();
    output[start..start + 3].copy_from_slice(&[a, b, c]);
}

pub(super) fn push_number(output: &mut Vec<u8>, kind: u8, stream: u32, number: u32) {
    push(output, kind, 0, stream, |it| it.extend_from_slice(&number.to_be_bytes()));
}

pub(super) fn push_setting(payload: &mut Vec<u8>, setting: u16, value: u32) {
    payload.extend_from_slice(&setting.to_be_bytes());
    payload.extend_from_slice(&value.to_be_bytes());
}
