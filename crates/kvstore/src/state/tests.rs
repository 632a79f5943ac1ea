//! Transactions decided on their own: what they answer and what they would change.

use std::time::Duration;

use super::{Draft, State};
use crate::{
    Compare, Error, KeyRange, LeaseId, Op, OpResult, Put, PutLease, PutValue, RangeRequest,
    Relation, Revision, Target, Txn,
};

fn no_past(_: &RangeRequest, _: Revision) -> Result<crate::RangeResponse, Error> {
    panic!("nothing of the past was asked for")
}

fn apply(state: &mut State, txn: &Txn) -> Result<crate::TxnResponse, Error> {
    let (response, commit) = Draft::new(state).txn(txn, &mut no_past)?;
    if let Some(commit) = commit {
        state.apply(&commit);
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
        let result = apply(&mut State::empty(), &Txn::of(ops.clone()));
        assert!(matches!(result, Err(Error::DuplicateKey { .. })), "{ops:?}: {result:?}");
    }
    let branches = Txn { then: vec![put("a")], otherwise: vec![put("a")], ..Txn::default() };
    assert!(apply(&mut State::empty(), &branches).unwrap().succeeded);
}

#[test]
fn reads_see_the_writes_before_them() {
    let mut state = State::empty();
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
    let mut state = State::empty();
    apply(&mut state, &Txn::of(vec![Op::put("a1", "x")])).unwrap();
    apply(&mut state, &Txn::of(vec![Op::put("a2", "y")])).unwrap();
    let check = |prefix: &str, relation, target, expected| {
        let keys = KeyRange::prefix(prefix.as_bytes());
        let compare = Compare { keys, relation, target };
        let draft = Draft::new(&state);
        assert_eq!(draft.holds(&compare), expected, "{compare:?}");
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
    let mut state = State::empty();
    let grant = Draft::new(&state).grant(lease(7), Duration::from_secs(9)).unwrap();
    state.apply(&grant);
    assert!(matches!(
        Draft::new(&state).grant(lease(7), Duration::from_secs(9)),
        Err(Error::LeaseExists { .. })
    ));
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
    let revoke = Draft::new(&state).revoke(lease(7)).unwrap();
    state.apply(&revoke);
    let left = state.range(&RangeRequest::latest(KeyRange::prefix(b"")));
    assert_eq!(left.entries.iter().map(|it| it.key.clone()).collect::<Vec<_>>(), ["a"]);
    assert_eq!((state.revision(), state.leases().count()), (Revision(4), 0));
}
