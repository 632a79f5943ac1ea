//! What was appended is there, on either disk, in segments of the right size.

use std::sync::Arc;

use super::*;
use crate::embedded::disk::{Directory, simulated};

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
