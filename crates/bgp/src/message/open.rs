//! How a session begins: who somebody is and what he can (RFC 4271, 4.2; capabilities by RFC 5492).

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use stdx::Family;

use super::{DecodeError, Notification, family, of_family};
use crate::bytes::{Reader, Short};

/// In place of an AS that does not fit two bytes (RFC 6793).
const AS_TRANS: u16 = 23_456;
const PARAMETER_CAPABILITIES: u8 = 2;
const MULTIPROTOCOL: u8 = 1;
const ROUTE_REFRESH: u8 = 2;
const GRACEFUL_RESTART: u8 = 64;
const FOUR_OCTET_AS: u8 = 65;
const RESTARTED: u16 = 0x8000;
const SECONDS: u16 = 0x0fff;
const FORWARDS: u8 = 0x80;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    /// As it is in the message: of two bytes.
    pub short_as: u16,
    /// In seconds; 0: no keepalives.
    pub hold_time: u16,
    pub identifier: Ipv4Addr,
    pub capabilities: Vec<Capability>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Capability {
    /// Routes of this family.
    Family(Family),
    RouteRefresh,
    FourOctetAs(u32),
    GracefulRestart(GracefulRestart),
    /// Anything else is no matter of ours.
    Other(u8),
}

/// RFC 4724.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GracefulRestart {
    /// Whoever says it has just started, and waits to hear everything again.
    pub has_restarted: bool,
    /// For so long its routes are kept while it is away. Less than 4,096 s.
    pub time: Duration,
    /// Of these families it says when it has said all; `true`: packets went on while it was away.
    pub families: BTreeMap<Family, bool>,
}

impl Open {
    pub fn new(own_as: u32, hold_time: u16, identifier: Ipv4Addr) -> Self {
        let short_as = u16::try_from(own_as).unwrap_or(AS_TRANS);
        let capabilities = vec![Capability::RouteRefresh, Capability::FourOctetAs(own_as)];
        Self { short_as, hold_time, identifier, capabilities }
    }

    /// `None`: it knows only those of two bytes.
    pub fn own_as(&self) -> Option<u32> {
        self.capabilities.iter().find_map(|it| match it {
            Capability::FourOctetAs(own) => Some(*own),
            _ => None,
        })
    }

    /// Who says nothing speaks of IPv4.
    pub fn families(&self) -> Vec<Family> {
        let named = self.capabilities.iter().filter_map(|it| match it {
            Capability::Family(family) => Some(*family),
            _ => None,
        });
        let named: Vec<Family> = named.collect();
        if named.is_empty() { vec![Family::V4] } else { named }
    }

    pub fn graceful_restart(&self) -> Option<&GracefulRestart> {
        self.capabilities.iter().find_map(|it| match it {
            Capability::GracefulRestart(restart) => Some(restart),
            _ => None,
        })
    }

    pub(super) fn decode(mut body: Reader<'_>) -> Result<Self, DecodeError> {
        if body.u8()? != 4 {
            return Err(DecodeError(Notification::bad_version()));
        }
        let (short_as, hold_time) = (body.u16()?, body.u16()?);
        let identifier = Ipv4Addr::from(body.u32()?);
        let length = body.u8()?;
        let mut parameters = body.part(length.into())?;
        if !body.is_empty() {
            return Err(DecodeError(Notification::BAD_LENGTH));
        }
        let mut capabilities = Vec::new();
        let malformed =
            |_: Short| DecodeError(Notification { subcode: 0, ..Notification::BAD_PARAMETER });
        while !parameters.is_empty() {
            let kind = parameters.u8().map_err(malformed)?;
            let length = parameters.u8().map_err(malformed)?;
            let value = parameters.part(length.into()).map_err(malformed)?;
            if kind != PARAMETER_CAPABILITIES {
                return Err(DecodeError(Notification::BAD_PARAMETER));
            }
            decode_capabilities(value, &mut capabilities).map_err(malformed)?;
        }
        Ok(Self { short_as, hold_time, identifier, capabilities })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.push(4);
        out.extend(self.short_as.to_be_bytes());
        out.extend(self.hold_time.to_be_bytes());
        out.extend(self.identifier.octets());
        let mut all = Vec::new();
        for capability in &self.capabilities {
            let (code, value) = capability.encode();
            all.extend([code, short(value.len())]);
            all.extend(value);
        }
        if all.is_empty() {
            out.push(0);
        } else {
            out.extend([short(all.len() + 2), PARAMETER_CAPABILITIES, short(all.len())]);
            out.extend(all);
        }
    }
}

/// What is offered here is some dozens of bytes.
fn short(length: usize) -> u8 {
    u8::try_from(length).expect("what is said of oneself fits")
}

