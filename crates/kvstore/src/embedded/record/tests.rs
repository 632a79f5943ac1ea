//! What was rendered parses to the same, and nothing else makes the parsers fall over.

use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;

use super::{
    Checkpoint, EventRecord, HistoryHash, WallTime, check_parsers, parse_commit, parse_revision,
    render_commit, render_kept, render_revision,
};
use crate::state::{Commit, LeaseChange};
use crate::{Event, KeyValue, LeaseId, Revision};

fn entry(value: &'static str, at: u64, lease: i64) -> KeyValue {
    KeyValue {
        key: Bytes::from_static(b"k"),
        value: Bytes::from_static(value.as_bytes()),
        create_revision: Revision(2),
        mod_revision: Revision(at),
        version: 3,
        lease: LeaseId::new(lease),
    }
}

fn commit() -> Commit {
    let event = |value, previous| {
        let key = Bytes::from_static(b"k");
        Event { key, value, previous, revision: Revision(9) }
    };
    let events = vec![
        event(Some(entry("new", 9, 0)), Some(entry("old", 7, 0))),
        event(Some(entry("", 9, -5)), None),
        event(None, Some(entry("x", 2, 0))),
    ];
    let id = LeaseId::new(7).unwrap();
    let leases = vec![
        LeaseChange::Granted { id, ttl: Duration::from_millis(1500) },
        LeaseChange::Revoked { id },
    ];
    Commit { revision: Revision(9), events, leases, lacks_previous: false }
}

#[test]
fn a_transaction_reads_back_as_written() {
    let commit = commit();
    let mut bytes = Vec::new();
    let hash = render_commit(&mut bytes, &commit, WallTime(-3), HistoryHash(5));
    let parsed = parse_commit(&bytes).unwrap();
    assert_eq!((parsed.revision, parsed.time), (Revision(9), WallTime(-3)));
    assert_eq!(parsed.hash, hash);
    assert_eq!(parsed.leases, commit.leases);
    for (record, event) in parsed.events.iter().zip(&commit.events) {
        assert_eq!(*record, EventRecord::of(event));
        assert_eq!(record.event(Revision(9), event.previous.clone()), *event);
        assert_eq!(record.previous, event.previous.as_ref().map(|it| it.mod_revision));
    }
    let mut fewer = Vec::new();
    render_kept(&mut fewer, &parsed, &parsed.events[1..2]);
    let kept = parse_commit(&fewer).unwrap();
    assert_eq!((kept.events, kept.leases), (parsed.events[1..2].to_vec(), vec![]));
    assert_eq!(kept.hash, hash, "it stands for what was, not for what is left");
}

#[test]
fn bytes_that_are_cut_or_longer_are_no_transaction() {
    let mut bytes = Vec::new();
    render_commit(&mut bytes, &commit(), WallTime(0), HistoryHash(0));
    for n in 0..bytes.len() {
        assert_eq!(parse_commit(&bytes[..n]), None, "{n} bytes");
    }
    bytes.push(0);
    assert_eq!(parse_commit(&bytes), None);
}

#[test]
fn a_checkpoint_reads_back_as_written() {
    let lease = |id| (LeaseId::new(id).unwrap(), Duration::from_secs(9));
    let checkpoint = Checkpoint {
        revision: Revision(5),
        oldest: Revision(2),
        ceiling: Revision(100),
        time: WallTime(12),
        hash: HistoryHash(77),
        leases: vec![lease(-1), lease(4)],
    };
    let bytes = checkpoint.render();
    assert_eq!(Checkpoint::parse(&bytes), Some(checkpoint));
    for n in 0..bytes.len() {
        assert_eq!(Checkpoint::parse(&bytes[..n]), None);
    }
    assert_eq!(parse_revision(&render_revision(Revision(7))), Some(Revision(7)));
    assert_eq!(parse_revision(&[0; 7]), None);
}

proptest! {
    #[test]
    fn garbage_is_refused_quietly(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        check_parsers(&bytes);
    }

    #[test]
    fn a_changed_byte_is_refused_or_parses_to_something_else(at in 0usize..200, flip in 1u8..) {
        let mut bytes = Vec::new();
        render_commit(&mut bytes, &commit(), WallTime(0), HistoryHash(0));
        let at = at % bytes.len();
        let before = bytes.clone();
        bytes[at] ^= flip;
        if let Some(parsed) = parse_commit(&bytes) {
            prop_assert_ne!(Some(parsed), parse_commit(&before));
        }
    }
}
