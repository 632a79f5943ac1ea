//! Leases: keys go when theirs does, by being revoked or by running out of time.

use std::time::Duration;

use super::{
    PATIENCE, Rule, Shared, bytes, commit, events_text, list, next_events, present, put, read,
    watch,
};
use crate::{Error, KeyValue, LeaseId, Op, Put, PutLease, PutValue, Revision, Txn};

pub(super) const RULES: &[Rule] = list![
    leases_are_granted_by_name_or_by_choice,
    keys_know_their_lease,
    a_revoked_lease_takes_its_keys_at_one_revision,
    puts_keep_leases,
    a_lease_that_is_not_there_is_named,
    a_lease_ends_when_its_time_is_over,
    a_lease_that_is_kept_alive_does_not_end,
];

fn lease(id: i64) -> LeaseId {
    LeaseId::new(id).expect("not zero")
}

fn bound(key: &str, value: &str, lease: PutLease) -> Op {
    Op::Put(Put { key: bytes(key), value: PutValue::Bytes(bytes(value)), lease })
}

async fn grant(store: &Shared, id: i64, ttl: Duration) -> LeaseId {
    store.lease_grant(Some(lease(id)), ttl).await.expect("the lease is new")
}

/// `a/7 b` for each entry: key and lease.
async fn bindings(store: &Shared) -> String {
    let entries = read(store, "", None).await.expect("readable").entries;
    let entry = |it: &KeyValue| {
        let key = String::from_utf8_lossy(&it.key).into_owned();
        match it.lease {
            Some(id) => format!("{key}/{}", id.0),
            None => key,
        }
    };
    entries.iter().map(entry).collect::<Vec<_>>().join(" ")
}

async fn leases_are_granted_by_name_or_by_choice(store: Shared) {
    let seven = grant(&store, 7, PATIENCE).await;
    let chosen = store.lease_grant(None, PATIENCE).await.expect("there are free names");
    let other = store.lease_grant(None, PATIENCE).await.expect("there are free names");
    assert!(seven == lease(7) && chosen != seven && other != seven && other != chosen);
    let mut all = vec![seven, chosen, other];
    all.sort();
    assert_eq!(store.leases().await.expect("the store can be asked"), all);
    let again = store.lease_grant(Some(seven), PATIENCE).await;
    assert!(matches!(again, Err(Error::LeaseExists { .. })), "{again:?}");
    assert_eq!(commit(&store, vec![put("a", "1")]).await, Revision(2), "a grant writes no key");
    let status = store.lease(seven).await.expect("it is there");
    assert_eq!((status.id, status.keys.len()), (seven, 0));
    assert!(status.granted >= PATIENCE && status.remaining <= status.granted, "{status:?}");
}

async fn keys_know_their_lease(store: Shared) {
    let (one, two) = (grant(&store, 1, PATIENCE).await, grant(&store, 2, PATIENCE).await);
    let (with_one, with_two) = (PutLease::Bound(one), PutLease::Bound(two));
    commit(&store, vec![bound("a", "1", with_one), bound("b", "1", with_one), put("c", "1")]).await;
    assert_eq!(bindings(&store).await, "a/1 b/1 c");
    commit(&store, vec![put("a", "2"), bound("b", "2", with_two), bound("c", "2", with_two)]).await;
    assert_eq!(bindings(&store).await, "a b/2 c/2");
    let keys = async |id| store.lease(id).await.expect("it is there").keys;
    assert_eq!(keys(one).await, [""; 0]);
    assert_eq!(keys(two).await, ["b", "c"]);
    commit(&store, vec![Op::delete(b"c")]).await;
    assert_eq!(keys(two).await, ["b"]);
    let old = read(&store, "", Some(2)).await.expect("not compacted").entries;
    assert_eq!(old.iter().map(|it| it.lease).collect::<Vec<_>>(), [Some(one), Some(one), None]);
}

