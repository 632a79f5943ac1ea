//! Why a session ends, in numbers that both sides know (RFC 4271, section 6; RFC 4486).

use std::fmt;

use crate::bytes::{Reader, Short};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    pub code: u8,
    pub subcode: u8,
    pub data: Vec<u8>,
}

impl Notification {
    pub const NOT_SYNCHRONIZED: Self = Self::new(1, 1);
    pub const BAD_LENGTH: Self = Self::new(1, 2);
    pub const BAD_PEER_AS: Self = Self::new(2, 2);
    pub const BAD_IDENTIFIER: Self = Self::new(2, 3);
    pub const BAD_PARAMETER: Self = Self::new(2, 4);
    pub const BAD_HOLD_TIME: Self = Self::new(2, 6);
    pub const BAD_ATTRIBUTES: Self = Self::new(3, 1);
    pub const BAD_RANGE: Self = Self::new(3, 10);
    pub const HOLD_TIME_OVER: Self = Self::new(4, 0);
    pub const NOT_NOW: Self = Self::new(5, 0);
    pub const TOO_MANY_ROUTES: Self = Self::new(6, 1);
    pub const SHUT_DOWN: Self = Self::new(6, 2);
    pub const COLLISION: Self = Self::new(6, 7);

    const fn new(code: u8, subcode: u8) -> Self {
        Self { code, subcode, data: Vec::new() }
    }

    pub(crate) fn bad_type(kind: u8) -> Self {
        Self { code: 1, subcode: 3, data: vec![kind] }
    }

    /// With the version that is spoken here.
    pub(crate) fn bad_version() -> Self {
        Self { code: 2, subcode: 1, data: vec![0, 4] }
    }

    /// With the capability that is asked for.
    pub(crate) fn missing_capability(data: Vec<u8>) -> Self {
        Self { code: 2, subcode: 7, data }
    }

    pub(super) fn decode(mut body: Reader<'_>) -> Result<Self, Short> {
        Ok(Self { code: body.u8()?, subcode: body.u8()?, data: body.0.to_vec() })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend([self.code, self.subcode]);
        out.extend(&self.data);
    }

    fn text(&self) -> &'static str {
        match (self.code, self.subcode) {
            (1, 1) => "connection not synchronized",
            (1, 2) => "bad message length",
            (1, 3) => "bad message type",
            (1, _) => "message header error",
            (2, 1) => "unsupported version number",
            (2, 2) => "bad peer AS",
            (2, 3) => "bad BGP identifier",
            (2, 4) => "unsupported optional parameter",
            (2, 6) => "unacceptable hold time",
            (2, 7) => "unsupported capability",
            (2, _) => "OPEN message error",
            (3, 1) => "malformed attribute list",
            (3, 10) => "invalid network field",
            (3, _) => "UPDATE message error",
            (4, _) => "hold timer expired",
            (5, _) => "finite state machine error",
            (6, 1) => "maximum number of prefixes reached",
            (6, 2) => "administrative shutdown",
            (6, 3) => "peer de-configured",
            (6, 4) => "administrative reset",
            (6, 5) => "connection rejected",
            (6, 6) => "other configuration change",
            (6, 7) => "connection collision resolution",
            (6, 8) => "out of resources",
            (6, _) => "cease",
            _ => "unknown error",
        }
    }
}

impl fmt::Display for Notification {
    /// What a peer says in `data` is not shown: it is for logs, and may be anything.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}/{})", self.text(), self.code, self.subcode)
    }
}
