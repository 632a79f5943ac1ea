//! Messages as bytes (RFC 4271, section 4), and the frames that hold them.

mod attributes;
mod notification;
mod open;
mod update;

use stdx::Family;

use crate::bytes::{Reader, Short};

pub use attributes::{AsPath, Attributes, Origin};
pub use notification::Notification;
pub use open::{Capability, GracefulRestart, Open};
pub(crate) use update::encode_all;
pub use update::{Reach, Update};

/// Marker, length and type.
pub(crate) const HEADER: usize = 19;
/// Without extended messages (RFC 8654), which nobody is offered.
pub(crate) const LENGTH_MAX: usize = 4096;
const MARKER: [u8; 16] = [0xff; 16];

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    Open(Open),
    Update(Update),
    Notification(Notification),
    Keepalive,
    /// Somebody wants to hear everything again. `None`: of a family that is not known here.
    Refresh(Option<Family>),
}

/// Why a message cannot be understood, as the notification that ends the session for it says it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("what came is no message of BGP: {0}")]
pub struct DecodeError(pub Notification);

impl From<Short> for DecodeError {
    /// Where nothing better is known: the message is shorter than its parts.
    fn from(_: Short) -> Self {
        Self(Notification::BAD_LENGTH)
    }
}

/// How long the first message of these bytes is. `None`: its head is not all there.
pub(crate) fn length(bytes: &[u8]) -> Result<Option<usize>, DecodeError> {
    let seen = bytes.len().min(MARKER.len());
    if bytes[..seen] != MARKER[..seen] {
        return Err(DecodeError(Notification::NOT_SYNCHRONIZED));
    }
    let Some(head) = bytes.get(..HEADER) else { return Ok(None) };
    let length = usize::from(u16::from_be_bytes([head[16], head[17]]));
    if !(HEADER..=LENGTH_MAX).contains(&length) {
        return Err(DecodeError(Notification::BAD_LENGTH));
    }
    Ok(Some(length))
}

impl Message {
    /// Of one whole message.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader(bytes);
        let head = reader.take(HEADER)?;
        let body = reader;
        match head[18] {
            1 => Open::decode(body).map(Self::Open),
            2 => Update::decode(body).map(Self::Update),
            3 => Ok(Self::Notification(Notification::decode(body)?)),
            4 if body.is_empty() => Ok(Self::Keepalive),
            4 => Err(DecodeError(Notification::BAD_LENGTH)),
            5 => refresh(body).map(Self::Refresh),
            kind => Err(DecodeError(Notification::bad_type(kind))),
        }
    }

    /// `None`: longer than a message may be, which only an update can be ([`encode_all`] cuts those).
    pub fn encode(&self) -> Option<Vec<u8>> {
        let mut out = Vec::with_capacity(64);
        out.extend(MARKER);
        out.extend([0, 0, self.kind()]);
        match self {
            Self::Open(open) => open.encode(&mut out),
            Self::Update(update) => update.encode(&mut out)?,
            Self::Notification(notification) => notification.encode(&mut out),
            Self::Keepalive => {}
            Self::Refresh(family) => {
                let (afi, safi) = family.map_or((0, 0), of_family);
                out.extend(afi.to_be_bytes());
                out.extend([0, safi]);
            }
        }
        if out.len() > LENGTH_MAX {
            return None;
        }
        let length = u16::try_from(out.len()).ok()?;
        out[16..18].copy_from_slice(&length.to_be_bytes());
        Some(out)
    }

    fn kind(&self) -> u8 {
        match self {
            Self::Open(_) => 1,
            Self::Update(_) => 2,
            Self::Notification(_) => 3,
            Self::Keepalive => 4,
            Self::Refresh(_) => 5,
        }
    }
}

fn refresh(mut body: Reader<'_>) -> Result<Option<Family>, DecodeError> {
    let (afi, _, safi) = (body.u16()?, body.u8()?, body.u8()?);
    Ok(family(afi, safi))
}

/// Addresses of one host, by the numbers of their kind. Others are none of ours.
pub(crate) fn family(afi: u16, safi: u8) -> Option<Family> {
    match (afi, safi) {
        (1, 1) => Some(Family::V4),
        (2, 1) => Some(Family::V6),
        _ => None,
    }
}

pub(crate) fn of_family(family: Family) -> (u16, u8) {
    match family {
        Family::V4 => (1, 1),
        Family::V6 => (2, 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_keepalive_is_a_head() {
        let bytes = [&[0xff; 16][..], &[0, 19, 4]].concat();
        assert_eq!(Message::Keepalive.encode().unwrap(), bytes);
        assert_eq!(length(&bytes), Ok(Some(19)));
        assert_eq!(Message::decode(&bytes), Ok(Message::Keepalive));
    }

    #[test]
    fn heads_that_are_none_are_refused_as_soon_as_they_show_it() {
        let check = |bytes: &[u8], expected: Result<Option<usize>, Notification>| {
            assert_eq!(length(bytes).map_err(|it| it.0), expected);
        };
        check(&[], Ok(None));
        check(&[0xff; 18], Ok(None));
        check(b"GET / HTTP/1.1", Err(Notification::NOT_SYNCHRONIZED));
        check(&[&[0xff; 16][..], &[0, 18, 4]].concat(), Err(Notification::BAD_LENGTH));
        check(&[&[0xff; 16][..], &[0x10, 1, 4]].concat(), Err(Notification::BAD_LENGTH));
        check(&[&[0xff; 16][..], &[0x10, 0, 2]].concat(), Ok(Some(4096)));
    }

    #[test]
    fn types_that_nobody_knows_are_named() {
        let bytes = [&[0xff; 16][..], &[0, 19, 9]].concat();
        let told = Message::decode(&bytes).unwrap_err().0;
        assert_eq!(told.to_string(), "bad message type (1/3)");
        assert_eq!(told.data, [9]);
    }

    #[test]
    fn a_refresh_names_its_family() {
        for family in [Some(Family::V4), Some(Family::V6), None] {
            let bytes = Message::Refresh(family).encode().unwrap();
            assert_eq!(Message::decode(&bytes), Ok(Message::Refresh(family)));
        }
    }
}
