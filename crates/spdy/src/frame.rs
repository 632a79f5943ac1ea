//! Frames as bytes. Data frames are not held whole: the session passes their payload on in pieces.

use bytes::{BufMut as _, Bytes, BytesMut};

use super::Error;

const VERSION: u16 = 3;
const CONTROL: u16 = 0x8000;
const FLAG_FIN: u8 = 1;
/// Of a frame's head, the same for both kinds.
pub(super) const HEAD: usize = 8;
/// Of a control frame's payload: headers of these protocols are a few hundred bytes.
const CONTROL_MAX: usize = 64 * 1024;

const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GOAWAY: u16 = 7;
const HEADERS: u16 = 8;

/// The first eight bytes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Head {
    Data { stream: u32, is_last: bool, length: usize },
    Control { kind: u16, is_last: bool, length: usize },
}

/// A control frame that means something here; header blocks are still compressed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Control {
    Open {
        stream: u32,
        is_last: bool,
        block: Bytes,
    },
    Reply {
        stream: u32,
        block: Bytes,
    },
    Headers {
        stream: u32,
        is_last: bool,
        block: Bytes,
    },
    Reset {
        stream: u32,
    },
    Ping {
        id: u32,
    },
    GoAway,
    /// SETTINGS, WINDOW_UPDATE and what else may come: nothing to do.
    Ignored,
}

impl Head {
    pub(super) fn parse(bytes: [u8; HEAD]) -> Result<Self, Error> {
        let first = u16::from_be_bytes([bytes[0], bytes[1]]);
        let length = u32::from_be_bytes([0, bytes[5], bytes[6], bytes[7]]) as usize;
        let is_last = bytes[4] & FLAG_FIN != 0;
        if first & CONTROL == 0 {
            let stream = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            return Ok(Self::Data { stream, is_last, length });
        }
        let version = first & !CONTROL;
        if version != VERSION {
            return Err(Error::Version(version));
        }
        let kind = u16::from_be_bytes([bytes[2], bytes[3]]);
        if length > CONTROL_MAX {
            return Err(Error::Length { kind, length });
        }
        Ok(Self::Control { kind, is_last, length })
    }
}

impl Control {
    pub(super) fn parse(kind: u16, is_last: bool, payload: &Bytes) -> Result<Self, Error> {
        let length = payload.len();
        let number = |at: usize| {
            let bytes: Option<[u8; 4]> = payload.get(at..at + 4).and_then(|it| it.try_into().ok());
            bytes
                .map(|it| u32::from_be_bytes(it) & 0x7fff_ffff)
                .ok_or(Error::Length { kind, length })
        };
        let block = |at: usize| match length >= at {
            true => Ok(payload.slice(at..)),
            false => Err(Error::Length { kind, length }),
        };
        Ok(match kind {
            SYN_STREAM => Self::Open { stream: number(0)?, is_last, block: block(10)? },
            SYN_REPLY => Self::Reply { stream: number(0)?, block: block(4)? },
            HEADERS => Self::Headers { stream: number(0)?, is_last, block: block(4)? },
            RST_STREAM => Self::Reset { stream: number(0)? },
            PING => {
                // The top bit counts here.
                let id: Option<[u8; 4]> = payload.get(..4).and_then(|it| it.try_into().ok());
                Self::Ping { id: u32::from_be_bytes(id.ok_or(Error::Length { kind, length })?) }
            }
            GOAWAY => Self::GoAway,
            _ => Self::Ignored,
        })
    }
}

fn control(kind: u16, is_last: bool, payload: &[&[u8]]) -> Bytes {
    let length: usize = payload.iter().map(|it| it.len()).sum();
    let mut out = BytesMut::with_capacity(HEAD + length);
    out.put_u16(CONTROL | VERSION);
    out.put_u16(kind);
    out.put_u8(u8::from(is_last) * FLAG_FIN);
    out.put_uint(length as u64, 3);
    for it in payload {
        out.put_slice(it);
    }
    out.freeze()
}

/// A client's; servers do not open streams here.
pub(super) fn open(stream: u32, is_last: bool, block: &[u8]) -> Bytes {
    control(SYN_STREAM, is_last, &[&stream.to_be_bytes(), &[0; 6], block])
}

pub(super) fn reply(stream: u32, block: &[u8]) -> Bytes {
    control(SYN_REPLY, false, &[&stream.to_be_bytes(), block])
}

#[cfg(test)]
pub(super) fn reset(stream: u32, status: u32) -> Bytes {
    control(RST_STREAM, false, &[&stream.to_be_bytes(), &status.to_be_bytes()])
}

pub(super) fn ping(id: u32) -> Bytes {
    control(PING, false, &[&id.to_be_bytes()])
}

/// Status 0: all is well.
pub(super) fn go_away(last_stream: u32) -> Bytes {
    control(GOAWAY, false, &[&last_stream.to_be_bytes(), &[0; 4]])
}

/// The head of a data frame; its payload follows.
pub(super) fn data(stream: u32, is_last: bool, length: usize) -> [u8; HEAD] {
    let [_, a, b, c] = u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
    let [s0, s1, s2, s3] = (stream & 0x7fff_ffff).to_be_bytes();
    [s0, s1, s2, s3, u8::from(is_last) * FLAG_FIN, a, b, c]
}
