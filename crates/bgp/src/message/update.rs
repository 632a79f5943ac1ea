//! Which ranges can be reached, and how; which no more (RFC 4271, 4.3; other families by RFC 4760).
//!
//! What is wrong with attributes costs the ranges of that update, not the session (RFC 7606): they
//! are taken as withdrawn.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use stdx::{Cidr, Family};

use super::attributes::{self, Attributes, OPTIONAL, REACH, Seen, UNREACH, put};
use super::{DecodeError, HEADER, LENGTH_MAX, Message, Notification, family, of_family};
use crate::bytes::{Reader, Short, put_address, put_range, range_length};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Update {
    pub withdrawn: Vec<Cidr>,
    /// At most one of each family in what is written.
    pub reach: Vec<Reach>,
    /// Of all in `reach`.
    pub attributes: Attributes,
    /// All of this family was said.
    pub end_of: Option<Family>,
    /// It had faulty attributes, so what it would have reached is in `withdrawn`.
    pub is_faulty: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach {
    pub next_hop: IpAddr,
    /// Of the family of the next hop.
    pub ranges: Vec<Cidr>,
}

/// A faulty range leaves open where the next begins: nothing can be made of the rest.
fn no_range(_: Short) -> DecodeError {
    DecodeError(Notification::BAD_RANGE)
}

impl Update {
    pub(super) fn decode(mut body: Reader<'_>) -> Result<Self, DecodeError> {
        let overrun = |_: Short| DecodeError(Notification::BAD_ATTRIBUTES);
        let length = body.u16().map_err(overrun)?;
        let withdrawn = body.part(length.into()).map_err(overrun)?;
        let length = body.u16().map_err(overrun)?;
        let attributes = body.part(length.into()).map_err(overrun)?;
        let ranges = body.ranges(Family::V4).map_err(no_range)?;
        let mut parts = Parts { has_attributes: !attributes.is_empty(), ..Parts::default() };
        parts.withdrawn = withdrawn.ranges(Family::V4).map_err(no_range)?;
        parts.take_all(attributes)?;
        parts.finish(ranges)
    }

    /// `None`: too long, or a next hop of another family than its ranges.
    pub(super) fn encode(&self, out: &mut Vec<u8>) -> Option<()> {
        let of = |family| move |it: &&Cidr| it.family() == family;
        put_counted(out, |out| {
            self.withdrawn.iter().filter(of(Family::V4)).for_each(|it| put_range(*it, out));
        })?;
        let reach = |family| self.reach.iter().find(|it| Family::of(it.next_hop) == family);
        let v4 = reach(Family::V4);
        put_counted(out, |out| {
            let withdrawn: Vec<_> = self.withdrawn.iter().filter(of(Family::V6)).collect();
            if !withdrawn.is_empty() || self.end_of == Some(Family::V6) {
                put_family(UNREACH, Family::V6, out, |value| {
                    withdrawn.iter().for_each(|it| put_range(**it, value));
                });
            }
            if let Some(reach) = reach(Family::V6) {
                put_family(REACH, Family::V6, out, |value| put_reach(reach, value));
            }
            if !self.reach.is_empty() {
                let next_hop = v4.and_then(|it| match it.next_hop {
                    IpAddr::V4(address) => Some(address),
                    IpAddr::V6(_) => None,
                });
                self.attributes.encode(next_hop, out);
            }
        })?;
        v4.iter().flat_map(|it| &it.ranges).for_each(|it| put_range(*it, out));
        let is_of = |it: &Reach| it.ranges.iter().all(|of| of.family() == Family::of(it.next_hop));
        self.reach.iter().all(is_of).then_some(())
    }
}

fn put_counted(out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) -> Option<()> {
    let at = out.len();
    out.extend([0, 0]);
    put(out);
    let length = u16::try_from(out.len() - at - 2).ok()?;
    out[at..at + 2].copy_from_slice(&length.to_be_bytes());
    Some(())
}

fn put_family(kind: u8, family: Family, out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    let (afi, safi) = of_family(family);
    let mut value = [&afi.to_be_bytes()[..], &[safi]].concat();
    fill(&mut value);
    put(kind, OPTIONAL, &value, out);
}

fn put_reach(reach: &Reach, out: &mut Vec<u8>) {
    out.push(Family::of(reach.next_hop).bits() / 8);
    put_address(reach.next_hop, out);
    out.push(0);
    reach.ranges.iter().for_each(|it| put_range(*it, out));
}

/// What of an update was read so far.
#[derive(Debug, Default)]
struct Parts {
    seen: Seen,
    withdrawn: Vec<Cidr>,
    reach: Option<Reach>,
    unreach: Option<Family>,
    has_attributes: bool,
    is_faulty: bool,
}

impl Parts {
    fn take_all(&mut self, mut all: Reader<'_>) -> Result<(), DecodeError> {
        let mut kinds = [false; 256];
        while !all.is_empty() {
            let Ok((flags, kind, value)) = attributes::next(&mut all) else {
                self.is_faulty = true;
                return Ok(());
            };
            let is_again = std::mem::replace(&mut kinds[usize::from(kind)], true);
            match kind {
                REACH | UNREACH if is_again => {
                    return Err(DecodeError(Notification::BAD_ATTRIBUTES));
                }
                REACH => self.take_reach(value)?,
                UNREACH => self.take_unreach(value)?,
                // The first one counts.
                _ if is_again => {}
                _ => self.is_faulty |= self.seen.take(kind, flags, value).is_err(),
            }
        }
        Ok(())
    }

    fn take_reach(&mut self, mut value: Reader<'_>) -> Result<(), DecodeError> {
        let (afi, safi, length) = (value.u16()?, value.u8()?, value.u8()?);
        let mut hops = value.part(length.into()).map_err(no_range)?;
        value.u8().map_err(no_range)?;
        let Some(family) = family(afi, safi) else { return Ok(()) };
        let ranges = value.ranges(family).map_err(no_range)?;
        // Of two the first is global; the second is of the link that both are on.
        match hops.address(family) {
            Ok(next_hop) if matches!(length, 4 | 16 | 32) => {
                self.reach = Some(Reach { next_hop, ranges });
            }
            _ => {
                self.is_faulty = true;
                self.withdrawn.extend(ranges);
            }
        }
        Ok(())
    }

    fn take_unreach(&mut self, mut value: Reader<'_>) -> Result<(), DecodeError> {
        let (afi, safi) = (value.u16()?, value.u8()?);
        let Some(family) = family(afi, safi) else { return Ok(()) };
        let ranges = value.ranges(family).map_err(no_range)?;
        self.unreach = ranges.is_empty().then_some(family);
        self.withdrawn.extend(ranges);
        Ok(())
    }

    fn finish(mut self, ranges: Vec<Cidr>) -> Result<Update, DecodeError> {
        let is_empty = self.withdrawn.is_empty() && self.reach.is_none() && ranges.is_empty();
        let end_of = match (is_empty, self.has_attributes) {
            (true, false) => Some(Family::V4),
            (true, true) => self.unreach,
            (false, _) => None,
        };
        let mut reach = Vec::from_iter(self.reach.take());
        if !ranges.is_empty() {
            match self.seen.next_hop {
                Some(next_hop) => reach.push(Reach { next_hop: next_hop.into(), ranges }),
                None => {
                    self.is_faulty = true;
                    self.withdrawn.extend(ranges);
                }
            }
        }
        let has_all = self.seen.has_origin && self.seen.has_as_path;
        if self.is_faulty || (!reach.is_empty() && !has_all) {
            self.withdrawn.extend(reach.drain(..).flat_map(|it| it.ranges));
            // Where no range was found, which ones are meant is not known.
            if self.withdrawn.is_empty() {
                return Err(DecodeError(Notification::BAD_ATTRIBUTES));
            }
            let withdrawn = self.withdrawn;
            return Ok(Update { withdrawn, is_faulty: true, ..Update::default() });
        }
        let attributes = self.seen.attributes;
        Ok(Update { withdrawn: self.withdrawn, reach, attributes, end_of, is_faulty: false })
    }
}

/// As many messages as it takes. Ranges whose attributes alone fill a message are left out.
pub(crate) fn encode_all(
    withdrawn: &[Cidr],
    reach: &BTreeMap<(Attributes, IpAddr), Vec<Cidr>>,
) -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    for part in parts(withdrawn, LENGTH_MAX - HEADER - FIXED) {
        let update = Update { withdrawn: part.to_vec(), ..Update::default() };
        messages.extend(Message::Update(update).encode());
    }
    for ((attributes, next_hop), ranges) in reach {
        let mut encoded = Vec::new();
        attributes.encode(Some(Ipv4Addr::UNSPECIFIED), &mut encoded);
        let Some(room) = (LENGTH_MAX - HEADER - FIXED).checked_sub(encoded.len()) else { continue };
        for part in parts(ranges, room) {
            let reach = vec![Reach { next_hop: *next_hop, ranges: part.to_vec() }];
            let update = Update { reach, attributes: attributes.clone(), ..Update::default() };
            messages.extend(Message::Update(update).encode());
        }
    }
    messages
}

