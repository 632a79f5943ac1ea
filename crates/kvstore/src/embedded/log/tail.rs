//! Torn or damaged: what a bad frame in the last segment is. Pure.
//!
//! A crash may leave any part of what was not synced, so frames behind a bad one prove nothing by
//! themselves. But each names how far the log had been synced when it was written: one that was
//! written after a sync beyond the bad byte proves damage. So does a frame that would be whole but
//! for one bit, in a sector of which something was written: sectors are written whole.

use super::error::Fault;
use super::frame::{self, HEADER_BYTES, Salt};

const SECTOR: usize = 512;
/// Frames up to this size are searched for a single flipped bit; it takes a hash for each bit of
/// the frame.
const FLIP_BYTES_MAX: usize = 4 << 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// What a crash left of writes that were never synced.
    Torn,
    Damaged(Fault),
}

/// What `fault` at `bad` means in the last segment, which has this number.
pub fn judge(bytes: &[u8], number: u32, salt: Salt, bad: usize, fault: Fault) -> Verdict {
    let is_as_written = matches!(fault, Fault::Chain | Fault::Newer { .. } | Fault::Kind { .. });
    let is_sound = |it: &[u8]| frame::decode(it, salt).is_ok();
    if is_as_written
        || frame::find_witness(bytes, number, salt, bad).is_some()
        || is_one_bit_off(bytes, bad, is_sound)
    {
        return Verdict::Damaged(fault);
    }
    Verdict::Torn
}

/// Whether turning one bit makes the frame at `bad` whole, in a sector that was written that far.
/// (What was not written is zeros, and a frame may have but one bit there.)
fn is_one_bit_off(bytes: &[u8], bad: usize, is_sound: impl Fn(&[u8]) -> bool) -> bool {
    let end = bytes.len().min(bad + HEADER_BYTES + FLIP_BYTES_MAX);
    let mut copy = bytes[bad..end].to_vec();
    // Where the length is what is wrong, the rest is right, and where the frame ends is not known.
    let size = frame::length(&copy).map_or(HEADER_BYTES, |it| HEADER_BYTES + it);
    for at in 0..size.min(copy.len()) {
        let sector_end = ((bad + at) / SECTOR + 1) * SECTOR;
        let written = &bytes[bad + at..sector_end.min(bytes.len())];
        if written.iter().all(|it| *it == 0) {
            continue;
        }
        for bit in 0..8 {
            copy[at] ^= 1 << bit;
            let is_found = is_sound(&copy);
            copy[at] ^= 1 << bit;
            if is_found {
                return true;
            }
        }
    }
    false
}
