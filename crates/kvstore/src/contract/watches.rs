//! Watching: every event of a range once, in order, whole transactions together, from any revision;
//! filtered, with or without what was before; and progress that never runs ahead.

use futures_util::future::poll_immediate;

use super::{
    Rule, Shared, commit, delete, events_text, events_through, list, next, next_events, put, watch,
    watch_with,
};
use crate::{EventFilter, KeyRange, Op, Revision, Txn, Watch, WatchRequest};

pub(super) const RULES: &[Rule] = list![
    a_watch_tells_what_changed,
    a_watch_keeps_transactions_whole,
    a_watch_joins_live_without_gap,
    a_watch_resumes_where_another_ended,
    a_watch_of_one_key_sees_no_other,
    a_watch_filters_events,
    a_watch_without_previous_values_has_none,
    a_watch_tells_creations_from_updates,
    a_watch_of_the_future_begins_there,
    a_watch_of_the_future_tells_no_progress_before,
    progress_is_told_on_request,
    progress_is_not_ahead_of_events,
    progress_of_a_range_moves_with_other_ranges if alone,
    an_idle_watch_is_not_woken,
    a_slow_watch_misses_nothing,
    a_canceled_wait_loses_nothing,
    many_watches_see_the_same,
];

fn filtered(prefix: &str, after: Option<u64>, events: EventFilter) -> WatchRequest {
    let range = KeyRange::prefix(prefix.as_bytes());
    WatchRequest { events, ..WatchRequest::new(range, after.map(Revision)) }
}

async fn a_watch_tells_what_changed(store: Shared) {
    commit(&store, vec![put("a/1", "x")]).await;
    let mut live = watch(&store, "a/", None).await;
    commit(&store, vec![put("a/1", "y")]).await;
    commit(&store, vec![put("b/1", "z")]).await;
    commit(&store, vec![delete("a/1"), put("b/1", "zz")]).await;
    let events = events_through(&mut *live, Revision(5)).await;
    assert_eq!(events_text(&events), "3:a/1=x>y 5:a/1=y>");
    let mut late = watch(&store, "c/", Some(2)).await;
    late.request_progress();
    let batch = next(&mut *late).await.expect("the past has nothing, and that is told");
    assert_eq!((batch.events.len(), batch.revision), (0, Revision(5)));
}

async fn a_watch_keeps_transactions_whole(store: Shared) {
    let live = watch(&store, "", None).await;
    let width = crate::TXN_OPS_MAX;
    for round in 0..4 {
        let writes = (0..width).map(|n| put(&format!("{n}"), &format!("{round}"))).collect();
        commit(&store, writes).await;
    }
    for mut watch in [live, watch(&store, "", Some(1)).await] {
        let mut seen = 0;
        while seen < 4 * width {
            let batch = next(&mut *watch).await.expect("history is there");
            assert_eq!(batch.events.len() % width, 0, "a transaction was split");
            if let Some(last) = batch.events.last() {
                assert_eq!(last.revision, batch.revision);
            }
            seen += batch.events.len();
        }
        assert_eq!(watch.progress(), Revision(5));
    }
}

async fn a_watch_joins_live_without_gap(store: Shared) {
    for n in 0..10 {
        commit(&store, vec![put("a", &n.to_string())]).await;
    }
    for after in 1..=11 {
        let mut watch = watch(&store, "a", Some(after)).await;
        let mut events = Vec::new();
        if after < store.revision().0 {
            events.extend(next(&mut *watch).await.expect("history is there").events);
        }
        let last = commit(&store, vec![put("a", "live")]).await;
        events.extend(events_through(&mut *watch, last).await);
        let revisions: Vec<u64> = events.iter().map(|it| it.revision.0).collect();
        assert_eq!(revisions, (after + 1..=last.0).collect::<Vec<_>>());
    }
}

async fn a_watch_resumes_where_another_ended(store: Shared) {
    for n in 0..12 {
        let key = ["a", "b", "c"][n % 3];
        let op = if n % 5 == 4 { delete(key) } else { put(key, &n.to_string()) };
        commit(&store, vec![op, put("also", &n.to_string())]).await;
    }
    let whole = events_through(&mut *watch(&store, "", Some(1)).await, Revision(13)).await;
    for end in 2..13 {
        let mut first = watch(&store, "", Some(1)).await;
        let mut events = next_events(&mut *first).await;
        events.retain(|it| it.revision.0 <= end);
        drop(first);
        let seen = events.last().map_or(1, |it| it.revision.0);
        let mut second = watch(&store, "", Some(seen)).await;
        events.extend(events_through(&mut *second, Revision(13)).await);
        assert_eq!(events_text(&events), events_text(&whole), "resumed after {seen}");
    }
}

