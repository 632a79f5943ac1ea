//! The laws of the log: what was synced is there, damage is told, crashes lose nothing but what was
//! not synced.

mod append;
mod damage;
mod faults;
mod garbage;
mod rewriting;

use std::sync::Arc;

use bytes::Bytes;

use super::*;
use crate::embedded::disk::{Disk, Simulated};

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
