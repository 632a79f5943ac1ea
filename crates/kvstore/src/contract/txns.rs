//! Transactions: both branches, nested ones, reads among writes, deletes by range, and what is
//! refused as a whole.

use super::{
    Rule, Shared, apply, bytes, commit, delete, events_text, events_through, get, list, present,
    put, read, results_text, watch,
};
use crate::{
    Compare, Error, KeyRange, LeaseId, Op, PUT_BYTES_MAX, Put, PutLease, PutValue, RangeRequest,
    Revision, TXN_OPS_MAX, Txn,
};

pub(super) const RULES: &[Rule] = list![
    deleting_nothing_commits_nothing,
    the_other_branch_is_taken_when_a_compare_fails,
    operations_answer_one_by_one,
    reads_see_the_writes_before_them,
    reads_in_transactions_may_name_a_revision,
    nested_transactions_decide_on_what_was_before,
    a_range_is_deleted_at_once,
    puts_keep_values,
    a_refused_transaction_changes_nothing,
    too_many_operations_are_refused,
    transactions_that_are_asked_together_are_each_answered,
];

async fn deleting_nothing_commits_nothing(store: Shared) {
    commit(&store, vec![put("a", "1")]).await;
    assert_eq!(commit(&store, vec![delete("x"), delete("y")]).await, Revision(2));
    assert_eq!(commit(&store, vec![]).await, Revision(2));
    assert_eq!(commit(&store, vec![get("")]).await, Revision(2));
    assert_eq!(commit(&store, vec![delete("x"), put("b", "1")]).await, Revision(3));
    let events = events_through(&mut *watch(&store, "", Some(2)).await, Revision(3)).await;
    assert_eq!(events_text(&events), "3:b=>1");
}

async fn the_other_branch_is_taken_when_a_compare_fails(store: Shared) {
    let txn = || Txn {
        compares: vec![Compare::absent(b"a")],
        then: vec![put("a", "then"), put("b", "then")],
        otherwise: vec![put("a", "else"), get("")],
        ..Txn::default()
    };
    let response = apply(&store, txn()).await;
    assert_eq!((response.succeeded, response.revision), (true, Revision(2)));
    assert_eq!(results_text(&response.results), "put() put()");
    let response = apply(&store, txn()).await;
    assert_eq!((response.succeeded, response.revision), (false, Revision(3)));
    let expected = "put(a=then@2#1) get(a=else@3#2 b=then@2#1)";
    assert_eq!(results_text(&response.results), expected);
}

async fn operations_answer_one_by_one(store: Shared) {
    commit(&store, vec![put("a", "1"), put("b", "1"), put("c", "1")]).await;
    let ops = vec![delete("x"), put("a", "2"), delete("b"), get("c"), put("d", "1"), delete("d2")];
    let response = apply(&store, Txn::of(ops)).await;
    let expected = "del() put(a=1@2#1) del(b=1@2#1) get(c=1@2#1) put() del()";
    assert_eq!(results_text(&response.results), expected);
    assert_eq!(response.revision, Revision(3));
}

async fn reads_see_the_writes_before_them(store: Shared) {
    commit(&store, vec![put("a", "1"), put("b", "1")]).await;
    let ops = vec![get(""), put("c", "1"), get(""), delete("a"), put("b", "2"), get("")];
    let response = apply(&store, Txn::of(ops)).await;
    let expected = "get(a=1@2#1 b=1@2#1) put() get(a=1@2#1 b=1@2#1 c=1@3#1) \
                    del(a=1@2#1) put(b=1@2#1) get(b=2@3#2 c=1@3#1)";
    assert_eq!(results_text(&response.results), expected);
    assert_eq!(present(&store).await, "b=2@3#2 c=1@3#1");
}

