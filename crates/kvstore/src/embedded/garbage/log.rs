//! Frames and segments. The fuzzer is helped over the checks, which it could never guess.

use std::sync::Arc;

use crate::embedded::disk::Simulated;
use crate::embedded::log::frame::{self, HEADER_BYTES, Kind, Mark, Salt};
use crate::embedded::log::{Fault, Log, Options, scan, tail};

const SALT: u64 = 0x5eed;

/// One frame: refused, or exactly what encoding it gives again. And the judgement of a bad end.
pub fn frame(bytes: &[u8]) {
    // Without knowing the salt hardly any bytes would be a frame: one is made to fit.
    let mut fitted = bytes.to_vec();
    let size = frame::length(bytes).map_or(0, |it| HEADER_BYTES + it);
    let salt = match frame::check_of(bytes.get(..size).unwrap_or_default()) {
        Some(unsalted) => Salt(unsalted ^ u64::from_le_bytes([bytes[0]; 8])),
        None => Salt(0),
    };
    if let Some(first) = fitted.first().copied() {
        fitted.iter_mut().take(8).for_each(|it| *it = first);
    }
    if let Ok(header) = frame::decode(&fitted, salt) {
        let body = &fitted[HEADER_BYTES..header.size()];
        let mut again = Vec::new();
        frame::encode(&mut again, salt, (header.kind, body), header.synced, header.previous);
        // The guard and the version are not checked when a frame is read where it is expected.
        assert_eq!(again[HEADER_BYTES..], fitted[HEADER_BYTES..header.size()]);
    }
    let scanned = scan::scan(&fitted, salt, 0);
    let _ = tail::judge(&fitted, 1, salt, scanned.end, Fault::Check);
    let _ = frame::find_frame(&fitted, salt, scanned.end);
}

/// A whole log. The bytes are instructions that put frames with right checks into files: what is
/// accepted must be readable, and can be gone on with.
pub fn log(bytes: &[u8]) {
    let disk = Simulated::new(1);
    put_files(&disk, bytes);
    let mut n_frames = 0;
    let options = Options { segment_bytes: 4096, threads: 1, salt: SALT };
    let opened = Log::open(Arc::new(disk), &options, &mut |_| {
        n_frames += 1;
        Ok(())
    });
    if let Ok(mut log) = opened {
        let read = log.reader().all().inspect(|it| assert!(it.is_ok())).count();
        assert_eq!(read, n_frames);
        log.rotate(b"on").expect("the disk works");
    }
}

/// Each instruction: kind, two bytes of `synced`, the length of the body, and the body. Others
/// begin a file, or break the chain, or put bytes that are no frame.
fn put_files(disk: &Simulated, mut bytes: &[u8]) {
    let (mut number, mut previous, mut content) = (1_u32, SALT, Vec::new());
    while let [what, segment, offset, length, rest @ ..] = bytes {
        let (body, rest) = rest.split_at(rest.len().min(usize::from(*length)));
        bytes = rest;
        match what {
            0 => {
                disk.put(&format!("{number:016}.log"), &content);
                content.clear();
                number = number.wrapping_add(u32::from(*segment) % 3);
            }
            1 => previous = u64::from(*offset),
            2 => content.extend_from_slice(body),
            _ => {
                let synced = Mark { number: u32::from(*segment), offset: u32::from(*offset) };
                let kind = Kind::ALL[usize::from(*what) % Kind::ALL.len()];
                previous = frame::encode(&mut content, Salt(SALT), (kind, body), synced, previous);
            }
        }
    }
    disk.put(&format!("{number:016}.log"), &content);
}
