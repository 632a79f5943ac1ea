//! Bytes of any kind are refused without a panic; frames are read as they were written.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// A frame with a right check and senseless content: kind, synced, whether it follows the one
/// before, body.
type Senseless = (usize, (u8, u8), bool, Vec<u8>);

fn senseless() -> impl Strategy<Value = Senseless> {
    let body = prop_oneof![
        vec(any::<u8>(), 0..20),
        // Bodies that the log reads itself: what a segment stands for, and where it ended.
        (0..5_u32).prop_map(|it| it.to_le_bytes().to_vec()),
        (0..200_u32, any::<u64>()).prop_map(|(end, chain)| {
            [end.to_le_bytes().to_vec(), chain.to_le_bytes().to_vec()].concat()
        }),
    ];
    (0..7_usize, (0..4_u8, 0..=200_u8), prop::bool::weighted(0.9), body)
}

fn put_senseless(disk: &Simulated, files: &[Vec<Senseless>]) {
    let salt = frame::Salt(0x5eed);
    let mut previous = salt.0;
    for (at, frames) in files.iter().enumerate() {
        let mut content = Vec::new();
        for (kind, (number, offset), follows, body) in frames {
            let synced = Mark { number: u32::from(*number), offset: u32::from(*offset) };
            let named = if *follows { previous } else { 7 };
            previous = frame::encode(&mut content, salt, (Kind::ALL[*kind], body), synced, named);
        }
        disk.put(&segment::name(at as u32 + 1), &content);
    }
}

proptest! {
    #[test]
    fn senseless_frames_are_refused_without_a_panic(files in vec(vec(senseless(), 0..4), 1..4)) {
        let disk = Simulated::new(1);
        put_senseless(&disk, &files);
        if let Ok((mut log, found)) = open(&disk) {
            // What is accepted is a log after all.
            prop_assert_eq!(read(&log), found);
            log.rotate(b"on").unwrap();
        }
    }

    #[test]
    fn every_frame_is_read_as_it_was_written(
        kind in 0..7_usize,
        body in vec(any::<u8>(), 0..3000),
        salt: u64,
        previous: u64,
        (number, offset) in any::<(u32, u32)>(),
    ) {
        let (mut bytes, salt, synced) = (Vec::new(), frame::Salt(salt), Mark { number, offset });
        let check = frame::encode(&mut bytes, salt, (Kind::ALL[kind], &body), synced, previous);
        bytes.extend_from_slice(b"more");
        let header = frame::decode(&bytes, salt).unwrap();
        prop_assert_eq!(&bytes[HEADER_BYTES..header.size()], &body[..]);
        let length = body.len() as u32;
        let expected = frame::Header { kind: Kind::ALL[kind], length, synced, previous, check };
        prop_assert_eq!(header, expected);
    }

    #[test]
    fn garbage_is_refused_without_a_panic(bytes in vec(any::<u8>(), 0..2000), bad: usize, salt: u64) {
        let salt = frame::Salt(salt);
        let _ = frame::decode(&bytes, salt);
        let scanned = scan::scan(&bytes, salt, 0);
        let bad = bad % (bytes.len() + 1);
        for at in [bad, scanned.end] {
            let _ = frame::find_frame(&bytes, salt, at);
            let _ = tail::judge(&bytes, 1, salt, at, Fault::Check);
        }
        let disk = Simulated::new(1);
        disk.put("0000000000000001.log", &bytes);
        prop_assert!(open(&disk).is_err());
    }

    #[test]
    fn a_mutated_log_never_panics_nor_serves_what_was_not_written(
        harms in vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let (disk, records) = closed();
        for (file, at, byte) in harms {
            let files: Vec<(String, Vec<u8>)> = disk.files().into_iter().collect();
            let (name, mut content) = file.get(&files).clone();
            *at.get_mut(&mut content) = byte;
            disk.put(&name, &content);
        }
        if let Ok((_, found)) = open(&disk) {
            prop_assert_eq!(&found, &records[..found.len()].to_vec());
        }
    }
}
