//! A whole log from any bytes. They are read as instructions that put frames with right checks into files, so that the fuzzer
//! gets behind the checks: what is accepted must be readable, and can be gone on with.

#![no_main]

use std::sync::Arc;

use kvstore::embedded::disk::Simulated;
use kvstore::embedded::log::frame::{self, Kind, Mark, Salt};
use kvstore::embedded::log::{Log, Options};
use libfuzzer_sys::fuzz_target;

const SALT: u64 = 0x5eed;

fuzz_target!(|bytes: &[u8]| {
    let disk = Simulated::new(1);
    write(&disk, bytes);
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
});

/// Each instruction: kind, two bytes of `synced`, the length of the body, and the body. Others begin a file, or break the chain,
/// or put bytes that are no frame.
fn write(disk: &Simulated, mut bytes: &[u8]) {
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
