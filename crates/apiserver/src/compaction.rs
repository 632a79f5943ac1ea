//! How long the past can be read through the API, and who makes the store forget it.
//!
//! Each interval, what was current one interval ago becomes the oldest that can be read: clients
//! can count on one interval and get at most two. Several servers over one etcd take turns by a key
//! of upstream's name, and so do upstream's own.

use std::sync::Arc;

use kvstore::{
    Compare, KeyRange, Op, OpResult, RangeRequest, Relation, Revision, Store, Target, Txn,
};
use lifecycle::Shutdown;

use crate::config::Compaction;
use crate::pipeline::Core;

/// Whoever raises its version compacts.
const TURN_KEY: &[u8] = b"compact_rev_key";

/// What is known of the last turn.
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    /// Of the key; 0: nobody has had a turn yet.
    version: u64,
    /// Current one interval ago; `None` in the first interval.
    revision: Option<Revision>,
}

pub(crate) async fn run(core: Arc<Core>, shutdown: Shutdown) {
    let (every, by) = (core.config.compaction_interval, core.config.compaction);
    if every.is_zero() {
        return;
    }
    let cache = &core.cache;
    let mut turn = Turn { version: 0, revision: None };
    if by == Compaction::ByStore {
        turn.revision = Some(cache.store().revision());
    }
    loop {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(every) => {}
        }
        if let Some(revision) = turn.revision {
            cache.expire_through(revision.0.saturating_sub(1));
        }
        match by {
            Compaction::ByStore => turn.revision = Some(cache.store().revision()),
            Compaction::ByServer => match step(cache.store().as_ref(), turn).await {
                Ok(next) => turn = next,
                Err(err) => {
                    tracing::warn!(error = %stdx::error_chain(&err), "compaction failed");
                }
            },
        }
    }
}

/// One interval: compacts, if no other server has in the meantime.
async fn step(store: &dyn Store, turn: Turn) -> Result<Turn, kvstore::Error> {
    let key = KeyRange::one(TURN_KEY);
    let is_mine = Compare {
        keys: key.clone(),
        relation: Relation::Equal,
        target: Target::Version(turn.version),
    };
    let value = turn.revision.map_or(0, |it| it.0).to_string();
    let txn = Txn {
        compares: vec![is_mine],
        then: vec![Op::put(TURN_KEY, value)],
        otherwise: vec![Op::Range(RangeRequest::latest(key))],
        ..Txn::default()
    };
    let response = store.txn(txn).await?;
    let now = Some(response.revision);
    if !response.succeeded {
        let found = match response.results.first() {
            Some(OpResult::Range(it)) => it.entries.first().map_or(0, |it| it.version),
            _ => 0,
        };
        return Ok(Turn { version: found, revision: now });
    }
    if let Some(through) = turn.revision {
        match store.compact(through).await {
            // Somebody was here before; that is what was wanted.
            Ok(()) | Err(kvstore::Error::Compacted { .. }) => {}
            Err(err) => return Err(err),
        }
    }
    Ok(Turn { version: turn.version + 1, revision: now })
}

#[cfg(test)]
mod tests {
    use kvstore::memory::Memory;
    use kvstore::{Op, Revision, Store as _, Txn};

    use super::{Turn, step};

    async fn write(store: &Memory) -> Revision {
        store.txn(Txn::of(vec![Op::put("/registry/x", "y")])).await.expect("written").revision
    }

    #[tokio::test]
    async fn servers_take_turns_and_keep_one_interval() {
        let store = Memory::new();
        let (mut one, mut other) = (Turn::default(), Turn::default());
        for _ in 0..3 {
            let before = write(&store).await;
            one = step(&store, one).await.expect("a turn");
            other = step(&store, other).await.expect("a turn");
            assert_eq!(one.version, other.version);
            assert!(store.oldest() < before, "what is younger than an interval stays");
        }
        let oldest = store.oldest();
        assert!(oldest > Revision(1), "the first interval is forgotten by now");
        // The first is gone: the other goes on.
        for _ in 0..2 {
            write(&store).await;
            other = step(&store, other).await.expect("a turn");
        }
        assert!(store.oldest() > oldest);
    }
}