async fn reads_in_transactions_may_name_a_revision(store: Shared) {
    commit(&store, vec![put("a", "1")]).await;
    commit(&store, vec![put("a", "2")]).await;
    let at =
        |revision| Op::Range(RangeRequest::latest(KeyRange::prefix(b"")).at(Revision(revision)));
    let ops = vec![put("a", "3"), at(2), at(3), get("")];
    let response = apply(&store, Txn::of(ops)).await;
    let expected = "put(a=2@3#2) get(a=1@2#1) get(a=2@3#2) get(a=3@4#3)";
    assert_eq!(results_text(&response.results), expected);
    store.compact(Revision(3)).await.expect("compaction succeeds");
    let gone = store.txn(Txn::of(vec![put("b", "1"), at(2)])).await;
    assert!(matches!(gone, Err(Error::Compacted { .. })), "{gone:?}");
    let future = store.txn(Txn::of(vec![put("b", "1"), at(9)])).await;
    assert!(matches!(future, Err(Error::Future { .. })), "{future:?}");
    assert_eq!(present(&store).await, "a=3@4#3");
    assert_eq!(store.current().await.expect("the store can be asked"), Revision(4));
}

async fn nested_transactions_decide_on_what_was_before(store: Shared) {
    commit(&store, vec![put("a", "1")]).await;
    let nested = |compare, key: &str| {
        let (then, otherwise) = (vec![put(key, "then")], vec![put(key, "else"), get("a")]);
        Op::Txn(Txn { compares: vec![compare], then, otherwise, ..Txn::default() })
    };
    let inner = Op::Txn(Txn::of(vec![nested(Compare::absent(b"b"), "d")]));
    let ops = vec![
        put("a", "2"),
        nested(Compare::mod_revision(b"a", Revision(2)), "b"),
        nested(Compare::absent(b"a"), "c"),
        inner,
    ];
    let response = apply(&store, Txn::of(ops)).await;
    let expected = "put(a=1@2#1) then[put()] else[put() get(a=2@3#2)] then[then[put()]]";
    assert_eq!(results_text(&response.results), expected);
    assert_eq!(response.revision, Revision(3));
    assert_eq!(present(&store).await, "a=2@3#2 b=then@3#1 c=else@3#1 d=then@3#1");
    let events = events_through(&mut *watch(&store, "", Some(2)).await, Revision(3)).await;
    assert_eq!(events.len(), 4, "a transaction is one commit, whatever is in it");
}

async fn a_range_is_deleted_at_once(store: Shared) {
    commit(&store, ["a", "b/1", "b/2", "b/3", "c"].map(|it| put(it, "1")).to_vec()).await;
    let range = |start: &str, end: &str| KeyRange { start: bytes(start), end: bytes(end) };
    let ops = vec![Op::Delete(KeyRange::prefix(b"b/")), Op::Delete(KeyRange::prefix(b"b/1"))];
    let response = apply(&store, Txn::of(ops)).await;
    let expected = "del(b/1=1@2#1 b/2=1@2#1 b/3=1@2#1) del()";
    assert_eq!(results_text(&response.results), expected);
    let events = events_through(&mut *watch(&store, "", Some(2)).await, Revision(3)).await;
    let mut events: Vec<_> = events_text(&events).split(' ').map(str::to_owned).collect();
    events.sort();
    assert_eq!(events, ["3:b/1=1>", "3:b/2=1>", "3:b/3=1>"]);
    assert_eq!(commit(&store, vec![Op::Delete(range("x", "a"))]).await, Revision(3));
    assert_eq!(commit(&store, vec![Op::Delete(range("b", ""))]).await, Revision(4));
    assert_eq!(present(&store).await, "a=1@2#1");
    assert_eq!(commit(&store, vec![Op::Delete(range("", ""))]).await, Revision(5));
    assert_eq!(present(&store).await, "");
}

async fn puts_keep_values(store: Shared) {
    commit(&store, vec![put("a", "1")]).await;
    let kept =
        |key: &str| Op::Put(Put { key: bytes(key), value: PutValue::Kept, lease: PutLease::None });
    let response = apply(&store, Txn::of(vec![kept("a")])).await;
    assert_eq!(results_text(&response.results), "put(a=1@2#1)");
    assert_eq!(present(&store).await, "a=1@3#2");
    let missing = store.txn(Txn::of(vec![put("b", "1"), kept("c")])).await;
    assert!(matches!(missing, Err(Error::KeyNotFound { .. })), "{missing:?}");
    assert_eq!(present(&store).await, "a=1@3#2");
}