async fn a_watch_of_one_key_sees_no_other(store: Shared) {
    let mut live = watch_with(&store, WatchRequest::new(KeyRange::one(b"b"), None)).await;
    for key in ["a", "b", "b\0", "ba", "c", "b"] {
        commit(&store, vec![put(key, "1")]).await;
    }
    let events = events_through(&mut *live, Revision(7)).await;
    assert_eq!(events_text(&events), "3:b=>1 7:b=1>1");
    let range = KeyRange { start: "b\0".into(), end: "c".into() };
    let mut between = watch_with(&store, WatchRequest::new(range, Some(Revision(1)))).await;
    let events = events_through(&mut *between, Revision(7)).await;
    assert_eq!(events_text(&events), "4:b\0=>1 5:ba=>1");
}

async fn a_watch_filters_events(store: Shared) {
    use EventFilter::{All, DeletesOnly, Nothing, PutsOnly};
    let mut live = Vec::new();
    for filter in [All, PutsOnly, DeletesOnly, Nothing] {
        live.push(watch_with(&store, filtered("a", None, filter)).await);
    }
    commit(&store, vec![put("a1", "1"), put("b", "1")]).await;
    commit(&store, vec![delete("a1"), put("a2", "1")]).await;
    commit(&store, vec![delete("b")]).await;
    commit(&store, vec![delete("a2")]).await;
    let expected = ["2:a1=>1 3:a1=1> 3:a2=>1 5:a2=1>", "2:a1=>1 3:a2=>1", "3:a1=1> 5:a2=1>", ""];
    for (mut live, expected) in live.into_iter().zip(expected) {
        let events = events_through(&mut *live, Revision(5)).await;
        assert_eq!(events_text(&events), expected, "live");
    }
    for (filter, expected) in [All, PutsOnly, DeletesOnly, Nothing].into_iter().zip(expected) {
        let mut late = watch_with(&store, filtered("a", Some(1), filter)).await;
        let events = events_through(&mut *late, Revision(5)).await;
        assert_eq!(events_text(&events), expected, "of the past: {filter:?}");
    }
}

async fn a_watch_without_previous_values_has_none(store: Shared) {
    commit(&store, vec![put("a", "1")]).await;
    let request = |after: Option<u64>| {
        let range = KeyRange::prefix(b"");
        WatchRequest { previous: false, ..WatchRequest::new(range, after.map(Revision)) }
    };
    let live = watch_with(&store, request(None)).await;
    commit(&store, vec![put("a", "2")]).await;
    commit(&store, vec![delete("a")]).await;
    let late = watch_with(&store, request(Some(2))).await;
    for mut watch in [live, late] {
        let events = events_through(&mut *watch, Revision(4)).await;
        assert_eq!(events_text(&events), "3:a=>2 4:a=>");
    }
}

async fn a_watch_tells_creations_from_updates(store: Shared) {
    for value in ["1", "2", "", "3", "4"] {
        let op = if value.is_empty() { delete("a") } else { put("a", value) };
        commit(&store, vec![op]).await;
    }
    let events = events_through(&mut *watch(&store, "a", Some(1)).await, Revision(6)).await;
    let described: Vec<_> = events
        .iter()
        .map(|it| it.value.as_ref().map(|it| (it.create_revision.0, it.version)))
        .collect();
    assert_eq!(described, [Some((2, 1)), Some((2, 2)), None, Some((5, 1)), Some((5, 2))]);
}

async fn a_watch_of_the_future_begins_there(store: Shared) {
    commit(&store, vec![put("a", "2")]).await;
    let mut future = watch(&store, "", Some(5)).await;
    for n in 3..=7 {
        assert!(
            poll_immediate(future.next()).await.is_none(),
            "what came before was not asked for"
        );
        commit(&store, vec![put("a", &n.to_string())]).await;
        if n == 6 {
            break;
        }
    }
    assert_eq!(events_text(&next_events(&mut *future).await), "6:a=5>6");
    commit(&store, vec![put("a", "7")]).await;
    assert_eq!(events_text(&next_events(&mut *future).await), "7:a=6>7");
}

async fn a_watch_of_the_future_tells_no_progress_before(store: Shared) {
    let mut future = watch(&store, "a", Some(3)).await;
    future.request_progress();
    commit(&store, vec![put("b", "2")]).await;
    assert!(poll_immediate(future.next()).await.is_none(), "the store is not there yet");
    commit(&store, vec![put("b", "3")]).await;
    future.request_progress();
    let batch = next(&mut *future).await.expect("the revision has come");
    assert_eq!((batch.events.len(), batch.revision), (0, Revision(3)));
    commit(&store, vec![put("a", "4")]).await;
    assert_eq!(events_text(&next_events(&mut *future).await), "4:a=>4");
}

async fn progress_is_told_on_request(store: Shared) {
    let mut idle = watch(&store, "idle/", None).await;
    for n in 0..3 {
        let last = commit(&store, vec![put("busy", &n.to_string())]).await;
        idle.request_progress();
        let batch = next(&mut *idle).await.expect("history is there");
        assert!(batch.events.is_empty() && batch.revision >= last, "{batch:?}");
        assert!(idle.progress() >= last);
    }
    assert!(poll_immediate(idle.next()).await.is_none(), "one answer to each request");
}

