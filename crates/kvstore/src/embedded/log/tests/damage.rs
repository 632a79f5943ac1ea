//! Every changed, lost or foreign byte is told, with its place, and is not taken for a torn write.

use std::sync::Arc;

use bytes::Bytes;

use super::*;

#[test]
fn every_flipped_bit_of_a_closed_log_is_found() {
    let (disk, records) = closed();
    assert_eq!(open(&disk).unwrap().1, records);
    let mut n_bits = 0;
    for (name, content) in disk.files() {
        for bit in 0..content.len() * 8 {
            let harmed = disk.copy(bit as u64);
            harmed.flip(&name, bit);
            match open(&harmed) {
                Err(OpenError::Damaged(_)) => n_bits += 1,
                Err(err) => panic!("bit {bit} of {name} is told as {err}"),
                Ok((log, _)) => panic!("bit {bit} of {name} is not found: {:?}", log.opened()),
            }
        }
    }
    assert!(n_bits > 5_000, "{n_bits}");
}

#[test]
fn a_log_cut_anywhere_is_a_prefix_or_damaged() {
    let (disk, records) = closed();
    let files = disk.files();
    let last = files.keys().next_back().unwrap().clone();
    for (name, content) in &files {
        for size in 0..content.len() {
            let cut = disk.copy(size as u64);
            cut.cut_out(name, size..content.len());
            match open(&cut) {
                Err(OpenError::Damaged(damage)) => {
                    // What is missing of a file shows at its end, or in what should follow it.
                    assert!(damage.offset as usize <= size, "{damage}");
                }
                Err(err) => panic!("{err}"),
                Ok((log, found)) => {
                    assert_eq!(*name, last, "a sealed segment was cut to {size} unnoticed");
                    assert!(!log.opened().was_closed);
                    assert_eq!(found, records[..found.len()]);
                }
            }
        }
    }
}

#[test]
fn every_lost_sector_that_was_followed_by_a_sync_is_found() {
    let disk = Simulated::new(1);
    let (mut log, _) = open(&disk).unwrap();
    log.rotate(&[1; 700]).unwrap();
    for size in [100, 600, 1500, 30, 900] {
        log.append(&[(Kind::Commit, &vec![0xaa; size]), (Kind::Commit, &[3])]).unwrap();
        log.sync().unwrap();
    }
    let acknowledged = log.synced().unwrap().offset as usize;
    log.append(&[(Kind::Commit, &[5; 64])]).unwrap();
    log.sync().unwrap();
    drop(log);
    let (name, _) = disk.files().pop_first().unwrap();
    for sector in 0..acknowledged / 512 {
        let harmed = disk.copy(1);
        harmed.zero(&name, sector * 512..(sector + 1) * 512);
        assert!(damage(&harmed).offset < (sector as u64 + 1) * 512);
    }
}

/// Two batches behind the checkpoint, the second one bad. Whether it is torn depends on what had
/// been synced.
#[test]
fn only_what_was_never_synced_is_torn() {
    let check = |syncs: [bool; 3], expected: Result<usize, ()>| {
        let disk = Simulated::new(1);
        let (mut log, _) = open(&disk).unwrap();
        log.rotate(b"checkpoint").unwrap();
        let mut places = Vec::new();
        for is_synced in syncs {
            places.extend(log.append(&[(Kind::Commit, &[7; 40])]).unwrap());
            if is_synced {
                log.sync().unwrap();
            }
        }
        drop(log);
        let at = places[1].offset as usize;
        let (name, _) = disk.files().pop_first().unwrap();
        disk.zero(&name, at + 20..at + 50);
        let found = open(&disk).map(|(log, found)| {
            assert_eq!(log.opened().torn.as_ref().map(|it| it.offset), Some(at as u64));
            found.len()
        });
        assert_eq!(found.map_err(drop), expected, "{syncs:?}");
    };
    check([true, false, false], Ok(2));
    check([true, false, true], Ok(2));
    check([true, true, false], Err(()));
    check([true, true, true], Err(()));
}

#[test]
fn damage_says_where_it_is_and_what_can_be_read_after_it() {
    let (disk, _) = closed();
    let name = "0000000000000004.log";
    disk.zero(name, 50..60);
    let damage = damage(&disk);
    assert_eq!((damage.file.as_str(), damage.offset), (name, 37));
    assert_eq!(damage.next, Some((Kind::Commit, Bytes::from(vec![1; 7]))));
    let text = damage.to_string();
    assert_eq!(text, format!("{name} is damaged at byte 37: the check of a frame does not match"));
}

