//! The laws of the log: what was synced is there, damage is told, crashes lose nothing but what was not synced.

use std::sync::Arc;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;

use kvstore::embedded::disk::{Directory, Disk, Simulated, simulated};
use kvstore::embedded::log::*;

fn options(segment_bytes: u32) -> Options {
    Options { segment_bytes, threads: 2, salt: 0x5eed }
}

type Records = Vec<(Kind, Bytes)>;

fn open(disk: &Simulated) -> Result<(Log, Records), OpenError> {
    open_on(Arc::new(disk.clone()))
}

fn open_on(disk: Arc<dyn Disk>) -> Result<(Log, Records), OpenError> {
    let mut records = Vec::new();
    let log = Log::open(disk, &options(4096), &mut |it| {
        records.push((it.kind, it.body.clone()));
        Ok(())
    })?;
    Ok((log, records))
}

fn read(log: &Log) -> Records {
    log.reader().all().map(|it| it.map(|it| (it.kind, it.body)).unwrap()).collect()
}

/// Three segments: a checkpoint and four commits each, of growing size.
fn write_three_segments(log: &mut Log) -> Records {
    let mut records = Vec::new();
    for segment in 0..3_u8 {
        log.rotate(&[segment; 5]).unwrap();
        records.push((Kind::Checkpoint, Bytes::from(vec![segment; 5])));
        for commit in 0..4_u8 {
            let body = vec![segment * 16 + commit; usize::from(commit) * 7];
            let kind = if commit == 3 { Kind::Compacted } else { Kind::Commit };
            log.append(&[(kind, &body)]).unwrap();
            log.sync().unwrap();
            records.push((kind, Bytes::from(body)));
        }
    }
    records
}

#[test]
fn what_was_written_is_read_again_and_visited_in_order() {
    let disk = Simulated::new(1);
    let (mut log, found) = open(&disk).unwrap();
    assert!(log.is_empty() && found.is_empty());
    let records = write_three_segments(&mut log);
    assert_eq!(read(&log), records);
    let chain = log.chain();
    drop(log);
    let (log, found) = open(&disk).unwrap();
    assert_eq!((found, log.chain()), (records.clone(), chain));
    assert!(!log.opened().was_closed);
    log.close().unwrap();
    let n_operations = disk.n_operations();
    let (log, found) = open(&disk).unwrap();
    assert!(log.opened().was_closed);
    assert_eq!(found, records);
    log.close().unwrap();
    let operations = disk.operations();
    assert!(!operations[n_operations..].contains(&simulated::Operation::Write));
}

#[test]
fn the_real_disk_keeps_it_too() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    let disk = || Arc::new(Directory::open(&path).unwrap());
    let (mut log, _) = open_on(disk()).unwrap();
    let records = write_three_segments(&mut log);
    let places: Vec<Place> = log.reader().all().map(|it| it.unwrap().place).collect();
    for (place, (kind, body)) in places.iter().zip(&records) {
        let frame = log.reader().frame(*place).unwrap();
        assert_eq!((frame.kind, &frame.body), (*kind, body));
    }
    drop(log);
    let (log, found) = open_on(disk()).unwrap();
    assert_eq!(found, records);
    for segment in log.reader().segments() {
        log.reader().verify(segment.id).unwrap();
    }
}

/// A closed log of five segments, of which two were joined and rewritten, and what is in it.
fn closed() -> (Simulated, Records) {
    let disk = Simulated::new(1);
    let (mut log, _) = open(&disk).unwrap();
    let mut records = write_three_segments(&mut log);
    records.extend(write_three_segments(&mut log));
    let reader = log.reader();
    let ids: Vec<u32> = reader.segments().iter().map(|it| it.id).collect();
    let mut at = 5;
    let mut kept = records[..5].to_vec();
    reader
        .rewrite(&ids[1..3], &mut |frame| {
            assert_eq!((frame.kind, &frame.body), (records[at].0, &records[at].1));
            let is_kept = at % 3 == 0;
            if is_kept {
                kept.push(records[at].clone());
            }
            at += 1;
            is_kept.then(|| frame.body.clone())
        })
        .unwrap();
    kept.extend_from_slice(&records[15..]);
    log.close().unwrap();
    (disk, kept)
}

fn damage(disk: &Simulated) -> Damage {
    match open(disk).map(|(log, found)| (log.opened().clone(), found)) {
        Err(OpenError::Damaged(damage)) => damage,
        other => panic!("not told as damage: {other:?}"),
    }
}

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

