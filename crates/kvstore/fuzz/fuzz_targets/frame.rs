//! One frame from any bytes: refused, or exactly what encoding it gives again. And the judgement of a bad end.

#![no_main]

use kvstore::embedded::log::frame::{self, HEADER_BYTES, Salt};
use kvstore::embedded::log::{Fault, scan, tail};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
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
});
