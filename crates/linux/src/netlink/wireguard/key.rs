//! Keys of Curve25519.

use std::fmt;

use crate::netlink::Attribute;

/// By which others know a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(pub [u8; 32]);

/// What nobody else may know: it is not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct PrivateKey([u8; 32]);

impl PrivateKey {
    /// As the kernel keeps it, which knows only such (RFC 7748 5).
    pub fn clamped(mut bytes: [u8; 32]) -> Self {
        bytes[0] &= 248;
        bytes[31] = (bytes[31] & 127) | 64;
        Self(bytes)
    }

    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// All zeros are none.
    pub(super) fn read(attribute: Attribute<'_>) -> Option<Self> {
        read(attribute).filter(|it| *it != [0; 32]).map(Self)
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey(..)")
    }
}

pub(super) fn read(attribute: Attribute<'_>) -> Option<[u8; 32]> {
    attribute.payload.first_chunk().copied()
}
