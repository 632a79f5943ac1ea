//! Bytes of any kind are refused without a panic; frames are read as they were written.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn every_frame_is_read_as_it_was_written(
        kind in 0..7_usize,
        body in vec(any::<u8>(), 0..3000),
        salt: u64,
        previous: u64,
        (number, offset) in any::<(u32, u32)>(),
    ) {
        const KINDS: [Kind; 7] = [
            Kind::Checkpoint, Kind::Commit, Kind::Compacted, Kind::Ceiling, Kind::Closed, Kind::Joined, Kind::Sealed,
        ];
        let (mut bytes, salt, synced) = (Vec::new(), frame::Salt(salt), Mark { number, offset });
        let check = frame::encode(&mut bytes, salt, (KINDS[kind], &body), synced, previous);
        bytes.extend_from_slice(b"more");
        let header = frame::decode(&bytes, salt).unwrap();
        prop_assert_eq!(&bytes[HEADER_BYTES..header.size()], &body[..]);
        let length = body.len() as u32;
        let expected = frame::Header { kind: KINDS[kind], length, synced, previous, check };
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
