//! Whether a transaction whose answer was lost has happened, told from the history. Pure.
//!
//! Holds only when the transaction can no longer happen later, which the fence sees to, and when `commits` is everything
//! from before it was sent until the fence.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use kvstore::{
    Compare, Event, KeyRange, KeyValue, LeaseId, Op, OpResult, Put, PutLease, PutValue, Relation,
    Revision, Target, Txn, TxnResponse,
};

use super::feed::Commit;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Happened(TxnResponse),
    DidNot,
    /// Somebody wrote the same; whether it was this transaction cannot be seen.
    Unclear,
}

/// `is_claimed`: whether another transaction of this process is known to have made that revision.
pub(super) fn decide(
    txn: &Txn,
    commits: &[Arc<Commit>],
    is_claimed: impl Fn(Revision) -> bool,
) -> Outcome {
    let branches = [&txn.then, &txn.otherwise];
    let has_nested = branches.iter().any(|it| it.iter().any(|op| matches!(op, Op::Txn(_))));
    for commit in commits.iter().filter(|it| !is_claimed(it.revision)) {
        if has_nested {
            let touches = |it: &Event| branches.iter().any(|ops| writes_key(ops, &it.key));
            if commit.events.iter().any(touches) {
                return Outcome::Unclear;
            }
            continue;
        }
        if is_trace(&txn.otherwise, commit) {
            return Outcome::Unclear;
        }
        if is_trace(&txn.then, commit) {
            let is_successor = txn.compares.iter().any(|it| succeeds(it, commit));
            let results: Option<_> = txn.then.iter().map(|it| result(it, commit)).collect();
            return match results {
                Some(results) if is_successor => Outcome::Happened(TxnResponse {
                    revision: commit.revision,
                    succeeded: true,
                    results,
                }),
                _ => Outcome::Unclear,
            };
        }
    }
    Outcome::DidNot
}

/// Whether running `ops` could have left exactly these events.
fn is_trace(ops: &[Op], commit: &Commit) -> bool {
    let mut puts: BTreeMap<&Bytes, &Put> = BTreeMap::new();
    let mut deletes: Vec<&KeyRange> = Vec::new();
    for op in ops {
        match op {
            Op::Put(put) => drop(puts.insert(&put.key, put)),
            Op::Delete(range) => deletes.push(range),
            Op::Range(_) | Op::Txn(_) => {}
        }
    }
    if puts.is_empty() && deletes.is_empty() {
        return false;
    }
    let n_put = commit.events.iter().filter(|it| it.value.is_some()).count();
    n_put == puts.len()
        && commit.events.iter().all(|event| match &event.value {
            Some(value) => puts.get(&event.key).is_some_and(|it| is_written_by(event, value, it)),
            None => deletes.iter().any(|it| it.contains(&event.key)),
        })
}

fn is_written_by(event: &Event, value: &KeyValue, put: &Put) -> bool {
    let previous = event.previous.as_ref();
    let is_value = match &put.value {
        PutValue::Bytes(bytes) | PutValue::Stamped { bytes, .. } => *bytes == value.value,
        PutValue::Kept => previous.is_none_or(|it| it.value == value.value),
    };
    let lease: Option<Option<LeaseId>> = match put.lease {
        PutLease::None => Some(None),
        PutLease::Bound(id) => Some(Some(id)),
        PutLease::Kept => previous.map(|it| it.lease),
    };
    is_value && lease.is_none_or(|it| it == value.lease)
}

/// Whether this commit wrote a key right after the state that the compare names. There is one such write at most: if it is
/// byte for byte the transaction, then the transaction is what it is.
fn succeeds(compare: &Compare, commit: &Commit) -> bool {
    let Some(key) = compare.keys.single() else { return false };
    let Some(event) = commit.events.iter().find(|it| it.key == *key) else { return false };
    if compare.relation != Relation::Equal {
        return false;
    }
    let is_created = event.value.as_ref().is_some_and(|it| it.version == 1);
    match (&compare.target, &event.previous) {
        (Target::ModRevision(Revision(0)) | Target::CreateRevision(Revision(0)), _) => is_created,
        (Target::Version(0), _) => is_created,
        (Target::ModRevision(it), Some(previous)) => previous.mod_revision == *it,
        _ => false,
    }
}

fn writes_key(ops: &[Op], key: &Bytes) -> bool {
    ops.iter().any(|op| match op {
        Op::Put(put) => put.key == *key,
        Op::Delete(range) => range.contains(key),
        Op::Range(_) => false,
        Op::Txn(txn) => writes_key(&txn.then, key) || writes_key(&txn.otherwise, key),
    })
}

/// What the operation answered, as far as its events tell.
fn result(op: &Op, commit: &Commit) -> Option<OpResult> {
    match op {
        Op::Put(put) => {
            let event = commit.events.iter().find(|it| it.key == put.key)?;
            let is_new = event.value.as_ref().is_some_and(|it| it.version == 1);
            // Without a previous value of an old key (it was compacted) the answer is not known.
            (is_new || event.previous.is_some())
                .then(|| OpResult::Put { previous: event.previous.clone() })
        }
        Op::Delete(range) => {
            let mut deleted: Vec<_> = commit
                .events
                .iter()
                .filter(|it| it.value.is_none() && range.contains(&it.key))
                .map(|it| it.previous.clone())
                .collect::<Option<_>>()?;
            deleted.sort_by(|a: &KeyValue, b| a.key.cmp(&b.key));
            Some(OpResult::Delete { previous: deleted })
        }
        Op::Range(_) | Op::Txn(_) => None,
    }
}
