//! The laws of the log: what was synced is there, damage is told, crashes lose nothing but what was not synced.

use std::sync::Arc;

use bytes::Bytes;

use kvstore::embedded::disk::{Directory, Disk, Simulated, simulated::Operation};
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
    assert!(!operations[n_operations..].contains(&Operation::Write));
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

/// Every crash point of random work. `cargo xtask torture store` has more of them.
#[test]
fn a_crash_at_any_operation_loses_nothing_that_was_synced() {
    if let Err(failure) = torture::run(1, 4000) {
        panic!("{failure}");
    }
}
