//! Reading: the present and the past, in order, limited, keys or counts alone; and what entries and
//! the store say of themselves.

use super::{Rule, Shared, bytes, commit, delete, list, present, put, read, text};
use crate::{Error, KeyRange, Op, RangeRequest, Revision, Txn, Want};

pub(super) const RULES: &[Rule] = list![
    revisions_grow_by_one_from_one,
    entries_know_their_history,
    ranges_are_sorted_and_limited,
    ranges_answer_with_what_was_wanted,
    old_revisions_stay_readable,
    keys_and_values_are_any_bytes,
    stamped_values_tell_their_revision if stamps,
    relaxed_writes_keep_the_order,
    the_current_revision_includes_what_was_acknowledged,
    the_status_counts_what_there_is,
];

async fn revisions_grow_by_one_from_one(store: Shared) {
    assert_eq!((store.revision(), store.oldest()), (Revision(1), Revision(1)));
    assert_eq!(commit(&store, vec![put("a", "1")]).await, Revision(2));
    assert_eq!(commit(&store, vec![put("b", "1"), put("c", "1")]).await, Revision(3));
    assert_eq!(commit(&store, vec![delete("a"), delete("b")]).await, Revision(4));
    assert_eq!(store.revision(), Revision(4));
    let response = read(&store, "", None).await.expect("the present is readable");
    assert_eq!((text(&response.entries).as_str(), response.revision), ("c=1@3#1", Revision(4)));
}

async fn entries_know_their_history(store: Shared) {
    commit(&store, vec![put("a", "1")]).await;
    commit(&store, vec![put("b", "1")]).await;
    commit(&store, vec![put("a", "2")]).await;
    let created = read(&store, "a", None).await.expect("readable").entries[0].create_revision;
    assert_eq!(created, Revision(2));
    commit(&store, vec![delete("a")]).await;
    commit(&store, vec![put("a", "3")]).await;
    let entries = read(&store, "", None).await.expect("readable").entries;
    assert_eq!(text(&entries), "a=3@6#1 b=1@3#1");
    assert_eq!(entries[0].create_revision, Revision(6));
    assert_eq!(entries[0].lease, None);
}

async fn ranges_are_sorted_and_limited(store: Shared) {
    for key in ["b/2", "a", "b/1", "c", "b/3"] {
        commit(&store, vec![put(key, "")]).await;
    }
    let check = async |range: KeyRange, limit: usize, expected: &str, count: u64| {
        for at in [None, Some(Revision(6))] {
            let request = RangeRequest { at, ..RangeRequest::latest(range.clone()).limit(limit) };
            let response = store.range(request).await.expect("readable");
            let keys: Vec<_> =
                response.entries.iter().map(|it| String::from_utf8_lossy(&it.key)).collect();
            assert_eq!((keys.join(" ").as_str(), response.count), (expected, count));
            assert_eq!(response.has_more, (response.entries.len() as u64) < count);
        }
    };
    let range = |start: &str, end: &str| KeyRange { start: bytes(start), end: bytes(end) };
    check(KeyRange::prefix(b"b/"), 0, "b/1 b/2 b/3", 3).await;
    check(KeyRange::prefix(b"b/"), 2, "b/1 b/2", 3).await;
    check(KeyRange::prefix(b"b/"), 3, "b/1 b/2 b/3", 3).await;
    check(KeyRange::one(b"b/1"), 0, "b/1", 1).await;
    check(KeyRange::one(b"b/"), 0, "", 0).await;
    check(range("b/2", ""), 0, "b/2 b/3 c", 3).await;
    check(range("a", "b/2"), 0, "a b/1", 2).await;
    check(range("x", "a"), 0, "", 0).await;
    check(range("", ""), 1, "a", 5).await;
}

async fn ranges_answer_with_what_was_wanted(store: Shared) {
    commit(&store, vec![put("a", "1"), put("b", "2")]).await;
    commit(&store, vec![put("a", "3"), delete("b"), put("c", "4")]).await;
    let check = async |want, at: Option<u64>, limit, expected: &str, count: u64, has_more: bool| {
        let range = KeyRange::prefix(b"");
        let request = RangeRequest { range, at: at.map(Revision), limit, want };
        let response = store.range(request).await.expect("readable");
        let found = (text(&response.entries), response.count, response.has_more);
        assert_eq!(found, (expected.to_owned(), count, has_more), "{want:?} at {at:?}");
        assert_eq!(response.revision, Revision(at.unwrap_or(3)));
    };
    for at in [None, Some(3)] {
        check(Want::Entries, at, 0, "a=3@3#2 c=4@3#1", 2, false).await;
        check(Want::Keys, at, 0, "a=@3#2 c=@3#1", 2, false).await;
        check(Want::Keys, at, 1, "a=@3#2", 2, true).await;
        check(Want::Count, at, 0, "", 2, false).await;
    }
    check(Want::Keys, Some(2), 0, "a=@2#1 b=@2#1", 2, false).await;
    check(Want::Count, Some(1), 0, "", 0, false).await;
}

