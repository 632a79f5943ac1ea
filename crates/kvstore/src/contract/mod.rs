//! The contract of `Store` as rules: every engine must keep them all. A check panics with what is
//! broken, and gets a fresh, empty store.

mod compaction;
mod compares;
mod groups;
mod leases;
mod ranges;
mod txns;
mod watches;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, join_all};

use crate::{
    Batch, Error, Event, KeyRange, KeyValue, Op, OpResult, RangeRequest, RangeResponse, Revision,
    Store, Txn, TxnResponse, Watch, WatchRequest,
};

type Shared = Arc<dyn Store>;
type Check = fn(Shared) -> BoxFuture<'static, ()>;

/// Nothing here takes long: who waits longer than this waits for what does not come.
const PATIENCE: Duration = Duration::from_secs(60);

/// One rule with its name and what breaks if it is not kept.
#[derive(Clone, Copy)]
pub struct Rule {
    pub name: &'static str,
    check: Check,
    needs: fn(&Traits) -> bool,
}

/// What an engine may honestly lack.
#[derive(Clone, Copy, Debug)]
pub struct Traits {
    /// It knows the revision of a write beforehand, and can put it into the value.
    pub stamps: bool,
    /// It is the only one that writes its data: it knows of every commit and compaction at once, so
    /// that the progress of an idle watch is the store's revision, and a watch that was overtaken
    /// by a compaction ends.
    pub alone: bool,
}

impl Traits {
    pub const ALL: Self = Self { stamps: true, alone: true };
}

/// Every rule that an engine with these traits has to keep.
pub fn rules(traits: Traits) -> Vec<Rule> {
    [
        ranges::RULES,
        compares::RULES,
        txns::RULES,
        leases::RULES,
        watches::RULES,
        groups::RULES,
        compaction::RULES,
    ]
    .into_iter()
    .flatten()
    .filter(|it| (it.needs)(&traits))
    .copied()
    .collect()
}

impl Rule {
    pub async fn check(&self, store: Arc<dyn Store>) {
        (self.check)(store).await;
    }
}

/// Checks every rule, each on a store of its own and all at once, and names all that are broken.
pub async fn check_all(traits: Traits, make: impl Fn() -> Arc<dyn Store>) {
    let checks = rules(traits).into_iter().map(|rule| {
        let check = AssertUnwindSafe((rule.check)(make())).catch_unwind();
        async move { check.await.err().map(|_| rule.name) }
    });
    let broken: Vec<_> = join_all(checks.collect::<Vec<_>>()).await.into_iter().flatten().collect();
    assert!(broken.is_empty(), "broken rules: {broken:?}");
}

/// A list of rules by the names of their functions.
macro_rules! list {
    ($($name:ident $(if $needs:ident)?),* $(,)?) => {
        &[$(crate::contract::Rule {
            name: stringify!($name),
            check: |store| Box::pin($name(store)),
            needs: |_traits| true $(&& _traits.$needs)?,
        }),*]
    };
}
use list;

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

pub fn put(key: &str, value: &str) -> Op {
    Op::put(bytes(key), bytes(value))
}

pub fn delete(key: &str) -> Op {
    Op::delete(key.as_bytes())
}

fn get(prefix: &str) -> Op {
    Op::Range(RangeRequest::latest(KeyRange::prefix(prefix.as_bytes())))
}

/// Commits without compares; returns the revision.
pub async fn commit(store: &Shared, ops: Vec<Op>) -> Revision {
    let response = apply(store, Txn::of(ops)).await;
    assert!(response.succeeded, "a transaction without compares was refused");
    response.revision
}

async fn apply(store: &Shared, txn: Txn) -> TxnResponse {
    store.txn(txn).await.expect("a transaction is answered")
}

async fn read(store: &Shared, prefix: &str, at: Option<u64>) -> Result<RangeResponse, Error> {
    let range = KeyRange::prefix(prefix.as_bytes());
    store.range(RangeRequest { at: at.map(Revision), ..RangeRequest::latest(range) }).await
}

/// Everything there is now, as text.
async fn present(store: &Shared) -> String {
    text(&read(store, "", None).await.expect("the present is readable").entries)
}

async fn watch(store: &Shared, prefix: &str, after: Option<u64>) -> Box<dyn Watch> {
    let range = KeyRange::prefix(prefix.as_bytes());
    watch_with(store, WatchRequest::new(range, after.map(Revision))).await
}

async fn watch_with(store: &Shared, request: WatchRequest) -> Box<dyn Watch> {
    store.watch(request).await.expect("the revision is readable")
}

/// `a=1@2#1` for each entry: key, value, last written, version.
fn text(entries: &[KeyValue]) -> String {
    let entry = |it: &KeyValue| {
        let (key, value) = (String::from_utf8_lossy(&it.key), String::from_utf8_lossy(&it.value));
        format!("{key}={value}@{}#{}", it.mod_revision.0, it.version)
    };
    entries.iter().map(entry).collect::<Vec<_>>().join(" ")
}

/// `3:a=1>2` for each event: revision, key, previous and new value.
fn events_text(events: &[Event]) -> String {
    let value = |it: &Option<KeyValue>| {
        it.as_ref().map(|it| String::from_utf8_lossy(&it.value).into_owned()).unwrap_or_default()
    };
    let event = |it: &Event| {
        let key = String::from_utf8_lossy(&it.key);
        format!("{}:{key}={}>{}", it.revision.0, value(&it.previous), value(&it.value))
    };
    events.iter().map(event).collect::<Vec<_>>().join(" ")
}

/// `put(old) del(a=1@2#1) get(…) then[…]` for each result.
fn results_text(results: &[OpResult]) -> String {
    let result = |it: &OpResult| match it {
        OpResult::Put { previous } => format!("put({})", text(previous.as_slice())),
        OpResult::Delete { previous } => format!("del({})", text(previous)),
        OpResult::Range(response) => format!("get({})", text(&response.entries)),
        OpResult::Txn(response) => {
            let branch = if response.succeeded { "then" } else { "else" };
            format!("{branch}[{}]", results_text(&response.results))
        }
    };
    results.iter().map(result).collect::<Vec<_>>().join(" ")
}

/// The next batch, which comes.
pub async fn next(watch: &mut dyn Watch) -> Result<Batch, Error> {
    tokio::time::timeout(PATIENCE, watch.next()).await.expect("a watch is told what there is")
}

/// The events of the next batch that has some.
async fn next_events(watch: &mut dyn Watch) -> Vec<Event> {
    loop {
        let batch = next(watch).await.expect("history is there");
        if !batch.events.is_empty() {
            return batch.events;
        }
    }
}

/// The events up to `through`, and that no batch claims more than it delivered.
pub async fn events_through(watch: &mut dyn Watch, through: Revision) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    while watch.progress() < through {
        // An engine that does not know how far other machines are has to ask.
        watch.request_progress();
        let before = watch.progress();
        let Batch { events: batch, revision } = next(watch).await.expect("history is there");
        let is_within = batch.iter().all(|it| it.revision > before && it.revision <= revision);
        assert!(is_within, "a batch has events up to its revision only, and none again");
        assert!(watch.progress() >= revision, "progress includes what was delivered");
        events.extend(batch);
    }
    events
}
