//! The checker on histories made by hand: it must accept what could have happened, and find what
//! could not.

use super::{Answer, Call, History, Operation, Violation, check};
use crate::reference::Reference;
use crate::{KeyRange, KeyValue, Op, RangeRequest, RangeResponse, Revision, Txn};

/// Puts `text` ("a=1") as the revision that the store is at afterwards.
fn put(called: u64, answered: u64, text: &str, store: &mut Reference) -> Operation {
    let txn = Txn::of(vec![write(text)]);
    let response = store.txn(&txn).unwrap();
    let answered = Some((answered, Answer::Txn(response)));
    Operation { client: 1, called, answered, call: Call::Txn(txn) }
}

fn write(text: &str) -> Op {
    let (key, value) = text.split_once('=').unwrap();
    Op::put(key.to_owned(), value.to_owned())
}

fn lost(called: u64, text: &str) -> Operation {
    let call = Call::Txn(Txn::of(vec![write(text)]));
    Operation { client: 2, called, answered: None, call }
}

fn get(called: u64, answered: u64, entries: Vec<KeyValue>, revision: u64) -> Operation {
    let request = RangeRequest::latest(KeyRange::prefix(b""));
    let count = entries.len() as u64;
    let revision = Revision(revision);
    let response = RangeResponse { entries, has_more: false, count, revision };
    let answered = Some((answered, Answer::Range(response)));
    Operation { client: 3, called, answered, call: Call::Range(request) }
}

fn entries(store: &Reference) -> Vec<KeyValue> {
    store.keys().values().cloned().collect()
}

fn verdict(operations: Vec<Operation>) -> &'static str {
    match check(&History { operations, may_skip: false }) {
        Ok(()) => "fine",
        Err(Violation::RevisionReused { .. }) => "reused",
        Err(Violation::WentBack { .. }) => "went back",
        Err(Violation::WrongAnswer { .. }) => "wrong",
        Err(Violation::NobodyWrote { .. }) => "nobody",
        Err(Violation::Undecided) => "undecided",
    }
}

#[test]
fn what_could_have_happened_is_accepted() {
    let mut store = Reference::default();
    let first = put(0, 9, "a=1", &mut store);
    let between = entries(&store);
    let second = put(2, 3, "a=2", &mut store);
    // Concurrent with both: may see either, and nothing at all.
    for seen in [get(1, 8, vec![], 1), get(1, 8, between, 2), get(1, 8, entries(&store), 3)] {
        assert_eq!(verdict(vec![first.clone(), second.clone(), seen]), "fine");
    }
}

#[test]
fn a_lost_write_is_found() {
    let mut store = Reference::default();
    let operations = vec![put(0, 1, "a=1", &mut store), get(2, 3, vec![], 2)];
    assert_eq!(verdict(operations), "wrong");
    let other = put(4, 5, "b=1", &mut store);
    let mut shown = entries(&store);
    shown.retain(|it| it.key == "b");
    let acknowledged = put(0, 1, "a=1", &mut Reference::default());
    assert_eq!(verdict(vec![acknowledged, other, get(6, 7, shown, 3)]), "wrong");
}

#[test]
fn a_stale_read_is_found() {
    let mut store = Reference::default();
    let first = put(0, 1, "a=1", &mut store);
    let old = entries(&store);
    let second = put(2, 3, "a=2", &mut store);
    assert_eq!(verdict(vec![first, second, get(4, 5, old, 2)]), "went back");
}

#[test]
fn a_read_of_what_was_not_yet_written_is_found() {
    let mut store = Reference::default();
    let write = put(2, 3, "a=1", &mut store);
    assert_eq!(verdict(vec![get(0, 1, entries(&store), 2), write]), "went back");
}

#[test]
fn a_revision_given_twice_is_found() {
    let first = put(0, 9, "a=1", &mut Reference::default());
    let second = put(1, 8, "b=1", &mut Reference::default());
    assert_eq!(verdict(vec![first, second]), "reused");
}

#[test]
fn a_write_without_an_answer_may_have_happened_or_not() {
    let mut store = Reference::default();
    let first = put(0, 1, "a=1", &mut store);
    let unknown = lost(2, "a=2");
    assert_eq!(
        verdict(vec![first.clone(), unknown.clone(), get(3, 4, entries(&store), 2)]),
        "fine"
    );
    put(0, 0, "a=2", &mut store);
    let seen = get(3, 4, entries(&store), 3);
    assert_eq!(verdict(vec![first.clone(), unknown.clone(), seen.clone()]), "fine");
    // It happens once at most, even if it is called later than it is seen.
    assert_eq!(verdict(vec![first.clone(), seen.clone()]), "nobody");
    assert_eq!(verdict(vec![first, lost(5, "a=2"), seen]), "nobody");
}

#[test]
fn the_right_one_of_many_writes_without_an_answer_is_found() {
    let mut store = Reference::default();
    let mut operations = vec![];
    for n in 0..12 {
        operations.push(lost(n, &format!("a={n}")));
    }
    // Seen at the end only: 7 last, and nine others somewhere before it.
    for n in [0, 1, 2, 3, 4, 5, 8, 9, 10, 7] {
        put(0, 0, &format!("a={n}"), &mut store);
    }
    operations.push(get(20, 21, entries(&store), 11));
    assert_eq!(verdict(operations.clone()), "fine");
    let mut wrong = entries(&store);
    wrong[0].version = 9;
    operations.push(get(22, 23, wrong, 11));
    assert_ne!(verdict(operations), "fine");
}

#[test]
fn a_skipped_revision_is_accepted_only_where_it_may_be() {
    let mut store = Reference::default();
    put(0, 0, "a=1", &mut store);
    let mut later = put(0, 1, "b=1", &mut store);
    later.called = 0;
    let history = |may_skip| History { operations: vec![later.clone()], may_skip };
    assert!(check(&history(false)).is_err());
    assert!(check(&history(true)).is_ok());
}
