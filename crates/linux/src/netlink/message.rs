//! Messages to the kernel (`struct nlmsghdr`, a fixed structure, attributes) and its answers.
//!
//! A message says in words what it does, so that the kernel's refusal of it reads as a sentence.

use std::borrow::Cow;

use super::attributes::{self, Attributes, Reader, array};

/// Length of `struct nlmsghdr`.
pub(super) const HEADER: usize = 16;
const ALIGNMENT: usize = 4;

/// Flags of a message's header (`NLM_F_*`).
pub mod flags {
    pub const REQUEST: u16 = 0x1;
    pub const MULTI: u16 = 0x2;
    pub const ACK: u16 = 0x4;
    pub const DUMP_INTR: u16 = 0x10;
    pub const DUMP: u16 = 0x300;
    pub const REPLACE: u16 = 0x100;
    pub const EXCL: u16 = 0x200;
    pub const CREATE: u16 = 0x400;
    pub const APPEND: u16 = 0x800;
    /// In an answer: only the header of what was asked is repeated.
    pub const CAPPED: u16 = 0x100;
    /// In an answer: attributes follow that explain.
    pub const ACK_TLVS: u16 = 0x200;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    doing: Cow<'static, str>,
    kind: u16,
    flags: u16,
    fixed: Vec<u8>,
    pub attributes: Attributes,
}

impl Message {
    /// `doing` completes "could not ...": `add link xebec0`. `flags` are those beyond what the
    /// socket's calls set themselves.
    pub fn new(doing: impl Into<Cow<'static, str>>, kind: u16, flags: u16, fixed: &[u8]) -> Self {
        let mut fixed = fixed.to_vec();
        fixed.resize(fixed.len().next_multiple_of(ALIGNMENT), 0);
        Self { doing: doing.into(), kind, flags, fixed, attributes: Attributes::new() }
    }

    /// Writes the attributes, for messages that are made in one expression.
    pub fn with(mut self, write: impl FnOnce(&mut Attributes)) -> Self {
        write(&mut self.attributes);
        self
    }

    pub fn doing(&self) -> &str {
        &self.doing
    }

    pub fn kind(&self) -> u16 {
        self.kind
    }

    /// Appends the message to what is to be sent. Panics never; a message over 4 GiB cannot be,
    /// since attributes are bounded.
    pub(super) fn encode(&self, flags: u16, sequence: u32, bytes: &mut Vec<u8>) {
        let length = HEADER + self.fixed.len() + self.attributes.as_bytes().len();
        bytes.reserve(length);
        bytes.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_ne_bytes());
        bytes.extend_from_slice(&self.kind.to_ne_bytes());
        bytes.extend_from_slice(&(self.flags | flags).to_ne_bytes());
        bytes.extend_from_slice(&sequence.to_ne_bytes());
        bytes.extend_from_slice(&0u32.to_ne_bytes());
        bytes.extend_from_slice(&self.fixed);
        bytes.extend_from_slice(self.attributes.as_bytes());
    }
}

/// One message of the kernel's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub kind: u16,
    /// The fixed structure, then attributes.
    pub payload: Vec<u8>,
}

impl Reply {
    /// The attributes after a fixed structure of this length.
    pub fn attributes(&self, fixed: usize) -> Reader<'_> {
        let start = fixed.next_multiple_of(ALIGNMENT);
        attributes::read(self.payload.get(start..).unwrap_or_default())
    }

    /// A number of the fixed structure.
    pub fn u16_at(&self, offset: usize) -> Option<u16> {
        array(self.payload.get(offset..)?).map(u16::from_ne_bytes)
    }

    /// A number of the fixed structure.
    pub fn u32_at(&self, offset: usize) -> Option<u32> {
        array(self.payload.get(offset..)?).map(u32::from_ne_bytes)
    }
}

/// A message as it lies in a buffer that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Received<'a> {
    pub(super) kind: u16,
    pub(super) flags: u16,
    pub(super) sequence: u32,
    /// Of the socket that asked; in a notice, of the one that changed something. 0: nobody's.
    pub(super) port: u32,
    pub(super) payload: &'a [u8],
}