#[test]
fn a_visitor_that_cannot_understand_a_body_makes_it_damage() {
    let (disk, _) = closed();
    let mut n_seen = 0;
    let opened = Log::open(Arc::new(disk), &options(4096), &mut |_| {
        n_seen += 1;
        if n_seen == 2 { Err("no such field".to_owned()) } else { Ok(()) }
    });
    let Err(OpenError::Damaged(damage)) = opened else { panic!("opened") };
    assert_eq!((damage.offset, damage.fault), (37, Fault::Body { why: "no such field".into() }));
}

#[test]
fn a_missing_segment_is_damage() {
    let (disk, _) = closed();
    let names: Vec<String> = disk.files().into_keys().collect();
    for name in &names[..names.len() - 1] {
        let harmed = disk.copy(1);
        harmed.remove(name).unwrap();
        let damage = damage(&harmed);
        assert!(damage.fault == Fault::Missing || damage.offset == 0, "{damage}");
    }
}

#[test]
fn a_foreign_file_is_left_alone_unless_it_takes_the_place_of_a_segment() {
    let (disk, records) = closed();
    for name in ["lost+found", "7.log", "000000000000000x.log", "notes.new"] {
        disk.put(name, b"not ours");
    }
    assert_eq!(open(&disk).unwrap().1, records);
    assert!(disk.files().contains_key("notes.new"));
    let lone = Simulated::new(1);
    lone.put("0000000000000001.log", &[b'x'; 300]);
    assert_eq!(damage(&lone).offset, 0);
    disk.put("0000000000000004.log", &[b'x'; 300]);
    assert_eq!(damage(&disk).file, "0000000000000004.log");
}

#[test]
fn a_newer_format_is_refused_as_such() {
    for name in ["0000000000000001.log", "0000000000000006.log"] {
        let (disk, _) = closed();
        let content = disk.files().remove(name).unwrap();
        let salt =
            u64::from_le_bytes(disk.files()["0000000000000001.log"][24..32].try_into().unwrap());
        assert_eq!(salt, options(0).salt);
        // The first frame, with another version and its check made right.
        let mut newer = content.clone();
        newer[13] = frame::VERSION + 1;
        let length = frame::length(&newer).unwrap();
        let check = xxhash_rust::xxh3::xxh3_64(&newer[8..HEADER_BYTES + length]) ^ salt;
        newer[..8].copy_from_slice(&check.to_le_bytes());
        disk.put(name, &newer);
        match open(&disk).map(|_| ()) {
            Err(OpenError::Newer { file, version }) => {
                assert_eq!((file.as_str(), version), (name, frame::VERSION + 1));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_stored_value_cannot_pretend_to_be_a_frame() {
    let disk = Simulated::new(1);
    let (mut log, _) = open(&disk).unwrap();
    log.rotate(b"checkpoint").unwrap();
    log.append(&[(Kind::Commit, b"acknowledged")]).unwrap();
    log.sync().unwrap();
    let end = log.synced().unwrap().offset;
    // A frame that claims that all before it was synced, as one could make who does not know the
    // salt.
    let mut value = vec![b'.'; 600];
    let mark = Mark { number: 1, offset: end + 300 };
    frame::encode(&mut value, frame::Salt(0xbad), (Kind::Commit, b"forged"), mark, 7);
    let place = log.append(&[(Kind::Commit, &value)]).unwrap()[0];
    drop(log);
    let (name, _) = disk.files().pop_first().unwrap();
    disk.zero(&name, place.offset as usize..place.offset as usize + 400);
    let (_, found) = open(&disk).unwrap();
    assert_eq!(found.len(), 2);
}

#[test]
fn a_scrub_finds_what_changed_on_the_device() {
    let disk = Simulated::new(1);
    let (mut log, _) = open(&disk).unwrap();
    write_three_segments(&mut log);
    let reader = log.reader();
    let ids: Vec<u32> = reader.segments().iter().map(|it| it.id).collect();
    for (at, name) in disk.files().keys().enumerate() {
        reader.verify(ids[at]).unwrap();
        disk.flip(name, 400);
        assert!(matches!(reader.verify(ids[at]), Err(ReadError::Damaged(_))));
        disk.flip(name, 400);
    }
    disk.set_unreadable(true);
    assert!(matches!(reader.verify(ids[0]), Err(ReadError::Io { .. })));
}
