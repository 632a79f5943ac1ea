//! One test for each known bug of etcd and of Kubernetes' watch cache that a single store could
//! have: the scenario that broke them, on every engine that it applies to. Numbers are those of the
//! issues there.
//!
//! Not here, because they need several members or other parts: etcd #20418 (stale reads after a
//! pause of the leader; with the etcd engine's tests), the members that came back with etcd 3.6,
//! kubernetes #97294 (one server's cache; with the API server's).

#![expect(clippy::unwrap_used, reason = "a panic is a failed test")]

mod etcd;
mod image;
mod kubernetes;

use std::sync::Arc;

use kvstore::torture::{Bench, Engine};
use kvstore::{
    Event, KeyRange, KeyValue, Op, RangeRequest, RangeResponse, Revision, Store, Txn, Watch,
    WatchRequest, contract,
};

/// The scenario on each engine in turn.
async fn on_every_engine(scenario: impl AsyncFn(&mut Bench)) {
    for engine in Engine::ALL {
        scenario(&mut Bench::new(engine)).await;
    }
}

fn put(key: &str, value: &str) -> Op {
    contract::put(key, value)
}

async fn write(store: &Arc<dyn Store>, ops: Vec<Op>) -> Revision {
    store.txn(Txn::of(ops)).await.unwrap().revision
}

async fn list(store: &Arc<dyn Store>) -> RangeResponse {
    store.range(RangeRequest::latest(KeyRange::prefix(b""))).await.unwrap()
}

async fn list_at(store: &Arc<dyn Store>, at: u64) -> Vec<KeyValue> {
    let request = RangeRequest::latest(KeyRange::prefix(b"")).at(Revision(at));
    store.range(request).await.unwrap().entries
}

async fn watch(store: &Arc<dyn Store>, after: u64) -> Box<dyn Watch> {
    let request = WatchRequest::new(KeyRange::prefix(b""), Some(Revision(after)));
    store.watch(request).await.unwrap()
}

async fn events(store: &Arc<dyn Store>, after: u64) -> Vec<Event> {
    let mut watch = watch(store, after).await;
    contract::events_through(&mut *watch, store.revision()).await
}

fn revisions(events: &[Event]) -> Vec<u64> {
    events.iter().map(|it| it.revision.0).collect()
}
