//! Many watches with one reader: each delivers what it would alone, none holds up another, and
//! progress is that of all.

use std::collections::BTreeMap;

use futures_util::future::poll_immediate;

use super::{
    PATIENCE, Rule, Shared, commit, delete, events_text, events_through, list, put, watch_with,
};
use crate::{Error, Event, EventFilter, KeyRange, Revision, Told, WatchId, WatchRequest, Watches};

pub(super) const RULES: &[Rule] = list![
    watches_of_a_group_tell_what_they_would_alone,
    a_group_is_told_what_comes_while_it_is_read,
    a_removed_watch_tells_nothing,
    a_name_is_given_to_the_last_watch,
    a_group_goes_on_when_one_falls_out_of_the_history if alone,
    a_refused_watch_leaves_its_group_as_it_was,
    progress_of_a_group_waits_for_all,
    progress_of_a_group_waits_for_the_future,
    progress_of_a_group_counts_those_that_came_later,
    a_canceled_wait_of_a_group_loses_nothing,
    a_busy_watch_holds_up_no_other,
];

fn request(prefix: &str, after: Option<u64>) -> WatchRequest {
    WatchRequest::new(KeyRange::prefix(prefix.as_bytes()), after.map(Revision))
}

async fn add(watches: &mut dyn Watches, id: i64, request: WatchRequest) {
    watches.add(WatchId(id), request).await.expect("the revision is readable");
}

async fn next(watches: &mut dyn Watches) -> Told {
    let next = tokio::time::timeout(PATIENCE, watches.next()).await;
    next.expect("a group is told what there is").expect("the store is open")
}

/// What each has delivered.
type Seen = BTreeMap<i64, Vec<Event>>;

/// Notes what comes until the progress that was asked for, and that nothing is told early or again.
async fn read_until_progress(watches: &mut dyn Watches, seen: &mut Seen) -> Revision {
    loop {
        let before: BTreeMap<i64, Option<Revision>> =
            seen.keys().map(|id| (*id, watches.progress(WatchId(*id)))).collect();
        match next(watches).await {
            Told::Batch { id, batch } => {
                let known = before.get(&id.0).copied().flatten();
                let is_new = |it: &Event| known.is_none_or(|known| it.revision > known);
                assert!(batch.events.iter().all(is_new), "told again, or progress ran ahead");
                assert!(batch.events.iter().all(|it| it.revision <= batch.revision));
                seen.entry(id.0).or_default().extend(batch.events);
            }
            Told::Progress(revision) => return revision,
            Told::Failed { id, error } => panic!("{id:?} failed: {error}"),
        }
    }
}

/// Everything up to now.
async fn read(watches: &mut dyn Watches, seen: &mut Seen) -> Revision {
    watches.request_progress();
    read_until_progress(watches, seen).await
}

fn seen_by(seen: &Seen, id: i64) -> String {
    events_text(seen.get(&id).map_or(&[], Vec::as_slice))
}

async fn watches_of_a_group_tell_what_they_would_alone(store: Shared) {
    use EventFilter::{All, DeletesOnly, Nothing, PutsOnly};
    commit(&store, vec![put("a/1", "0"), put("b/1", "0")]).await;
    let requests = || {
        let ranges = [
            KeyRange::prefix(b""),
            KeyRange::prefix(b"a/"),
            KeyRange::prefix(b"never/"),
            KeyRange::one(b"b/1"),
            KeyRange { start: "a/2".into(), end: "b/2".into() },
            KeyRange { start: "b/".into(), end: "".into() },
        ];
        let ranges = ranges.into_iter().flat_map(|range| {
            [All, PutsOnly, DeletesOnly, Nothing].map(|events| (range.clone(), events))
        });
        ranges.flat_map(|(range, events)| {
            [(None, true), (Some(Revision(1)), false), (Some(Revision(2)), true)].map(
                |(after, previous)| WatchRequest { range: range.clone(), after, events, previous },
            )
        })
    };
    let mut group = store.watches();
    let mut alone = Vec::new();
    for (id, request) in (0..).zip(requests()) {
        add(&mut *group, id, request.clone()).await;
        alone.push(watch_with(&store, request).await);
    }
    let mut seen = Seen::new();
    for n in 0..12 {
        let key = ["a/1", "a/2", "b/1", "b/2", "c"][n % 5];
        let write = if n % 4 == 3 { delete(key) } else { put(key, &n.to_string()) };
        let last = commit(&store, vec![write, put("b/3", &n.to_string())]).await;
        if n % 5 == 0 {
            assert!(read(&mut *group, &mut seen).await >= last);
        }
    }
    let last = read(&mut *group, &mut seen).await;
    for ((id, mut alone), request) in (0..).zip(alone).zip(requests()) {
        let events = events_through(&mut *alone, last).await;
        assert_eq!(seen_by(&seen, id), events_text(&events), "{request:?}");
    }
}