/// Splits what was received into messages; ends at the first whose length lies.
pub(super) fn split(mut bytes: &[u8]) -> impl Iterator<Item = Received<'_>> {
    std::iter::from_fn(move || {
        let length = usize::try_from(u32::from_ne_bytes(array(bytes)?)).ok()?;
        let received = Received {
            kind: u16::from_ne_bytes(array(bytes.get(4..)?)?),
            flags: u16::from_ne_bytes(array(bytes.get(6..)?)?),
            sequence: u32::from_ne_bytes(array(bytes.get(8..)?)?),
            port: u32::from_ne_bytes(array(bytes.get(12..)?)?),
            payload: bytes.get(HEADER..length)?,
        };
        let next = length.checked_next_multiple_of(ALIGNMENT)?;
        bytes = bytes.get(next..).unwrap_or_default();
        Some(received)
    })
}

/// What an acknowledgment (`NLMSG_ERROR`) says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Acknowledgment {
    /// Zero or a negative error number.
    pub(super) error: i32,
    /// The kernel's own words (extended acknowledgment).
    pub(super) words: Option<String>,
}

/// `NLMSGERR_ATTR_MSG`.
const WORDS: u16 = 1;

impl Acknowledgment {
    pub(super) fn read(received: Received<'_>) -> Option<Self> {
        let error = i32::from_ne_bytes(array(received.payload)?);
        let words = (received.flags & flags::ACK_TLVS != 0)
            .then(|| Self::read_words(received))
            .flatten()
            .map(str::to_owned);
        Some(Self { error, words })
    }

    /// After the error comes the header of the request and, unless capped, its body; then the
    /// attributes.
    fn read_words(received: Received<'_>) -> Option<&str> {
        let request = received.payload.get(4..)?;
        let repeated = if received.flags & flags::CAPPED != 0 {
            HEADER
        } else {
            usize::try_from(u32::from_ne_bytes(array(request)?)).ok()?
        };
        let rest = request.get(repeated.checked_next_multiple_of(ALIGNMENT)?..)?;
        attributes::read(rest).find_kind(WORDS)?.string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_message_is_split_as_it_was_encoded() {
        let mut bytes = Vec::new();
        let first = Message::new("first", 16, flags::EXCL, &[1, 2, 3]).with(|it| {
            it.u32(7, 8);
        });
        first.encode(flags::REQUEST, 41, &mut bytes);
        Message::new("second", 17, 0, &[]).encode(flags::ACK, 42, &mut bytes);
        let messages: Vec<_> = split(&bytes).collect();
        assert_eq!(messages.len(), 2);
        assert_eq!((messages[0].kind, messages[0].sequence), (16, 41));
        assert_eq!(messages[0].flags, flags::REQUEST | flags::EXCL);
        assert_eq!(messages[0].payload.len(), 4 + 8);
        assert_eq!((messages[1].kind, messages[1].flags, messages[1].sequence), (17, 4, 42));
    }

    #[test]
    fn the_words_of_a_refusal_are_found_behind_the_request() {
        let check = |flags: u16, repeated: usize, expected: Option<&str>| {
            let mut payload = (-22i32).to_ne_bytes().to_vec();
            payload.extend(u32::try_from(24usize).unwrap().to_ne_bytes());
            payload.resize(4 + repeated, 0);
            payload.extend(Attributes::new().string(WORDS, "no such thing").as_bytes());
            let received = Received { kind: 2, flags, sequence: 1, port: 0, payload: &payload };
            let words = expected.map(str::to_owned);
            assert_eq!(Acknowledgment::read(received), Some(Acknowledgment { error: -22, words }));
        };
        check(flags::CAPPED | flags::ACK_TLVS, HEADER, Some("no such thing"));
        check(flags::ACK_TLVS, 24, Some("no such thing"));
        check(0, 24, None);
    }

    proptest! {
        #[test]
        fn splitting_never_panics(
            bytes in proptest::collection::vec(prop_oneof![Just(0u8), 0u8..40, any::<u8>()], 0..300)
        ) {
            for received in split(&bytes) {
                let received = Received { flags: flags::ACK_TLVS, ..received };
                let _ = Acknowledgment::read(received);
                let _ = Acknowledgment::read(Received { flags: 0x300, ..received });
                let reply = Reply { kind: received.kind, payload: received.payload.to_vec() };
                let _ = (reply.u16_at(3), reply.u32_at(17), reply.attributes(5).count());
            }
        }
    }
}