async fn old_revisions_stay_readable(store: Shared) {
    commit(&store, vec![put("a", "1"), put("b", "1")]).await;
    commit(&store, vec![put("a", "2")]).await;
    commit(&store, vec![delete("b"), put("c", "1")]).await;
    commit(&store, vec![put("b", "2"), delete("a")]).await;
    let expected = ["", "a=1@2#1 b=1@2#1", "a=2@3#2 b=1@2#1", "a=2@3#2 c=1@4#1", "b=2@5#1 c=1@4#1"];
    for (at, expected) in (1..).zip(expected) {
        let response = read(&store, "", Some(at)).await.expect("not compacted");
        assert_eq!((text(&response.entries).as_str(), response.revision), (expected, Revision(at)));
    }
    let range = KeyRange::prefix(b"");
    let request = RangeRequest::latest(range).at(Revision(3)).limit(1);
    let response = store.range(request).await.expect("not compacted");
    assert_eq!((text(&response.entries).as_str(), response.count), ("a=2@3#2", 2));
    let future = read(&store, "", Some(6)).await;
    assert!(matches!(future, Err(Error::Future { requested: Revision(6), .. })), "{future:?}");
}

async fn keys_and_values_are_any_bytes(store: Shared) {
    let keys: [&[u8]; 6] = [b"\0", b"a", b"a\0", b"a\xff", b"\xff", b"\xff\xff"];
    let value: Vec<u8> = (0..=255).collect();
    commit(&store, keys.iter().map(|it| Op::put(it.to_vec(), value.clone())).collect()).await;
    commit(&store, vec![Op::put(b"empty".to_vec(), Vec::new())]).await;
    let check = async |range: KeyRange, expected: &[&[u8]]| {
        let response = store.range(RangeRequest::latest(range)).await.expect("readable");
        let found: Vec<&[u8]> = response.entries.iter().map(|it| it.key.as_ref()).collect();
        assert_eq!(found, expected);
        assert!(response.entries.iter().all(|it| it.value == value || it.key == "empty"));
    };
    check(KeyRange::prefix(b"a"), &keys[1..4]).await;
    check(KeyRange::one(b"a"), &keys[1..2]).await;
    check(KeyRange::prefix(b"\xff"), &keys[4..]).await;
    check(KeyRange::prefix(b"\0"), &keys[..1]).await;
    check(KeyRange::one(b"empty"), &[b"empty"]).await;
}

async fn stamped_values_tell_their_revision(store: Shared) {
    let stamped = |at| Op::put_stamped("a", "<>", at);
    commit(&store, vec![stamped(1)]).await;
    commit(&store, vec![stamped(0)]).await;
    commit(&store, vec![stamped(2), Op::put_stamped("b", "", 0)]).await;
    assert_eq!(present(&store).await, "a=<>4@4#3 b=4@4#1");
    let response = read(&store, "a", Some(2)).await.expect("not compacted");
    assert_eq!(text(&response.entries), "a=<2>@2#1");
}

async fn relaxed_writes_keep_the_order(store: Shared) {
    for n in 0..20u64 {
        let txn = Txn::of(vec![put("a", &n.to_string())]);
        let txn = if n % 3 == 2 { txn } else { txn.relaxed() };
        let response = store.txn(txn).await.expect("a write succeeds");
        assert_eq!(response.revision, Revision(n + 2), "relaxed writes take revisions as others");
        assert_eq!(present(&store).await, format!("a={n}@{}#{}", n + 2, n + 1));
    }
    let response = read(&store, "", Some(4)).await.expect("not compacted");
    assert_eq!(text(&response.entries), "a=2@4#3");
}

async fn the_current_revision_includes_what_was_acknowledged(store: Shared) {
    for n in 0..5 {
        let written = commit(&store, vec![put("a", &n.to_string())]).await;
        let current = store.current().await.expect("the store can be asked");
        assert!(current >= written, "{current:?} is before {written:?}");
        assert!(store.revision() >= written, "what this process wrote it knows of");
    }
}

async fn the_status_counts_what_there_is(store: Shared) {
    commit(&store, vec![put("a", "1"), put("b", "1")]).await;
    commit(&store, vec![put("a", "2")]).await;
    commit(&store, vec![delete("b")]).await;
    store.compact(Revision(3)).await.expect("compaction succeeds");
    let status = store.status().await.expect("the store can be asked");
    assert_eq!((status.revision, status.oldest), (Revision(4), Revision(3)));
    assert_eq!((status.n_keys, status.read_only), (1, None));
    assert!(status.bytes >= status.bytes_current, "the whole is no less than its part");
    let again = store.status().await.expect("the store can be asked");
    assert_eq!(again.hash, status.hash, "the hash changes with the history alone");
}