async fn a_group_is_told_what_comes_while_it_is_read(store: Shared) {
    let mut group = store.watches();
    assert!(poll_immediate(group.next()).await.is_none(), "there is no watch");
    add(&mut *group, 1, request("a", None)).await;
    add(&mut *group, 2, request("b", None)).await;
    let mut seen = Seen::new();
    for n in 0..20 {
        let key = ["a", "b", "c"][n % 3];
        let write = store.txn(crate::Txn::of(vec![put(key, &n.to_string())]));
        let (told, written) = futures_util::join!(
            async {
                match n % 3 {
                    2 => None,
                    _ => Some(next(&mut *group).await),
                }
            },
            write
        );
        written.expect("a write succeeds");
        if let Some(Told::Batch { id, batch }) = told {
            seen.entry(id.0).or_default().extend(batch.events);
        }
    }
    read(&mut *group, &mut seen).await;
    let of = |id: i64| seen[&id].iter().map(|it| it.revision.0).collect::<Vec<_>>();
    assert_eq!(of(1), (2..22).step_by(3).collect::<Vec<_>>());
    assert_eq!(of(2), (3..22).step_by(3).collect::<Vec<_>>());
}

async fn a_removed_watch_tells_nothing(store: Shared) {
    let mut group = store.watches();
    for id in 0..4 {
        add(&mut *group, id, request("a", None)).await;
    }
    add(&mut *group, 4, request("a", Some(1))).await;
    commit(&store, vec![put("a", "2")]).await;
    group.remove(WatchId(0));
    group.remove(WatchId(4));
    commit(&store, vec![put("a", "3")]).await;
    group.remove(WatchId(2));
    group.remove(WatchId(7));
    assert_eq!(group.progress(WatchId(2)), None);
    let mut seen = Seen::new();
    read(&mut *group, &mut seen).await;
    assert_eq!(seen.keys().copied().collect::<Vec<_>>(), [1, 3]);
    assert_eq!(seen_by(&seen, 3), "2:a=>2 3:a=2>3");
}

async fn a_name_is_given_to_the_last_watch(store: Shared) {
    let mut group = store.watches();
    add(&mut *group, 1, request("a", None)).await;
    commit(&store, vec![put("a", "2"), put("b", "2")]).await;
    add(&mut *group, 1, request("b", Some(1))).await;
    commit(&store, vec![put("a", "3"), put("b", "3")]).await;
    let mut seen = Seen::new();
    read(&mut *group, &mut seen).await;
    assert_eq!(seen_by(&seen, 1), "2:b=>2 3:b=2>3");
}

async fn a_group_goes_on_when_one_falls_out_of_the_history(store: Shared) {
    let mut group = store.watches();
    add(&mut *group, 1, request("a", None)).await;
    add(&mut *group, 2, request("b", None)).await;
    for n in 2..=5 {
        commit(&store, vec![put("a", &n.to_string())]).await;
    }
    store.compact(Revision(4)).await.expect("compaction succeeds");
    for _ in 0..2 {
        let told = next(&mut *group).await;
        let Told::Failed { id: WatchId(1), error: Error::Compacted { oldest, .. } } = told else {
            panic!("what it had to read is gone: {told:?}");
        };
        assert_eq!(oldest, Revision(4));
    }
    group.remove(WatchId(1));
    commit(&store, vec![put("b", "6")]).await;
    let mut seen = Seen::new();
    read(&mut *group, &mut seen).await;
    assert_eq!(seen_by(&seen, 2), "6:b=>6");
}

async fn a_refused_watch_leaves_its_group_as_it_was(store: Shared) {
    for n in 2..=5 {
        commit(&store, vec![put("a", &n.to_string())]).await;
    }
    store.compact(Revision(4)).await.expect("compaction succeeds");
    let mut group = store.watches();
    add(&mut *group, 1, request("a", Some(4))).await;
    // An engine that is not alone may learn of it only when it reads.
    if let Err(err) = group.add(WatchId(2), request("a", Some(2))).await {
        assert!(matches!(err, Error::Compacted { .. }), "{err}");
        assert_eq!(group.progress(WatchId(2)), None);
    }
    group.remove(WatchId(2));
    let mut seen = Seen::new();
    read(&mut *group, &mut seen).await;
    assert_eq!(seen.keys().copied().collect::<Vec<_>>(), [1]);
    assert_eq!(seen[&1].len(), 1);
}

