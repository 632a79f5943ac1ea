//! What is said of routes (RFC 4271, 5; communities by RFC 1997; reflection by RFC 4456).

use std::fmt;
use std::net::Ipv4Addr;

use crate::bytes::{Reader, Short};

pub(super) const ORIGIN: u8 = 1;
pub(super) const AS_PATH: u8 = 2;
pub(super) const NEXT_HOP: u8 = 3;
pub(super) const MED: u8 = 4;
pub(super) const LOCAL_PREF: u8 = 5;
pub(super) const COMMUNITIES: u8 = 8;
pub(super) const ORIGINATOR: u8 = 9;
pub(super) const CLUSTERS: u8 = 10;
pub(super) const REACH: u8 = 14;
pub(super) const UNREACH: u8 = 15;

pub(super) const OPTIONAL: u8 = 0x80;
pub(super) const TRANSITIVE: u8 = 0x40;
const EXTENDED: u8 = 0x10;

const SET: u8 = 1;
const SEQUENCE: u8 = 2;

/// Whence a route is: the less, the better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    #[default]
    Igp,
    Egp,
    Incomplete,
}

/// Through which ASes, the nearest first. Of a set (an aggregate) one is as good as another.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AsPath {
    pub segments: Vec<(bool, Vec<u32>)>,
}

impl AsPath {
    /// Of a route that begins here: nobody, or this AS alone.
    pub fn from_here(own: Option<u32>) -> Self {
        Self { segments: own.map(|it| (false, vec![it])).into_iter().collect() }
    }

    /// A set counts as one (RFC 4271, 9.1.2.2).
    pub fn length(&self) -> usize {
        self.segments.iter().map(|(is_set, all)| if *is_set { 1 } else { all.len() }).sum()
    }

    pub fn contains(&self, wanted: u32) -> bool {
        self.segments.iter().any(|(_, all)| all.contains(&wanted))
    }

    /// The neighbor that it came from, if it left its AS.
    pub fn first(&self) -> Option<u32> {
        self.segments.first().and_then(|(_, all)| all.first()).copied()
    }

    fn decode(mut value: Reader<'_>) -> Result<Self, Short> {
        let mut segments = Vec::new();
        while !value.is_empty() {
            let (kind, count) = (value.u8()?, value.u8()?);
            // Those of a confederation (3, 4) have no place between neighbors of ours.
            if !matches!(kind, SET | SEQUENCE) || count == 0 {
                return Err(Short);
            }
            let mut part = value.part(usize::from(count) * 4)?;
            let all = (0..count).map(|_| part.u32()).collect::<Result<_, _>>()?;
            segments.push((kind == SET, all));
        }
        Ok(Self { segments })
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (is_set, all) in &self.segments {
            // A count is one byte.
            for part in all.chunks(255) {
                out.extend([if *is_set { SET } else { SEQUENCE }, part.len() as u8]);
                out.extend(part.iter().flat_map(|it| it.to_be_bytes()));
            }
        }
        out
    }
}

impl fmt::Display for AsPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers = |all: &[u32]| all.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
        let parts = self.segments.iter().map(|(is_set, all)| match is_set {
            true => format!("{{{}}}", numbers(all)),
            false => numbers(all),
        });
        f.write_str(&parts.collect::<Vec<_>>().join(" "))
    }
}

/// Of all routes of one update, but for their next hop.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attributes {
    pub origin: Origin,
    pub as_path: AsPath,
    /// What a neighboring AS would like: the less, the better.
    pub med: Option<u32>,
    /// What one's own AS would like: the more, the better.
    pub local_preference: Option<u32>,
    pub communities: Vec<u32>,
    /// Who said it first, where a reflector has passed it on.
    pub originator: Option<Ipv4Addr>,
}

/// What of the attributes of an update has come.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub(super) attributes: Attributes,
    pub(super) has_origin: bool,
    pub(super) has_as_path: bool,
    pub(super) next_hop: Option<Ipv4Addr>,
}

impl Seen {
    /// An error costs the routes of the update, not the session (RFC 7606).
    pub(super) fn take(&mut self, kind: u8, flags: u8, mut value: Reader<'_>) -> Result<(), Short> {
        match kind {
            ORIGIN => {
                self.attributes.origin = origin(value.u8()?)?;
                self.has_origin = true;
            }
            AS_PATH => {
                self.attributes.as_path = AsPath::decode(Reader(std::mem::take(&mut value.0)))?;
                self.has_as_path = true;
            }
            NEXT_HOP => self.next_hop = Some(value.u32()?.into()),
            MED => self.attributes.med = Some(value.u32()?),
            LOCAL_PREF => self.attributes.local_preference = Some(value.u32()?),
            COMMUNITIES => {
                while !value.is_empty() {
                    self.attributes.communities.push(value.u32()?);
                }
            }
            ORIGINATOR => self.attributes.originator = Some(value.u32()?.into()),
            // Whoever passes routes on looks at it; nobody does here.
            CLUSTERS => value.0 = &[],
            // What is not known and says that it has to be.
            _ if flags & OPTIONAL == 0 && !is_well_known(kind) => return Err(Short),
            _ => value.0 = &[],
        }
        if value.is_empty() { Ok(()) } else { Err(Short) }
    }
}

/// `ATOMIC_AGGREGATE`, which has nothing to say to whoever passes nothing on.
fn is_well_known(kind: u8) -> bool {
    kind == 6
}

fn origin(number: u8) -> Result<Origin, Short> {
    match number {
        0 => Ok(Origin::Igp),
        1 => Ok(Origin::Egp),
        2 => Ok(Origin::Incomplete),
        _ => Err(Short),
    }
}

impl Attributes {
    pub(super) fn encode(&self, next_hop: Option<Ipv4Addr>, out: &mut Vec<u8>) {
        put(ORIGIN, TRANSITIVE, &[self.origin as u8], out);
        put(AS_PATH, TRANSITIVE, &self.as_path.encode(), out);
        if let Some(it) = next_hop {
            put(NEXT_HOP, TRANSITIVE, &it.octets(), out);
        }
        if let Some(it) = self.med {
            put(MED, OPTIONAL, &it.to_be_bytes(), out);
        }
        if let Some(it) = self.local_preference {
            put(LOCAL_PREF, TRANSITIVE, &it.to_be_bytes(), out);
        }
        if !self.communities.is_empty() {
            let all: Vec<u8> = self.communities.iter().flat_map(|it| it.to_be_bytes()).collect();
            put(COMMUNITIES, OPTIONAL | TRANSITIVE, &all, out);
        }
        if let Some(it) = self.originator {
            put(ORIGINATOR, OPTIONAL, &it.octets(), out);
        }
    }
}

/// Longer ones than a message make a message that is too long, which is refused as a whole.
pub(super) fn put(kind: u8, flags: u8, value: &[u8], out: &mut Vec<u8>) {
    match u8::try_from(value.len()) {
        Ok(length) => out.extend([flags, kind, length]),
        Err(_) => {
            let length = u16::try_from(value.len()).unwrap_or(u16::MAX);
            out.extend([flags | EXTENDED, kind]);
            out.extend(length.to_be_bytes());
        }
    }
    out.extend(value);
}

/// Flags, type and value of the next one.
pub(super) fn next<'a>(all: &mut Reader<'a>) -> Result<(u8, u8, Reader<'a>), Short> {
    let (flags, kind) = (all.u8()?, all.u8()?);
    let length = if flags & EXTENDED == 0 { all.u8()?.into() } else { usize::from(all.u16()?) };
    Ok((flags, kind, all.part(length)?))
}