/// Two batches behind the checkpoint, the second one bad. Whether it is torn depends on what had been synced.
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
    // A frame that claims that all before it was synced, as one could make who does not know the salt.
    let mut value = vec![b'.'; 600];
    let mark = frame::Mark { number: 1, offset: end + 300 };
    frame::encode(&mut value, frame::Salt(0xbad), (Kind::Commit, b"forged"), mark, 7);
    let place = log.append(&[(Kind::Commit, &value)]).unwrap()[0];
    drop(log);
    let (name, _) = disk.files().pop_first().unwrap();
    disk.zero(&name, place.offset as usize..place.offset as usize + 400);
    let (_, found) = open(&disk).unwrap();
    assert_eq!(found.len(), 2);
}

#[test]
fn a_failed_write_or_sync_stops_writing_until_recovery() {
    use simulated::{EIO, ENOSPC, Fault};
    // Operations: one to open; create, write, sync, rename, sync directory for the first segment; write, sync of a batch.
    for (operation, fault) in [
        (8, Fault::Partial(ENOSPC)),
        (8, Fault::Refuse(EIO)),
        (9, Fault::Refuse(EIO)),
        (9, Fault::Refuse(ENOSPC)),
    ] {
        for seed in 0..20 {
            let disk = Simulated::new(seed);
            disk.fault_at(operation, fault);
            let (mut log, _) = open(&disk).unwrap();
            log.rotate(b"first").unwrap();
            log.append(&[(Kind::Commit, b"kept")]).unwrap();
            log.sync().unwrap();
            let synced = log.synced();
            let lost = log.append(&[(Kind::Commit, &[1; 2000])]).and_then(|_| log.sync());
            assert_eq!(
                lost.unwrap_err().kind(),
                match fault {
                    Fault::Partial(_) | Fault::Refuse(ENOSPC) => std::io::ErrorKind::StorageFull,
                    _ => std::io::Error::from_raw_os_error(EIO).kind(),
                }
            );
            assert!(log.is_failed() && log.synced() == synced);
            assert!(log.append(&[(Kind::Commit, b"refused")]).is_err());
            assert!(log.sync().is_err() && log.rotate(b"refused").is_err());
            disk.set_full(true);
            assert!(log.recover(b"second").is_err());
            assert!(log.is_failed());
            disk.set_full(false);
            log.recover(b"second").unwrap();
            log.append(&[(Kind::Commit, b"after")]).unwrap();
            log.sync().unwrap();
            let expected: Vec<Bytes> =
                ["first", "kept", "second", "after"].map(Bytes::from).to_vec();
            let bodies = |records: Records| records.into_iter().map(|it| it.1).collect::<Vec<_>>();
            assert_eq!(bodies(read(&log)), expected);
            drop(log);
            let (_, found) = open(&disk.crash(seed)).unwrap();
            assert_eq!(bodies(found), expected);
        }
    }
}

/// After a failed sync the pages count as clean: a second sync succeeds and writes nothing.
#[test]
fn opening_does_not_trust_what_a_failed_sync_left_in_the_cache() {
    for seed in 0..50 {
        let disk = Simulated::new(seed);
        disk.fault_at(7, simulated::Fault::Refuse(simulated::EIO));
        let (mut log, _) = open(&disk).unwrap();
        log.rotate(b"first").unwrap();
        log.append(&[(Kind::Commit, &[1; 3000])]).unwrap();
        log.sync().unwrap_err();
        drop(log);
        let (_, found) = open(&disk).unwrap();
        let (_, after_crash) = open(&disk.crash(seed)).unwrap();
        assert_eq!(found, after_crash);
    }
}

