//! What only this engine has: crashes of the whole of it, a failing disk, errors of opening,
//! closing and opening again.

mod alone;
mod crash;
mod faults;
mod life;
mod snapshots;

use std::sync::Arc;

use super::{Embedded, Options};
use crate::{KeyRange, Op, RangeRequest, Revision, Store as _, Txn};

fn put(key: &str, value: &str) -> Txn {
    Txn::of(vec![Op::put(key.to_owned(), value.to_owned())])
}

async fn values(store: &Embedded) -> Vec<String> {
    let request = RangeRequest::latest(KeyRange::prefix(b""));
    let response = store.range(request).await.unwrap();
    response.entries.iter().map(|it| String::from_utf8_lossy(&it.value).into_owned()).collect()
}

async fn put_ok(store: &Arc<Embedded>, key: &str, value: &str) -> Revision {
    store.txn(put(key, value)).await.unwrap().revision
}

/// Waits for a condition that another thread brings about.
async fn until(mut holds: impl FnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(30);
    while !holds() {
        assert!(tokio::time::Instant::now() < deadline, "what was waited for did not come");
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
}

fn small() -> Options {
    Options { segment_bytes: 4096, ring_commits: 1, value_bytes: 0, ..Options::default() }
}