async fn progress_is_not_ahead_of_events(store: Shared) {
    let mut slow = watch(&store, "a", None).await;
    for n in 0..20 {
        commit(&store, vec![put(["a", "b"][n % 2], &n.to_string())]).await;
    }
    slow.request_progress();
    let (mut seen, mut is_told) = (Vec::new(), false);
    while !is_told {
        let progress = slow.progress();
        let batch = next(&mut *slow).await.expect("history is there");
        assert!(batch.events.iter().all(|it| it.revision > progress), "progress ran ahead");
        is_told = batch.events.is_empty();
        seen.extend(batch.events.iter().map(|it| it.revision.0));
    }
    assert_eq!(seen, (2..=20).step_by(2).collect::<Vec<_>>(), "told before all were delivered");
}

async fn progress_of_a_range_moves_with_other_ranges(store: Shared) {
    let mut idle = watch(&store, "idle/", None).await;
    for n in 0..100 {
        commit(&store, vec![put("busy", &n.to_string())]).await;
        assert_eq!(idle.progress(), store.revision(), "nothing of its range is missing");
    }
    store.compact(store.revision()).await.expect("compaction succeeds");
    let last = commit(&store, vec![put("idle/1", "")]).await;
    assert_eq!(idle.progress(), Revision(last.0 - 1));
    let batch = next(&mut *idle).await.expect("an idle watch never falls behind");
    assert_eq!((batch.events.len(), batch.revision), (1, last));
}

async fn an_idle_watch_is_not_woken(store: Shared) {
    let mut idle = watch(&store, "idle/", None).await;
    let mut deletes = watch_with(&store, filtered("busy", None, EventFilter::DeletesOnly)).await;
    for n in 0..20 {
        commit(&store, vec![put("busy", &n.to_string())]).await;
    }
    assert!(poll_immediate(idle.next()).await.is_none(), "woken for another range");
    assert!(poll_immediate(deletes.next()).await.is_none(), "woken for filtered events");
    store.compact(store.revision()).await.expect("compaction succeeds");
    commit(&store, vec![put("idle/1", ""), delete("busy")]).await;
    assert_eq!(events_text(&next_events(&mut *idle).await), "22:idle/1=>");
    assert_eq!(events_text(&next_events(&mut *deletes).await), "22:busy=19>");
}

async fn a_slow_watch_misses_nothing(store: Shared) {
    let mut slow = watch(&store, "a", None).await;
    let mut last = store.revision();
    for n in 0..300 {
        last = commit(&store, vec![put(["a", "b"][n % 2], &n.to_string())]).await;
    }
    let events = events_through(&mut *slow, last).await;
    let values: Vec<_> =
        events.iter().filter_map(|it| it.value.as_ref()).map(|it| it.value.clone()).collect();
    let expected: Vec<_> = (0..300).step_by(2).map(|n| n.to_string()).collect();
    assert_eq!(values, expected);
}

async fn a_canceled_wait_loses_nothing(store: Shared) {
    let mut live = watch(&store, "", None).await;
    let mut late = watch(&store, "", Some(1)).await;
    let mut revisions = (Vec::new(), Vec::new());
    let note = async |watch: &mut Box<dyn Watch>, seen: &mut Vec<u64>| {
        if let Some(batch) = poll_immediate(watch.next()).await {
            seen.extend(batch.expect("history is there").events.iter().map(|it| it.revision.0));
        }
    };
    for n in 0..50u64 {
        note(&mut live, &mut revisions.0).await;
        note(&mut late, &mut revisions.1).await;
        let txn = Txn::of(vec![Op::put("a", n.to_string())]);
        let mut write = store.txn(txn);
        let early = poll_immediate(&mut write).await;
        note(&mut live, &mut revisions.0).await;
        if early.is_none() {
            write.await.expect("a write succeeds");
        }
    }
    for (mut watch, seen) in [(live, &mut revisions.0), (late, &mut revisions.1)] {
        let rest = events_through(&mut *watch, Revision(51)).await;
        seen.extend(rest.iter().map(|it| it.revision.0));
        assert_eq!(*seen, (2..=51).collect::<Vec<_>>());
    }
}

async fn many_watches_see_the_same(store: Shared) {
    let mut watches = Vec::new();
    for n in 0..64u64 {
        let range = match n % 3 {
            0 => KeyRange::prefix(b""),
            1 => KeyRange::one(format!("{}", n % 8).as_bytes()),
            _ => KeyRange { start: format!("{}", n % 4).into(), end: format!("{}", n % 9).into() },
        };
        watches.push((range.clone(), watch_with(&store, WatchRequest::new(range, None)).await));
    }
    for n in 0..40u64 {
        commit(&store, vec![put(&(n % 9).to_string(), &n.to_string())]).await;
    }
    let all = events_through(&mut *watch(&store, "", Some(1)).await, Revision(41)).await;
    for (range, mut watch) in watches {
        let events = events_through(&mut *watch, Revision(41)).await;
        let expected: Vec<_> = all.iter().filter(|it| range.contains(&it.key)).cloned().collect();
        assert_eq!(events, expected, "{range:?}");
    }
}
