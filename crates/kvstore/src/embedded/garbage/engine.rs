//! A whole store out of a sound log with senseless records: refused, or a store that can be read,
//! watched, written and opened again.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;

use super::Choices;
use crate::embedded::disk::Simulated;
use crate::embedded::log::{Kind, Log, Options};
use crate::embedded::record::{
    Checkpoint, CommitRecord, EventRecord, HistoryHash, NUMBER_MAX, WallTime, render_kept,
    render_revision,
};
use crate::embedded::torture::{Inline, Memory};
use crate::{KeyRange, LeaseId, Op, RangeRequest, Revision, Txn, WatchRequest};

/// Revisions that are looked at.
const LOOKS_MAX: u64 = 40;

/// Little, so that most of what is looked at is read.
const MEMORY: Memory = Memory { ring_commits: 2, value_bytes: 0 };

pub fn engine(bytes: &[u8]) {
    let disk = Simulated::new(1);
    put_log(&disk, Choices(bytes));
    let Ok(mut store) = Inline::open(disk, MEMORY) else { return };
    if store.revision().0 > NUMBER_MAX - 2 {
        // Its revisions are used up: what is written now, the next opening refuses.
        return;
    }
    look(&store);
    // What was before may be in a record that makes no sense.
    let txn = Txn::of(vec![Op::put("a", "on"), Op::delete(b"b")]).without_previous_values();
    let written = store.txn(txn);
    let revision = written.expect("a store that opens can be written").revision;
    look(&store);
    store.compact(revision).expect("it is the last one");
    look(&store);
    let mut again = store.restart();
    assert_eq!(again.revision(), revision);
    let txn = Txn::of(vec![Op::put("c", "on")]).without_previous_values();
    again.txn(txn).expect("it opens again, and can be written");
}

fn put_log(disk: &Simulated, mut choices: Choices<'_>) {
    let opened = Log::open(Arc::new(disk.clone()), &Options::new(7), &mut |_| Ok(()));
    let mut log = opened.unwrap_or_else(|it| panic!("an empty disk: {it}"));
    log.rotate(&checkpoint(&mut choices).render()).expect("the disk works");
    while !choices.is_over() {
        let (kind, body) = match choices.byte() % 8 {
            0 => {
                log.rotate(&checkpoint(&mut choices).render()).expect("the disk works");
                continue;
            }
            1 => (Kind::Compacted, render_revision(Revision(choices.number())).to_vec()),
            2 => (Kind::Ceiling, render_revision(Revision(choices.number())).to_vec()),
            3 => (Kind::Commit, choices.bytes(80).to_vec()),
            _ => (Kind::Commit, commit(&mut choices)),
        };
        log.append(&[(kind, &body)]).expect("the disk works");
    }
    log.sync().expect("the disk works");
}

fn checkpoint(choices: &mut Choices<'_>) -> Checkpoint {
    let lease = |choices: &mut Choices<'_>| {
        let ttl = Duration::from_millis(choices.number());
        LeaseId::new(i64::from(choices.byte())).map(|id| (id, ttl))
    };
    Checkpoint {
        revision: Revision(choices.number()),
        oldest: Revision(choices.number()),
        ceiling: Revision(choices.number()),
        time: WallTime(choices.number().cast_signed()),
        hash: HistoryHash(choices.number()),
        leases: (0..choices.byte() % 3).filter_map(|_| lease(choices)).collect(),
    }
}

fn commit(choices: &mut Choices<'_>) -> Vec<u8> {
    let commit = CommitRecord {
        revision: Revision(choices.number()),
        time: WallTime(choices.number().cast_signed()),
        hash: HistoryHash(choices.number()),
        leases: Vec::new(),
        events: Vec::new(),
    };
    let events: Vec<_> = (0..choices.byte() % 4).map(|_| event(choices)).collect();
    let mut body = Vec::new();
    render_kept(&mut body, &commit, &events);
    body
}

fn event<'a>(choices: &mut Choices<'a>) -> EventRecord<'a> {
    const KEYS: [&[u8]; 5] = [b"a", b"b", b"c", b"", b"\xff"];
    let what = choices.byte();
    EventRecord {
        key: KEYS[usize::from(what % 5)],
        value: (what < 160).then(|| choices.bytes(what % 4)),
        create_revision: Revision(choices.number()),
        version: choices.number(),
        lease: LeaseId::new(i64::from(choices.byte() % 4)),
        previous: Some(choices.number()).filter(|it| *it != 0).map(Revision),
    }
}

/// Answers and errors are both right: the records made no sense.
fn look(store: &Inline) {
    let all = KeyRange::prefix(b"");
    let (oldest, revision) = (store.oldest().0, store.revision().0);
    let near = revision.saturating_sub(LOOKS_MAX / 2);
    let early = (oldest..=revision).take(20);
    let late = (near.max(oldest)..=revision).take(usize::try_from(LOOKS_MAX).unwrap_or(20));
    for at in early.chain(late).chain([0]).map(Revision) {
        let _ = store.range(&RangeRequest::latest(all.clone()).at(at));
        let Ok(mut watch) = store.watch(WatchRequest::new(all.clone(), Some(at))) else { continue };
        // Without history to tell it waits.
        while let Some(Ok(batch)) = watch.next().now_or_never() {
            assert!(batch.revision.0 <= revision);
        }
    }
    let _ = store.range(&RangeRequest::latest(all));
}