async fn progress_of_a_group_waits_for_all(store: Shared) {
    let mut group = store.watches();
    for (id, prefix) in [(1, "a"), (2, "b"), (3, "never")] {
        add(&mut *group, id, request(prefix, None)).await;
    }
    let mut seen = Seen::new();
    for round in 0..10u64 {
        for key in ["a", "b", "b", "c"] {
            commit(&store, vec![put(key, "")]).await;
        }
        let last = store.revision();
        let told = read(&mut *group, &mut seen).await;
        assert!(told >= last, "{told:?} in round {round}");
        assert_eq!(seen.values().map(|it| it.len() as u64).sum::<u64>(), 3 * (round + 1));
    }
    assert!(poll_immediate(group.next()).await.is_none(), "one answer to each request");
}

async fn progress_of_a_group_waits_for_the_future(store: Shared) {
    let mut group = store.watches();
    add(&mut *group, 1, request("a", None)).await;
    add(&mut *group, 2, request("a", Some(4))).await;
    group.request_progress();
    let mut seen = Seen::new();
    for n in 2..=4 {
        commit(&store, vec![put("a", &n.to_string())]).await;
    }
    let told = read_until_progress(&mut *group, &mut seen).await;
    assert!(told >= Revision(4), "{told:?}");
    assert_eq!(seen_by(&seen, 2), "", "nothing before it was asked for");
    commit(&store, vec![put("a", "5")]).await;
    read(&mut *group, &mut seen).await;
    assert_eq!(seen_by(&seen, 1), "2:a=>2 3:a=2>3 4:a=3>4 5:a=4>5");
    assert_eq!(seen_by(&seen, 2), "5:a=4>5");
}

async fn progress_of_a_group_counts_those_that_came_later(store: Shared) {
    for n in 2..=9 {
        commit(&store, vec![put("a", &n.to_string())]).await;
    }
    let mut group = store.watches();
    add(&mut *group, 1, request("a", None)).await;
    group.request_progress();
    add(&mut *group, 2, request("a", Some(1))).await;
    let mut seen = Seen::new();
    let told = read_until_progress(&mut *group, &mut seen).await;
    let delivered = seen.get(&2).and_then(|it| it.last()).map_or(1, |it| it.revision.0);
    assert!(told.0 <= delivered, "told {told:?}, and the second was at {delivered}");
    read(&mut *group, &mut seen).await;
    assert_eq!(seen[&2].len(), 8);
}

async fn a_canceled_wait_of_a_group_loses_nothing(store: Shared) {
    let mut group = store.watches();
    add(&mut *group, 1, request("", None)).await;
    add(&mut *group, 2, request("", Some(1))).await;
    let mut seen = Seen::new();
    let note = async |group: &mut Box<dyn Watches>, seen: &mut Seen| {
        if let Some(told) = poll_immediate(group.next()).await
            && let Told::Batch { id, batch } = told.expect("the store is open")
        {
            seen.entry(id.0).or_default().extend(batch.events);
        }
    };
    for n in 0..50u64 {
        note(&mut group, &mut seen).await;
        let mut write = store.txn(crate::Txn::of(vec![put("a", &n.to_string())]));
        let early = poll_immediate(&mut write).await;
        note(&mut group, &mut seen).await;
        if early.is_none() {
            write.await.expect("a write succeeds");
        }
    }
    read(&mut *group, &mut seen).await;
    for id in [1, 2] {
        let revisions: Vec<u64> = seen[&id].iter().map(|it| it.revision.0).collect();
        assert_eq!(revisions, (2..=51).collect::<Vec<_>>(), "of {id}");
    }
}

async fn a_busy_watch_holds_up_no_other(store: Shared) {
    let width = crate::TXN_OPS_MAX;
    for round in 0..40 {
        let writes = (0..width).map(|n| put(&format!("busy/{n}"), &format!("{round}"))).collect();
        commit(&store, writes).await;
    }
    let mut group = store.watches();
    for id in 0..3 {
        add(&mut *group, id, request("busy/", Some(1))).await;
    }
    add(&mut *group, 9, request("calm", None)).await;
    commit(&store, vec![put("calm", "")]).await;
    let mut n_others = 0;
    loop {
        let Told::Batch { id, batch } = next(&mut *group).await else { continue };
        if id == WatchId(9) && !batch.events.is_empty() {
            break;
        }
        n_others += batch.events.len();
    }
    assert!(n_others < 3 * 40 * width, "it came after everything that the others had to read");
    let mut seen = Seen::new();
    read(&mut *group, &mut seen).await;
    let n_events = seen.values().map(Vec::len).sum::<usize>() + n_others;
    assert_eq!(n_events, 3 * 40 * width);
}
