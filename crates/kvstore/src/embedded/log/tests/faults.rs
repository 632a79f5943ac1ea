//! Failed writes and syncs, a full disk, and crashes at every operation.

use bytes::Bytes;

use super::*;
use crate::embedded::disk::simulated;

#[test]
fn a_failed_write_or_sync_stops_writing_until_recovery() {
    use simulated::{EIO, ENOSPC, Fault};
    // Operations: one to open; create, write, sync, rename, sync directory for the first segment;
    // write, sync of a batch.
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
                    Fault::Partial(_) | Fault::Refuse(ENOSPC) => io::ErrorKind::StorageFull,
                    _ => io::Error::from_raw_os_error(EIO).kind(),
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

/// Every crash point of random work. `cargo xtask torture store` has more of them.
#[test]
fn a_crash_at_any_operation_loses_nothing_that_was_synced() {
    if let Err(failure) = torture::run(1, 3000) {
        panic!("{failure}");
    }
}