async fn a_refused_transaction_changes_nothing(store: Shared) {
    commit(&store, vec![put("a", "1")]).await;
    let nested = |ops| Op::Txn(Txn::of(ops));
    let twice = [
        vec![put("b", "1"), put("b", "2")],
        vec![put("b", "1"), delete("b")],
        vec![delete("b"), put("b", "1")],
        vec![Op::Delete(KeyRange::prefix(b"")), put("b", "1")],
        vec![put("b", "1"), nested(vec![put("b", "1")])],
        vec![nested(vec![put("b", "1")]), nested(vec![put("b", "2")])],
    ];
    for ops in twice {
        let refused = store.txn(Txn::of(ops.clone())).await;
        assert!(matches!(refused, Err(Error::DuplicateKey { .. })), "{ops:?}: {refused:?}");
    }
    let unbound = PutLease::Bound(LeaseId::new(404).expect("not zero"));
    let lost = Put { key: bytes("c"), value: PutValue::Bytes(bytes("1")), lease: unbound };
    let refused = store.txn(Txn::of(vec![put("b", "1"), Op::Put(lost)])).await;
    assert!(matches!(refused, Err(Error::LeaseNotFound { .. })), "{refused:?}");
    let large = Op::put(bytes("b"), vec![0; PUT_BYTES_MAX]);
    let refused = store.txn(Txn::of(vec![put("c", "1"), large])).await;
    assert!(matches!(refused, Err(Error::TooLarge { .. })), "{refused:?}");
    assert_eq!(present(&store).await, "a=1@2#1");
    assert_eq!(store.current().await.expect("the store can be asked"), Revision(2));
    let both = Txn { then: vec![put("b", "1")], otherwise: vec![put("b", "2")], ..Txn::default() };
    assert!(apply(&store, both).await.succeeded, "branches exclude each other");
}

async fn too_many_operations_are_refused(store: Shared) {
    let puts = |n: usize| (0..n).map(|it| put(&format!("{it:03}"), "")).collect::<Vec<_>>();
    let compares = |n: usize| (0..n).map(|_| Compare::absent(b"x")).collect::<Vec<_>>();
    let refused = [
        Txn::of(puts(TXN_OPS_MAX + 1)),
        Txn { otherwise: puts(TXN_OPS_MAX + 1), ..Txn::default() },
        Txn::when(compares(TXN_OPS_MAX + 1), vec![]),
    ];
    for txn in refused {
        let refused = store.txn(txn).await;
        assert!(matches!(refused, Err(Error::TooLarge { .. })), "{refused:?}");
    }
    assert_eq!(store.current().await.expect("the store can be asked"), Revision(1));
    apply(&store, Txn::when(compares(TXN_OPS_MAX), puts(TXN_OPS_MAX))).await;
    let response = read(&store, "", None).await.expect("readable");
    assert_eq!(response.count, TXN_OPS_MAX as u64);
}

/// In whatever order they are decided.
async fn transactions_that_are_asked_together_are_each_answered(store: Shared) {
    assert!(store.txns(Vec::new()).await.is_empty());
    let lease = PutLease::Bound(LeaseId::new(7).expect("not zero"));
    let refused = Op::Put(Put { key: bytes("x"), value: PutValue::Bytes(bytes("1")), lease });
    let mut txns: Vec<Txn> = ["a", "b", "c"]
        .map(|key| Txn::when(vec![Compare::absent(key.as_bytes())], vec![put(key, key)]))
        .into();
    txns.insert(1, Txn::of(vec![refused]));
    let answers = store.txns(txns).await;
    assert_eq!(answers.len(), 4);
    assert!(matches!(answers[1], Err(Error::LeaseNotFound { .. })), "{:?}", answers[1]);
    let mut written = Vec::new();
    for (key, n) in [("a", 0), ("b", 2), ("c", 3)] {
        let response = answers[n].as_ref().expect("it is answered");
        assert!(response.succeeded);
        written.push(format!("{key}={key}@{}#1", response.revision.0));
    }
    assert_eq!(present(&store).await, written.join(" "));
}