async fn a_revoked_lease_takes_its_keys_at_one_revision(store: Shared) {
    let one = grant(&store, 1, PATIENCE).await;
    let with = PutLease::Bound(one);
    commit(&store, vec![bound("a", "1", with), put("b", "1"), bound("c", "1", with)]).await;
    let mut watch = watch(&store, "", None).await;
    assert_eq!(store.lease_revoke(one).await.expect("it is there"), Revision(3));
    assert_eq!(present(&store).await, "b=1@2#1");
    let events = next_events(&mut *watch).await;
    let mut events: Vec<_> = events_text(&events).split(' ').map(str::to_owned).collect();
    events.sort();
    assert_eq!(events, ["3:a=1>", "3:c=1>"]);
    assert_eq!(store.leases().await.expect("the store can be asked"), []);
    let empty = grant(&store, 1, PATIENCE).await;
    assert_eq!(store.lease_revoke(empty).await.expect("it is there"), Revision(3));
    assert_eq!(commit(&store, vec![put("a", "2")]).await, Revision(4));
}

async fn puts_keep_leases(store: Shared) {
    let one = grant(&store, 1, PATIENCE).await;
    commit(&store, vec![bound("a", "1", PutLease::Bound(one)), put("b", "1")]).await;
    commit(&store, vec![bound("a", "2", PutLease::Kept), bound("b", "2", PutLease::Kept)]).await;
    assert_eq!(bindings(&store).await, "a/1 b");
    assert_eq!(present(&store).await, "a=2@3#2 b=2@3#2");
    let missing = store.txn(Txn::of(vec![bound("c", "1", PutLease::Kept)])).await;
    assert!(matches!(missing, Err(Error::KeyNotFound { .. })), "{missing:?}");
    store.lease_revoke(one).await.expect("it is there");
    assert_eq!(bindings(&store).await, "b");
}

async fn a_lease_that_is_not_there_is_named(store: Shared) {
    let id = lease(404);
    for answer in [
        store.lease_revoke(id).await.err(),
        store.lease_keep_alive(id).await.err(),
        store.lease(id).await.err(),
        store.txn(Txn::of(vec![bound("a", "1", PutLease::Bound(id))])).await.err(),
    ] {
        assert!(matches!(answer, Some(Error::LeaseNotFound { .. })), "{answer:?}");
    }
    assert_eq!(store.current().await.expect("the store can be asked"), Revision(1));
}

async fn a_lease_ends_when_its_time_is_over(store: Shared) {
    let long = grant(&store, 1, 20 * PATIENCE).await;
    let short = grant(&store, 2, Duration::from_secs(2)).await;
    let (with_long, with_short) = (PutLease::Bound(long), PutLease::Bound(short));
    let ops = vec![bound("a", "1", with_short), bound("b", "1", with_long), put("c", "1")];
    commit(&store, ops).await;
    commit(&store, vec![bound("d", "1", with_short)]).await;
    let mut watch = watch(&store, "", Some(3)).await;
    let events = next_events(&mut *watch).await;
    let mut events: Vec<_> = events_text(&events).split(' ').map(str::to_owned).collect();
    events.sort();
    assert_eq!(events, ["4:a=1>", "4:d=1>"], "both keys go at one revision");
    assert_eq!(bindings(&store).await, "b/1 c");
    assert_eq!(store.leases().await.expect("the store can be asked"), [long]);
    let ended = store.lease_keep_alive(short).await;
    assert!(matches!(ended, Err(Error::LeaseNotFound { .. })), "{ended:?}");
}

async fn a_lease_that_is_kept_alive_does_not_end(store: Shared) {
    let ttl = Duration::from_secs(3);
    let kept = grant(&store, 1, ttl).await;
    commit(&store, vec![bound("a", "1", PutLease::Bound(kept))]).await;
    for _ in 0..5 {
        tokio::time::sleep(ttl / 4).await;
        let left = store.lease_keep_alive(kept).await.expect("it is kept");
        assert!(left >= ttl, "{left:?}");
    }
    let status = store.lease(kept).await.expect("it is kept");
    assert!(status.remaining <= status.granted && !status.remaining.is_zero(), "{status:?}");
    assert_eq!(present(&store).await, "a=1@2#1");
    let mut watch = watch(&store, "", Some(2)).await;
    let events = next_events(&mut *watch).await;
    assert_eq!(events_text(&events), "3:a=1>", "and then it does");
}