/// Both counts, the head of one attribute of another family, and a next hop of it.
const FIXED: usize = 4 + 8 + 18;

/// Cut so that each takes at most so many bytes.
fn parts(ranges: &[Cidr], room: usize) -> Vec<&[Cidr]> {
    let mut parts = Vec::new();
    let (mut from, mut taken) = (0, 0);
    for (at, range) in ranges.iter().enumerate() {
        let length = range_length(*range);
        if taken + length > room {
            parts.push(&ranges[from..at]);
            (from, taken) = (at, 0);
        }
        taken += length;
    }
    parts.push(&ranges[from..]);
    parts.retain(|it| !it.is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use super::super::attributes::AsPath;
    use super::*;

    fn ranges(all: &[&str]) -> Vec<Cidr> {
        all.iter().map(|it| it.parse().unwrap()).collect()
    }

    fn sample() -> Update {
        let attributes = Attributes {
            as_path: AsPath {
                segments: vec![(false, vec![65_001, 4_200_000_000]), (true, vec![1])],
            },
            med: Some(5),
            local_preference: Some(100),
            communities: vec![0xffff_ff01],
            originator: Some(Ipv4Addr::new(192, 0, 2, 9)),
            ..Attributes::default()
        };
        let v4 =
            Reach { next_hop: "192.0.2.1".parse().unwrap(), ranges: ranges(&["10.244.1.0/24"]) };
        let v6 =
            Reach { next_hop: "2001:db8::1".parse().unwrap(), ranges: ranges(&["fd00:1::/64"]) };
        let withdrawn = ranges(&["10.9.0.0/16", "fd00:2::/64"]);
        Update { withdrawn, reach: vec![v6, v4], attributes, ..Update::default() }
    }

    fn decode(bytes: &[u8]) -> Result<Update, Notification> {
        match Message::decode(bytes) {
            Ok(Message::Update(update)) => Ok(update),
            Ok(other) => panic!("{other:?}"),
            Err(DecodeError(told)) => Err(told),
        }
    }

    #[test]
    fn both_families_are_read_as_they_were_written() {
        let bytes = Message::Update(sample()).encode().unwrap();
        assert_eq!(decode(&bytes), Ok(sample()));
        assert_eq!(sample().attributes.as_path.to_string(), "65001 4200000000 {1}");
        assert_eq!(sample().attributes.as_path.length(), 3);
    }

    #[test]
    fn the_bytes_are_those_of_the_rfc() {
        let attributes =
            Attributes { as_path: AsPath::from_here(Some(65_001)), ..Attributes::default() };
        let reach =
            Reach { next_hop: "10.0.0.1".parse().unwrap(), ranges: ranges(&["10.244.1.0/24"]) };
        let update = Update { reach: vec![reach], attributes, ..Update::default() };
        let expected = [
            &[0xff; 16][..],
            &[0, 47, 2, 0, 0, 0, 20],
            &[0x40, 1, 1, 0],
            &[0x40, 2, 6, 2, 1, 0, 0, 0xfd, 0xe9],
            &[0x40, 3, 4, 10, 0, 0, 1],
            &[24, 10, 244, 1],
        ];
        assert_eq!(Message::Update(update).encode().unwrap(), expected.concat());
    }

    #[test]
    fn the_end_of_a_family_is_an_update_about_nothing() {
        for family in [Family::V4, Family::V6] {
            let update = Update { end_of: Some(family), ..Update::default() };
            let bytes = Message::Update(update.clone()).encode().unwrap();
            assert_eq!(decode(&bytes), Ok(update));
        }
    }

    /// A message with these attributes and the range 10.0.0.0/8.
    fn check(attributes: &[u8], expected: Result<&str, (u8, u8)>) {
        let length = u16::try_from(attributes.len()).unwrap().to_be_bytes();
        let total = u16::try_from(HEADER + 4 + attributes.len() + 2).unwrap().to_be_bytes();
        let bytes = [&[0xff; 16][..], &total, &[2, 0, 0], &length, attributes, &[8, 10]].concat();
        let found = decode(&bytes).map(|it| {
            let count = it.reach.iter().map(|it| it.ranges.len()).sum::<usize>();
            format!("{} reached, {} withdrawn, faulty {}", count, it.withdrawn.len(), it.is_faulty)
        });
        let expected = expected.map(ToOwned::to_owned);
        assert_eq!(found.map_err(|it| (it.code, it.subcode)), expected);
    }

    #[test]
    fn faulty_attributes_cost_their_routes_and_not_the_session() {
        const GOOD: &[u8] = &[0x40, 1, 1, 0, 0x40, 2, 0, 0x40, 3, 4, 10, 0, 0, 1];
        let with = |more: &[u8]| [GOOD, more].concat();
        let faulty = "0 reached, 1 withdrawn, faulty true";
        check(GOOD, Ok("1 reached, 0 withdrawn, faulty false"));
        // Without a next hop, an origin, a path.
        check(&GOOD[..7], Ok(faulty));
        check(&GOOD[4..], Ok(faulty));
        check(&[&GOOD[..4], &GOOD[7..]].concat(), Ok(faulty));
        // Values that are none, of the wrong length, or cut.
        check(&with(&[0x80, 4, 3, 0, 0, 0]), Ok(faulty));
        check(&with(&[0xc0, 8, 2, 0, 0]), Ok(faulty));
        check(&with(&[0x40, 5, 9, 0]), Ok(faulty));
        check(&[&[0x40, 1, 1, 3], &GOOD[4..]].concat(), Ok(faulty));
        check(&[&[0x40, 2, 3, 2, 1, 0], &GOOD[..4], &GOOD[7..]].concat(), Ok(faulty));
        // The first of two counts, unless it says what is reached.
        check(&with(&[0x40, 1, 1, 9]), Ok("1 reached, 0 withdrawn, faulty false"));
        let unreach = [0x80, 15, 3, 0, 2, 1];
        check(&with(&[unreach, unreach].concat()), Err((3, 1)));
        // Unknown ones that may be passed over, and one that may not.
        check(&with(&[0xc0, 99, 1, 7]), Ok("1 reached, 0 withdrawn, faulty false"));
        check(&with(&[0x40, 99, 1, 7]), Ok(faulty));
    }

    #[test]
    fn ranges_that_are_none_end_the_session() {
        let bytes = [&[0xff; 16][..], &[0, 25, 2, 0, 0, 0, 0, 33, 10]].concat();
        assert_eq!(decode(&bytes).unwrap_err(), Notification::BAD_RANGE);
        let bytes = [&[0xff; 16][..], &[0, 23, 2, 0, 9, 0, 0]].concat();
        assert_eq!(decode(&bytes).unwrap_err(), Notification::BAD_ATTRIBUTES);
    }

    #[test]
    fn what_does_not_fit_one_message_is_said_in_several() {
        let base: Cidr = "10.0.0.0/8".parse().unwrap();
        let all: Vec<Cidr> = (0..5000).map(|n| base.subnet(24, n).unwrap()).collect();
        let base: Cidr = "fd00::/16".parse().unwrap();
        let all6: Vec<Cidr> = (0..3000).map(|n| base.subnet(64, n).unwrap()).collect();
        let key = |hop: &str| (Attributes::default(), hop.parse().unwrap());
        let reach =
            BTreeMap::from([(key("192.0.2.1"), all.clone()), (key("2001:db8::1"), all6.clone())]);
        let messages = encode_all(&all6, &reach);
        assert!(messages.iter().all(|it| it.len() <= LENGTH_MAX));
        let updates: Vec<_> = messages.iter().map(|it| decode(it).unwrap()).collect();
        let said: Vec<Cidr> =
            updates.iter().flat_map(|it| &it.reach).flat_map(|it| it.ranges.clone()).collect();
        assert_eq!(said, [all, all6.clone()].concat());
        let withdrawn: Vec<Cidr> = updates.iter().flat_map(|it| it.withdrawn.clone()).collect();
        assert_eq!(withdrawn, all6);
    }
}