fn decode_capabilities(mut all: Reader<'_>, into: &mut Vec<Capability>) -> Result<(), Short> {
    while !all.is_empty() {
        let (code, length) = (all.u8()?, all.u8()?);
        let mut value = all.part(length.into())?;
        into.push(match code {
            MULTIPROTOCOL => {
                let (afi, _, safi) = (value.u16()?, value.u8()?, value.u8()?);
                family(afi, safi).map_or(Capability::Other(code), Capability::Family)
            }
            ROUTE_REFRESH => Capability::RouteRefresh,
            FOUR_OCTET_AS => Capability::FourOctetAs(value.u32()?),
            GRACEFUL_RESTART => Capability::GracefulRestart(decode_restart(value)?),
            _ => Capability::Other(code),
        });
    }
    Ok(())
}

fn decode_restart(mut value: Reader<'_>) -> Result<GracefulRestart, Short> {
    let head = value.u16()?;
    let mut families = BTreeMap::new();
    while !value.is_empty() {
        let (afi, safi, flags) = (value.u16()?, value.u8()?, value.u8()?);
        families.extend(family(afi, safi).map(|it| (it, flags & FORWARDS != 0)));
    }
    let time = Duration::from_secs((head & SECONDS).into());
    Ok(GracefulRestart { has_restarted: head & RESTARTED != 0, time, families })
}

impl Capability {
    pub(crate) fn encode(&self) -> (u8, Vec<u8>) {
        match self {
            Self::Family(family) => {
                let (afi, safi) = of_family(*family);
                (MULTIPROTOCOL, [&afi.to_be_bytes()[..], &[0, safi]].concat())
            }
            Self::RouteRefresh => (ROUTE_REFRESH, Vec::new()),
            Self::FourOctetAs(own) => (FOUR_OCTET_AS, own.to_be_bytes().to_vec()),
            Self::GracefulRestart(restart) => (GRACEFUL_RESTART, restart.encode()),
            Self::Other(code) => (*code, Vec::new()),
        }
    }
}

impl GracefulRestart {
    fn encode(&self) -> Vec<u8> {
        let seconds = u16::try_from(self.time.as_secs()).unwrap_or(SECONDS).min(SECONDS);
        let head = if self.has_restarted { seconds | RESTARTED } else { seconds };
        let mut out = head.to_be_bytes().to_vec();
        for (family, forwards) in &self.families {
            let (afi, safi) = of_family(*family);
            out.extend(afi.to_be_bytes());
            out.extend([safi, if *forwards { FORWARDS } else { 0 }]);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::super::Message;
    use super::*;

    fn sample() -> Open {
        let restart = GracefulRestart {
            has_restarted: true,
            time: Duration::from_secs(120),
            families: BTreeMap::from([(Family::V4, true), (Family::V6, false)]),
        };
        let mut open = Open::new(64_512, 90, Ipv4Addr::new(192, 0, 2, 1));
        open.capabilities.extend([
            Capability::Family(Family::V4),
            Capability::Family(Family::V6),
            Capability::GracefulRestart(restart),
        ]);
        open
    }

    #[test]
    fn who_somebody_is_and_what_he_can_is_read_as_it_was_written() {
        let open = sample();
        let bytes = Message::Open(open.clone()).encode().unwrap();
        assert_eq!(Message::decode(&bytes), Ok(Message::Open(open)));
    }

    #[test]
    fn the_bytes_are_those_of_the_rfc() {
        let mut open = Open::new(65_001, 180, Ipv4Addr::new(10, 0, 0, 1));
        open.capabilities = vec![Capability::Family(Family::V4), Capability::FourOctetAs(65_001)];
        let bytes = Message::Open(open).encode().unwrap();
        let expected = [
            &[0xff; 16][..],
            &[0, 43, 1, 4, 0xfd, 0xe9, 0, 180, 10, 0, 0, 1, 14, 2, 12],
            &[1, 4, 0, 1, 0, 1],
            &[65, 4, 0, 0, 0xfd, 0xe9],
        ];
        assert_eq!(bytes, expected.concat());
    }

    #[test]
    fn an_as_of_four_bytes_has_a_stand_in() {
        let open = Open::new(4_200_000_000, 90, Ipv4Addr::LOCALHOST);
        assert_eq!((open.short_as, open.own_as()), (AS_TRANS, Some(4_200_000_000)));
    }

    #[test]
    fn who_names_no_family_speaks_of_the_first() {
        let open = Open::new(1, 90, Ipv4Addr::LOCALHOST);
        assert_eq!(open.families(), [Family::V4]);
        assert_eq!(sample().families(), [Family::V4, Family::V6]);
    }

    #[test]
    fn what_is_wrong_is_told_by_number() {
        let check = |change: &dyn Fn(&mut Vec<u8>), expected: (u8, u8)| {
            let mut bytes = Message::Open(sample()).encode().unwrap();
            change(&mut bytes);
            let told = Message::decode(&bytes).unwrap_err().0;
            assert_eq!((told.code, told.subcode), expected);
        };
        check(&|it| it[19] = 3, (2, 1));
        check(&|it| it[28] += 1, (1, 2));
        check(&|it| it[28] -= 1, (1, 2));
        check(&|it| it[29] = 1, (2, 4));
        check(&|it| it[30] += 1, (2, 0));
        check(&|it| it.truncate(24), (1, 2));
    }
}
