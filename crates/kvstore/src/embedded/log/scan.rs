//! Walks the frames of one segment's bytes and verifies each: its check, and that it follows the
//! one before. Pure.

use super::error::Fault;
use super::frame::{self, Header, Salt};

/// What the bytes of a segment hold, up to the first that is wrong.
#[derive(Debug)]
pub struct Scan {
    /// Where each frame is.
    pub frames: Vec<(u32, Header)>,
    /// The end of the last sound frame, and its check.
    pub end: usize,
    pub check: u64,
    /// What is wrong at `end`; `None`: the bytes end there.
    pub fault: Option<Fault>,
}

/// `previous` is what the first frame must name.
pub fn scan(bytes: &[u8], salt: Salt, previous: u64) -> Scan {
    let mut scan = Scan { frames: Vec::new(), end: 0, check: previous, fault: None };
    while scan.end < bytes.len() {
        match frame::decode(&bytes[scan.end..], salt) {
            Ok(header) if header.previous != scan.check => {
                scan.fault = Some(Fault::Chain);
                break;
            }
            Ok(header) => {
                scan.frames.push((scan.end as u32, header));
                scan.end += header.size();
                scan.check = header.check;
            }
            Err(fault) => {
                scan.fault = Some(fault);
                break;
            }
        }
    }
    scan
}