#[test]
fn places_of_a_rewritten_segment_are_good_until_they_are_let_go() {
    let disk = Simulated::new(1);
    let (mut log, _) = open(&disk).unwrap();
    write_three_segments(&mut log);
    let reader = log.reader();
    let before: Vec<Frame> = reader.all().map(Result::unwrap).collect();
    let ids: Vec<u32> = reader.segments().iter().map(|it| it.id).collect();
    // A walk that began in the old segment goes on in it, and then in what follows.
    let mut walk = reader.frames(before[1].place);
    assert_eq!(walk.next().unwrap().unwrap().place, before[1].place);
    let rewritten = reader
        .rewrite(&ids[..2], &mut |it| (it.kind == Kind::Commit).then(|| it.body.clone()))
        .unwrap();
    assert_eq!(rewritten.moved.len(), 6);
    for (old, new) in &rewritten.moved {
        let (old, new) = (reader.frame(*old).unwrap(), reader.frame(*new).unwrap());
        assert_eq!((old.kind, old.body), (new.kind, new.body));
    }
    assert_eq!(reader.segments().len(), 2);
    assert!(disk.files().keys().eq(["0000000000000002.log", "0000000000000003.log"]));
    let (old, new) = rewritten.moved[0];
    drop(rewritten);
    assert!(matches!(reader.frame(old), Err(ReadError::Moved)));
    assert!(matches!(reader.frames(old).next(), Some(Err(ReadError::Moved))));
    assert!(reader.frame(new).is_ok());
    let rest: Vec<Place> = walk.map(|it| it.unwrap().place).collect();
    assert_eq!(rest[..3], before[2..5].iter().map(|it| it.place).collect::<Vec<_>>());
    let records = read(&log);
    drop(log);
    assert_eq!(open(&disk).unwrap().1, records);
}

#[test]
fn only_sealed_neighbors_are_joined() {
    let disk = Simulated::new(1);
    let (mut log, _) = open(&disk).unwrap();
    write_three_segments(&mut log);
    let reader = log.reader();
    let ids: Vec<u32> = reader.segments().iter().map(|it| it.id).collect();
    for wrong in [&[][..], &[ids[0], ids[2]], &[ids[1], ids[0]], &ids, &[99]] {
        let result = reader.rewrite(wrong, &mut |it| Some(it.body.clone()));
        assert!(matches!(result, Err(RewriteError::NotNeighbors)), "{wrong:?}");
    }
}

#[test]
fn what_an_interrupted_rewrite_left_is_removed() {
    let (disk, records) = closed();
    let files = disk.files();
    // As if the machine had stopped before the joined ones were removed, and in the next rewrite.
    disk.put("0000000000000002.log", &files["0000000000000001.log"]);
    disk.put("0000000000000004.log.new", b"half a segm");
    let (_, found) = open(&disk).unwrap();
    assert_eq!((found, disk.files()), (records, files));
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

#[test]
fn a_segment_is_left_when_the_next_batch_does_not_fit() {
    let disk = Simulated::new(1);
    let (mut log, _) = open(&disk).unwrap();
    assert!(!log.is_full(1, 10));
    assert!(log.append(&[(Kind::Commit, b"too early")]).is_err());
    log.rotate(b"checkpoint").unwrap();
    // An empty one takes a batch of any size.
    assert!(!log.is_full(1, 1 << 20));
    log.append(&[(Kind::Commit, &vec![1; 1 << 20])]).unwrap();
    assert!(log.is_full(1, 0));
    assert!(!log.is_failed());
    let too_long = vec![0; BODY_BYTES_MAX + 1];
    assert!(log.append(&[(Kind::Commit, &too_long)]).is_err());
    assert!(!log.is_failed());
    log.sync().unwrap();
    assert_eq!(open(&disk).unwrap().1.len(), 2);
}

#[test]
fn a_batch_can_be_appended_while_the_one_before_is_synced() {
    let disk = Simulated::new(1);
    let (mut log, _) = open(&disk).unwrap();
    log.rotate(b"checkpoint").unwrap();
    log.append(&[(Kind::Commit, b"one")]).unwrap();
    let syncing = log.start_sync().unwrap().unwrap();
    let thread = std::thread::spawn(|| syncing.run());
    log.append(&[(Kind::Commit, b"two")]).unwrap();
    log.finish_sync(thread.join().unwrap()).unwrap();
    assert!(log.start_sync().unwrap().is_some());
    log.sync().unwrap();
    assert!(log.start_sync().unwrap().is_none());
    assert_eq!(open(&disk.crash(3)).unwrap().1.len(), 3);
}

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
        let (mut bytes, salt, synced) = (Vec::new(), frame::Salt(salt), frame::Mark { number, offset });
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

/// Every crash point of random work. `cargo xtask torture store` has more of them.
#[test]
fn a_crash_at_any_operation_loses_nothing_that_was_synced() {
    if let Err(failure) = torture::run(1, 4000) {
        panic!("{failure}");
    }
}
