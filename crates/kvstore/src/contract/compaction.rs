//! Forgetting: what was compacted is told so, and nothing else changes.

use super::{
    Rule, Shared, commit, delete, events_text, events_through, list, next, present, put, read,
    text, watch,
};
use crate::{Error, KeyRange, Revision, WatchRequest};

pub(super) const RULES: &[Rule] = list![
    compaction_forgets_only_the_past,
    compaction_changes_no_present,
    compaction_ends_watches_behind_it if alone,
    a_watch_behind_a_compaction_skips_nothing,
    a_delete_after_the_compacted_revision_is_told,
];

async fn compaction_forgets_only_the_past(store: Shared) {
    commit(&store, vec![put("a", "1"), put("b", "1")]).await;
    commit(&store, vec![put("a", "2")]).await;
    commit(&store, vec![delete("b")]).await;
    commit(&store, vec![put("a", "3")]).await;
    store.compact(Revision(4)).await.expect("compaction succeeds");
    assert_eq!((store.oldest(), store.revision()), (Revision(4), Revision(5)));
    for (at, expected) in [(4, "a=2@3#2"), (5, "a=3@5#3")] {
        let response = read(&store, "", Some(at)).await.expect("not compacted");
        assert_eq!(text(&response.entries), expected);
    }
    let gone = read(&store, "", Some(3)).await;
    assert!(matches!(gone, Err(Error::Compacted { requested: Revision(3), .. })), "{gone:?}");
    let events = events_through(&mut *watch(&store, "", Some(4)).await, Revision(5)).await;
    assert_eq!(events_text(&events), "5:a=2>3");
    store.compact(Revision(4)).await.expect("compacting again is nothing");
    let before = store.compact(Revision(2)).await;
    assert!(matches!(before, Err(Error::Compacted { .. })), "{before:?}");
    let beyond = store.compact(Revision(6)).await;
    assert!(matches!(beyond, Err(Error::Future { .. })), "{beyond:?}");
}

async fn compaction_changes_no_present(store: Shared) {
    commit(&store, vec![put("a", "1"), put("b", "1"), put("c", "1")]).await;
    commit(&store, vec![put("a", "2"), delete("c")]).await;
    store.compact(Revision(3)).await.expect("compaction succeeds");
    assert_eq!(present(&store).await, "a=2@3#2 b=1@2#1");
    assert_eq!(commit(&store, vec![put("a", "3"), put("c", "2")]).await, Revision(4));
    assert_eq!(present(&store).await, "a=3@4#3 b=1@2#1 c=2@4#1");
    let kept = read(&store, "", Some(3)).await.expect("the compacted revision itself stays");
    assert_eq!(text(&kept.entries), "a=2@3#2 b=1@2#1");
}

async fn compaction_ends_watches_behind_it(store: Shared) {
    let mut behind = watch(&store, "", None).await;
    commit(&store, vec![put("a", "1")]).await;
    commit(&store, vec![put("a", "2")]).await;
    store.compact(Revision(2)).await.expect("compaction succeeds");
    let ended = next(&mut *behind).await;
    assert!(matches!(ended, Err(Error::Compacted { .. })), "{ended:?}");
}

async fn a_watch_behind_a_compaction_skips_nothing(store: Shared) {
    let mut behind = watch(&store, "", None).await;
    commit(&store, vec![put("a", "1")]).await;
    commit(&store, vec![put("a", "2")]).await;
    store.compact(Revision(2)).await.expect("compaction succeeds");
    // What had been sent before may still be delivered, but then all of it.
    match next(&mut *behind).await {
        Err(Error::Compacted { .. }) => {}
        Ok(batch) => assert_eq!(batch.events[0].revision, Revision(2), "{batch:?}"),
        Err(error) => panic!("{error}"),
    }
    let refused =
        store.watch(WatchRequest::new(KeyRange::prefix(b""), Some(Revision(1)))).await.err();
    assert!(matches!(refused, Some(Error::Compacted { .. })), "{refused:?}");
    let events = events_through(&mut *watch(&store, "", Some(2)).await, Revision(3)).await;
    assert_eq!(events_text(&events), "3:a=1>2");
}

async fn a_delete_after_the_compacted_revision_is_told(store: Shared) {
    commit(&store, vec![put("a", "1"), put("b", "1")]).await;
    commit(&store, vec![delete("a")]).await;
    commit(&store, vec![delete("b")]).await;
    store.compact(Revision(2)).await.expect("compaction succeeds");
    let events = events_through(&mut *watch(&store, "", Some(2)).await, Revision(4)).await;
    assert_eq!(events_text(&events), "3:a=1> 4:b=1>");
    store.compact(Revision(3)).await.expect("compaction succeeds");
    let events = events_through(&mut *watch(&store, "", Some(3)).await, Revision(4)).await;
    assert_eq!(events_text(&events), "4:b=1>");
    let response = read(&store, "", Some(3)).await.expect("not compacted");
    assert_eq!(text(&response.entries), "b=1@2#1");
    store.compact(Revision(4)).await.expect("compaction succeeds");
    assert_eq!(present(&store).await, "");
    assert_eq!(commit(&store, vec![put("a", "2")]).await, Revision(5));
    assert_eq!(present(&store).await, "a=2@5#1");
}
