//! Transactions decided on their own: what they answer and what they would change.

use std::sync::Arc;
use std::time::Duration;

use super::{Drafted, Refused, State, Unread};
use crate::{
    Compare, Error, KeyRange, LeaseId, Op, OpResult, Put, PutLease, PutValue, RangeRequest,
    Relation, Revision, Target, Txn,
};

fn no_past(_: &RangeRequest, _: Revision) -> Result<crate::RangeResponse, Error> {
    panic!("nothing of the past was asked for")
}

fn apply(state: &mut State, txn: &Txn) -> Result<crate::TxnResponse, Error> {
    let decided = Drafted::new(state).on(state).txn(txn, &mut no_past);
    let (response, commit) = decided.map_err(|it| match it {
        Refused::For(error) => error,
        Refused::Unread(unread) => panic!("all is in memory, but not {unread:?}"),
    })?;
    if let Some(commit) = commit {
        state.apply(&Arc::new(commit), |_, _| {});
    }
    Ok(response)
}

fn lease(id: i64) -> LeaseId {
    LeaseId::new(id).unwrap()
}

#[test]
fn a_transaction_writes_no_key_twice() {
    let put = |key: &'static str| Op::put(key, "1");
    let nested = |ops| Op::Txn(Txn::of(ops));
    for ops in [
        vec![put("a"), put("a")],
        vec![put("a"), Op::delete(b"a")],
        vec![Op::Delete(KeyRange::prefix(b"")), put("a")],
        vec![put("a"), nested(vec![put("a")])],
        vec![nested(vec![put("a")]), nested(vec![Op::delete(b"a")])],
    ] {
        let result = apply(&mut State::empty(usize::MAX), &Txn::of(ops.clone()));
        assert!(matches!(result, Err(Error::DuplicateKey { .. })), "{ops:?}: {result:?}");
    }
    let branches = Txn { then: vec![put("a")], otherwise: vec![put("a")], ..Txn::default() };
    assert!(apply(&mut State::empty(usize::MAX), &branches).unwrap().succeeded);
}

#[test]
fn reads_see_the_writes_before_them() {
    let mut state = State::empty(usize::MAX);
    apply(&mut state, &Txn::of(vec![Op::put("a", "1"), Op::put("b", "1")])).unwrap();
    let all = || Op::Range(RangeRequest::latest(KeyRange::prefix(b"")));
    let then = vec![all(), Op::put("c", "1"), Op::delete(b"a"), all()];
    let response = apply(&mut state, &Txn::of(then)).unwrap();
    let keys = |n: usize| match &response.results[n] {
        OpResult::Range(it) => it.entries.iter().map(|it| it.key.clone()).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(keys(0), ["a", "b"]);
    assert_eq!(keys(3), ["b", "c"]);
    assert_eq!((response.revision, state.revision()), (Revision(3), Revision(3)));
}

#[test]
fn compares_hold_for_every_key_of_their_range() {
    let mut state = State::empty(usize::MAX);
    apply(&mut state, &Txn::of(vec![Op::put("a1", "x")])).unwrap();
    apply(&mut state, &Txn::of(vec![Op::put("a2", "y")])).unwrap();
    let mut check = |prefix: &str, relation, target, expected| {
        let keys = KeyRange::prefix(prefix.as_bytes());
        let txn = Txn::when(vec![Compare { keys, relation, target }], vec![]);
        assert_eq!(apply(&mut state, &txn).unwrap().succeeded, expected, "{txn:?}");
    };
    check("a", Relation::Greater, Target::ModRevision(Revision(1)), true);
    check("a", Relation::Greater, Target::ModRevision(Revision(2)), false);
    check("a", Relation::Equal, Target::Version(1), true);
    check("a", Relation::Less, Target::Value("z".into()), true);
    check("a", Relation::NotEqual, Target::Value("y".into()), false);
    check("b", Relation::Equal, Target::ModRevision(Revision(0)), true);
    check("b", Relation::NotEqual, Target::Value("y".into()), false);
    check("a", Relation::Equal, Target::Lease(None), true);
}

#[test]
fn keys_go_with_their_lease() {
    let mut state = State::empty(usize::MAX);
    let grant =
        |state: &State| Drafted::new(state).on(state).grant(lease(7), Duration::from_secs(9));
    let granted = grant(&state).unwrap();
    state.apply(&Arc::new(granted), |_, _| {});
    assert!(matches!(grant(&state), Err(Error::LeaseExists { .. })));
    let bound = |key: &'static str, lease| {
        let value = PutValue::Bytes("1".into());
        Op::Put(Put { key: key.into(), value, lease })
    };
    let with = PutLease::Bound(lease(7));
    apply(&mut state, &Txn::of(vec![bound("a", with), bound("b", with), bound("c", with)]))
        .unwrap();
    apply(&mut state, &Txn::of(vec![bound("a", PutLease::None), bound("b", PutLease::Kept)]))
        .unwrap();
    let missing = Txn::of(vec![bound("d", PutLease::Bound(lease(8)))]);
    assert!(matches!(apply(&mut state, &missing), Err(Error::LeaseNotFound { .. })));
    let revoke = Drafted::new(&state).on(&state).revoke(lease(7)).unwrap();
    state.apply(&Arc::new(revoke), |_, _| {});
    let left: Vec<&[u8]> = state.entries(&KeyRange::prefix(b"")).map(|it| it.0).collect();
    assert_eq!(left, [b"a"]);
    assert_eq!((state.revision(), state.leases().count()), (Revision(4), 0));
}

