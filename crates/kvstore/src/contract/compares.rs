//! Conditions of transactions: every target in every relation, of one key and of many.

use futures_util::future::join_all;

use super::{Rule, Shared, apply, commit, delete, list, present, put, read, text};
use crate::{
    Compare, KeyRange, LeaseId, Op, Put, PutLease, PutValue, Relation, Revision, Target, Txn,
    TxnResponse,
};

pub(super) const RULES: &[Rule] = list![
    a_failed_compare_changes_nothing,
    one_of_many_rivals_wins,
    every_target_compares_in_every_relation,
    a_key_that_is_not_there_compares_as_never_written,
    a_range_compares_if_all_its_keys_do,
];

/// Whether each relation holds, as letters: equal, not equal, less, greater.
async fn check(store: &Shared, keys: KeyRange, target: Target, expected: &str) {
    let relations = [
        (Relation::Equal, 'e'),
        (Relation::NotEqual, 'n'),
        (Relation::Less, 'l'),
        (Relation::Greater, 'g'),
    ];
    let mut found = String::new();
    for (relation, letter) in relations {
        let compare = Compare { keys: keys.clone(), relation, target: target.clone() };
        if apply(store, Txn::when(vec![compare], vec![])).await.succeeded {
            found.push(letter);
        }
    }
    assert_eq!(found, expected, "{target:?} of {keys:?}");
}

async fn a_failed_compare_changes_nothing(store: Shared) {
    commit(&store, vec![put("a", "1")]).await;
    let (a, b) = (b"a".as_ref(), b"b".as_ref());
    let refused = [
        vec![Compare::absent(a)],
        vec![Compare::mod_revision(a, Revision(1))],
        vec![Compare::mod_revision(b, Revision(2))],
        vec![Compare::absent(b), Compare::absent(a)],
    ];
    for compares in refused {
        let txn = Txn::when(compares, vec![put("a", "2"), put("b", "2")]);
        let response = store.txn(txn).await.expect("a refusal is an answer");
        let expected = TxnResponse { revision: Revision(2), succeeded: false, results: vec![] };
        assert_eq!(response, expected);
    }
    let compares = vec![Compare::mod_revision(a, Revision(2)), Compare::absent(b)];
    let response = apply(&store, Txn::when(compares, vec![put("b", "1")])).await;
    assert_eq!((response.succeeded, response.revision), (true, Revision(3)));
}

async fn one_of_many_rivals_wins(store: Shared) {
    let rivals = (0..32).map(|n| {
        let compares = vec![Compare::absent(b"leader")];
        let mine = put(&format!("rival/{n}"), "won");
        store.txn(Txn::when(compares, vec![put("leader", &n.to_string()), mine]))
    });
    let outcomes = join_all(rivals).await;
    let winners: Vec<usize> = outcomes
        .iter()
        .enumerate()
        .filter(|(_, it)| matches!(it, Ok(it) if it.succeeded))
        .map(|(n, _)| n)
        .collect();
    assert_eq!(winners.len(), 1, "{winners:?}");
    let response = read(&store, "rival/", None).await.expect("readable");
    assert_eq!(text(&response.entries), format!("rival/{}=won@2#1", winners[0]));
}

async fn every_target_compares_in_every_relation(store: Shared) {
    commit(&store, vec![put("z", "0")]).await;
    commit(&store, vec![put("a", "m")]).await;
    commit(&store, vec![put("a", "mm")]).await;
    let lease = store.lease_grant(LeaseId::new(70), super::PATIENCE).await.expect("granted");
    let value = PutValue::Kept;
    let bound = Put { key: "a".into(), value, lease: PutLease::Bound(lease) };
    commit(&store, vec![Op::Put(bound)]).await;
    assert_eq!(present(&store).await, "a=mm@5#3 z=0@2#1");
    let a = KeyRange::one(b"a");
    let expected = ["ng", "e", "nl"];
    for (n, expected) in (0..).zip(expected) {
        check(&store, a.clone(), Target::CreateRevision(Revision(2 + n)), expected).await;
        check(&store, a.clone(), Target::ModRevision(Revision(4 + n)), expected).await;
        check(&store, a.clone(), Target::Version(2 + n), expected).await;
        let value = ["m", "mm", "mma"][usize::try_from(n).expect("small")];
        check(&store, a.clone(), Target::Value(value.into()), expected).await;
        let lease = LeaseId::new(69 + i64::try_from(n).expect("small"));
        check(&store, a.clone(), Target::Lease(lease), expected).await;
    }
    check(&store, a, Target::Lease(None), "ng").await;
    check(&store, KeyRange::one(b"z"), Target::Lease(None), "e").await;
}

async fn a_key_that_is_not_there_compares_as_never_written(store: Shared) {
    commit(&store, vec![put("gone", "1")]).await;
    commit(&store, vec![delete("gone")]).await;
    for keys in [KeyRange::one(b"gone"), KeyRange::one(b"never"), KeyRange::prefix(b"g")] {
        for target in [Target::CreateRevision(Revision(0)), Target::ModRevision(Revision(0))] {
            check(&store, keys.clone(), target, "e").await;
        }
        check(&store, keys.clone(), Target::ModRevision(Revision(1)), "nl").await;
        check(&store, keys.clone(), Target::Version(0), "e").await;
        check(&store, keys.clone(), Target::Version(1), "nl").await;
        check(&store, keys.clone(), Target::Lease(None), "e").await;
        check(&store, keys.clone(), Target::Value("".into()), "").await;
        check(&store, keys, Target::Value("1".into()), "").await;
    }
}

async fn a_range_compares_if_all_its_keys_do(store: Shared) {
    commit(&store, vec![put("a1", "x")]).await;
    commit(&store, vec![put("a2", "y"), put("b", "x")]).await;
    commit(&store, vec![put("a1", "y")]).await;
    let a = KeyRange::prefix(b"a");
    check(&store, a.clone(), Target::Value("y".into()), "e").await;
    check(&store, a.clone(), Target::Value("x".into()), "ng").await;
    check(&store, a.clone(), Target::ModRevision(Revision(3)), "").await;
    check(&store, a.clone(), Target::ModRevision(Revision(2)), "ng").await;
    check(&store, a.clone(), Target::ModRevision(Revision(5)), "nl").await;
    check(&store, a.clone(), Target::CreateRevision(Revision(2)), "").await;
    check(&store, a, Target::Version(0), "ng").await;
    check(&store, KeyRange::prefix(b""), Target::Value("y".into()), "").await;
}
