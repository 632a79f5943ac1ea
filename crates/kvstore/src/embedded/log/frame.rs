//! The frame: how one record lies in a segment, its check, and the search for frames behind a bad
//! one. Pure.
//!
//! ```text
//! check u64 | length u32 | kind u8 | version u8 | guard u16 | synced segment u32, offset u32 | previous u64 | body
//! ```
//!
//! Numbers are little-endian. `check` is the 64-bit XXH3 of all that follows it, mixed with the
//! store's salt, so that no stored value can pretend to be a frame. `guard` is a short check of the
//! header alone: a search rejects by it cheaply.

use super::error::Fault;

pub const HEADER_BYTES: usize = 32;
/// A longer body is never written, and never believed. One transaction may delete a great many
/// keys: `etcdctl check perf` ends with one that writes 270 MiB. What is claimed is read only as
/// far as the file goes, so a large bound costs nothing.
pub const BODY_BYTES_MAX: usize = 512 << 20;
/// The format of frames that this code writes, and the newest that it reads.
pub const VERSION: u8 = 2;

/// What a body is. The last three are the log's own: they are not given to visitors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// The first frame of a segment: all that is not in commits.
    Checkpoint = 1,
    Commit = 2,
    Compacted = 3,
    Ceiling = 4,
    /// A clean end.
    Closed = 5,
    /// The first frame of a rewritten segment: which segments it stands for.
    Joined = 6,
    /// The last frame of a rewritten segment: the check that the chain goes on from.
    Sealed = 7,
}

/// A point in the log as files have it: the number of a segment and a byte of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    pub number: u32,
    pub offset: u32,
}

/// Mixed into every check of a store: random, chosen when it is made, and the `previous` of its
/// first frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Salt(pub u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub kind: Kind,
    pub length: u32,
    /// The end of what was synced when the frame was written. Damage before it is no torn write.
    pub synced: Mark,
    /// The check of the frame before.
    pub previous: u64,
    pub check: u64,
}

impl Kind {
    pub const ALL: [Self; 7] = [
        Self::Checkpoint,
        Self::Commit,
        Self::Compacted,
        Self::Ceiling,
        Self::Closed,
        Self::Joined,
        Self::Sealed,
    ];

    fn parse(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|it| *it as u8 == byte)
    }

    /// Whether visitors see it.
    pub fn is_record(self) -> bool {
        !matches!(self, Self::Closed | Self::Joined | Self::Sealed)
    }
}

impl Header {
    /// Bytes of the whole frame.
    pub fn size(&self) -> usize {
        HEADER_BYTES + self.length as usize
    }
}

/// Appends a frame to `out` and returns its check. The body must not be longer than
/// `BODY_BYTES_MAX`.
pub fn encode(
    out: &mut Vec<u8>,
    salt: Salt,
    (kind, body): (Kind, &[u8]),
    synced: Mark,
    previous: u64,
) -> u64 {
    debug_assert!(body.len() <= BODY_BYTES_MAX, "the log checks bodies before it encodes them");
    let start = out.len();
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&(body.len() as u32).to_le_bytes());
    out.extend_from_slice(&[kind as u8, VERSION, 0, 0]);
    out.extend_from_slice(&synced.number.to_le_bytes());
    out.extend_from_slice(&synced.offset.to_le_bytes());
    out.extend_from_slice(&previous.to_le_bytes());
    let guard = guard(&out[start..], salt);
    out[start + 14..start + 16].copy_from_slice(&guard.to_le_bytes());
    out.extend_from_slice(body);
    let check = check(&out[start..], salt);
    out[start..start + 8].copy_from_slice(&check.to_le_bytes());
    check
}

/// The frame at the start of `bytes`, verified. Its body is `bytes[HEADER_BYTES..header.size()]`.
pub fn decode(bytes: &[u8], salt: Salt) -> Result<Header, Fault> {
    let length = length(bytes)?;
    let frame = bytes.get(..HEADER_BYTES + length).ok_or(Fault::Cut)?;
    let expected = check(frame, salt);
    if number(frame, 0) != expected {
        return Err(Fault::Check);
    }
    // From here on the bytes are as they were written.
    if frame[13] > VERSION {
        return Err(Fault::Newer { version: frame[13] });
    }
    let kind = Kind::parse(frame[12]).ok_or(Fault::Kind { kind: frame[12] })?;
    let synced = Mark { number: short(frame, 16), offset: short(frame, 20) };
    Ok(Header { kind, length: length as u32, synced, previous: number(frame, 24), check: expected })
}

/// How many bytes of body the header at the start of `bytes` claims; not verified, but within the
/// bound.
pub fn length(bytes: &[u8]) -> Result<usize, Fault> {
    if bytes.len() < HEADER_BYTES {
        return Err(Fault::Cut);
    }
    let length = short(bytes, 8) as usize;
    if length > BODY_BYTES_MAX { Err(Fault::Length) } else { Ok(length) }
}

/// The salt that the first frame of a store tells: it is its own `previous`.
pub fn salt(bytes: &[u8]) -> Result<Salt, Fault> {
    if bytes.len() < HEADER_BYTES { Err(Fault::Cut) } else { Ok(Salt(number(bytes, 24))) }
}

/// The first whole frame at or after `from` which proves that `bytes[bad]` had been synced: it was
/// written after a sync that reached beyond it. `bytes` is the segment of that number.
pub fn find_witness(bytes: &[u8], segment: u32, salt: Salt, bad: usize) -> Option<(usize, Header)> {
    let proves = |at: usize| {
        let header = bytes.get(at..at + HEADER_BYTES)?;
        let synced = short(header, 20) as usize;
        let is_later = short(header, 16) == segment && synced > bad && synced <= at;
        if !is_later || guard(header, salt).to_le_bytes() != header[14..16] {
            return None;
        }
        Some((at, decode(&bytes[at..], salt).ok()?))
    };
    (bad + 1..bytes.len().saturating_sub(HEADER_BYTES - 1)).find_map(proves)
}

/// The first whole frame after `bad`, whatever it proves: where the readable part of a damaged
/// segment goes on.
pub fn find_frame(bytes: &[u8], salt: Salt, bad: usize) -> Option<(usize, Header)> {
    (bad + 1..bytes.len().saturating_sub(HEADER_BYTES - 1)).find_map(|at| {
        let header = &bytes[at..at + HEADER_BYTES];
        let is_likely = guard(header, salt).to_le_bytes() == header[14..16];
        is_likely.then(|| decode(&bytes[at..], salt).ok()).flatten().map(|it| (at, it))
    })
}

/// The check that a frame should have, without the salt; `None` if it has no whole header. For
/// fuzzing.
pub fn check_of(frame: &[u8]) -> Option<u64> {
    (frame.len() >= HEADER_BYTES).then(|| check(frame, Salt(0)))
}

fn check(frame: &[u8], salt: Salt) -> u64 {
    xxhash_rust::xxh3::xxh3_64(&frame[8..]) ^ salt.0
}

/// Of the header without its check and the guard itself. Two bytes of a product are enough to
/// reject by.
fn guard(header: &[u8], salt: Salt) -> u16 {
    let mixed = number(header, 8) & 0x0000_ffff_ffff_ffff;
    let mut hash = salt.0 ^ mixed;
    for word in [number(header, 16), number(header, 24)] {
        hash = (hash.rotate_left(29) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    (hash >> 48) as u16
}

fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn short(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}