/// A state with `a` and `b`, of which no value is in memory.
fn forgetful() -> State {
    let mut state = State::empty(0);
    for key in ["a", "b"] {
        apply(&mut state, &Txn::of(vec![Op::put(key, "1")])).unwrap();
    }
    state.trim(None);
    state
}

/// What has to be read before the transaction can be decided, in turn: `a2` is what `a` became at
/// revision 2.
fn reads(txn: &Txn) -> Vec<String> {
    let (state, mut rounds) = (forgetful(), Vec::new());
    let mut drafted = Drafted::new(&state);
    while let Err(refused) = drafted.on(&state).txn(txn, &mut no_past) {
        let Refused::Unread(unread) = refused else { panic!("{refused:?}") };
        let text = |it: &Unread| format!("{}{}", String::from_utf8_lossy(&it.key), it.revision.0);
        rounds.push(unread.iter().map(text).collect::<Vec<_>>().join(" "));
        unread.into_iter().for_each(|it| drafted.note_read(it, Ok("1".into())));
    }
    rounds
}

#[test]
fn only_values_that_somebody_wants_are_read() {
    let check = |txn: Txn, expected: &[&str]| assert_eq!(reads(&txn), expected, "{txn:?}");
    let all = || KeyRange::prefix(b"");
    let kept = |key: &'static str| {
        Op::Put(Put { key: key.into(), value: PutValue::Kept, lease: PutLease::None })
    };
    check(Txn::of(vec![Op::put("a", "2")]), &["a2"]);
    check(Txn::of(vec![Op::put("a", "2")]).without_previous_values(), &[]);
    check(Txn::of(vec![Op::put("c", "2")]), &[]);
    check(Txn::of(vec![Op::Delete(all())]), &["a2 b3"]);
    check(Txn::of(vec![Op::Delete(all())]).without_previous_values(), &[]);
    check(Txn::of(vec![kept("b")]).without_previous_values(), &["b3"]);
    let range = |limit| Op::Range(RangeRequest::latest(all()).limit(limit));
    check(Txn::of(vec![range(0)]), &["a2 b3"]);
    check(Txn::of(vec![range(1)]), &["a2"]);
    // What an earlier operation wrote is known, and what it deleted is not asked for.
    check(Txn::of(vec![Op::delete(b"a"), range(1)]).without_previous_values(), &["b3"]);
    check(Txn::of(vec![Op::put("a", "2"), range(0)]).without_previous_values(), &["b3"]);
    // The branch is known when the values of the compare are.
    let compare = |value: &'static str| Compare {
        keys: KeyRange::one(b"a"),
        relation: Relation::Equal,
        target: Target::Value(value.into()),
    };
    check(Txn::when(vec![compare("1")], vec![kept("b")]), &["a2", "b3"]);
    check(Txn::when(vec![compare("2")], vec![kept("b")]), &["a2"]);
    check(Txn::when(vec![Compare::absent(b"a")], vec![kept("b")]), &[]);
}

#[test]
fn a_transaction_whose_values_cannot_be_read_leaves_nothing_behind() {
    let state = forgetful();
    let mut drafted = Drafted::new(&state);
    let failing = Txn::of(vec![Op::put("c", "2"), Op::delete(b"a")]);
    let Err(Refused::Unread(unread)) = drafted.on(&state).txn(&failing, &mut no_past) else {
        panic!("the value of a is not in memory")
    };
    unread.into_iter().for_each(|it| drafted.note_read(it, Err(Error::Closed)));
    let refused = drafted.on(&state).txn(&failing, &mut no_past);
    assert!(matches!(refused, Err(Refused::For(Error::Closed))), "{refused:?}");
    let absent = Txn::when(vec![Compare::absent(b"c")], vec![Op::put("c", "3")]);
    let (response, commit) = drafted.on(&state).txn(&absent, &mut no_past).unwrap();
    assert!(response.succeeded);
    assert_eq!(commit.unwrap().revision, state.revision().next());
}

#[test]
fn what_was_before_is_told_as_lacking_when_it_was_not_read() {
    let state = forgetful();
    let commit = |txn: Txn| {
        let mut drafted = Drafted::new(&state);
        drafted.on(&state).txn(&txn, &mut no_past).unwrap().1.unwrap()
    };
    let blind = commit(Txn::of(vec![Op::put("a", "2")]).without_previous_values());
    assert!(blind.lacks_previous);
    assert_eq!(blind.events[0].previous.as_ref().unwrap().mod_revision, Revision(2));
    assert!(!commit(Txn::of(vec![Op::put("c", "2")])).lacks_previous);
}
