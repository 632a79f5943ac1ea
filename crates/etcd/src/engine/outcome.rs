//! Whether a transaction whose answer was lost has happened, told from the history. Pure.
//!
//! Holds only when the transaction can no longer happen later, which the fence sees to, and when
//! `commits` is everything from before it was sent until the fence.

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
            let is_successor =
                has_bytes(&txn.then) && txn.compares.iter().any(|it| succeeds(it, commit));
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

/// Whether something of this transaction's own is written. Deletions all look the same, whoever
/// made them.
fn has_bytes(ops: &[Op]) -> bool {
    ops.iter().any(|op| matches!(op, Op::Put(put) if put.value != PutValue::Kept))
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

/// Whether this commit wrote a key right after the state that the compare names. There is one such
/// write at most: if it is byte for byte the transaction, then the transaction is what it is.
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use kvstore::{Compare, Event, KeyValue, Op, Revision, Txn};

    use super::{Outcome, decide};
    use crate::engine::feed::Commit;

    /// `a=1>2`: the key had 1 (written at 5) and has 2; `a=>2`: it was new; `a=1>`: it was deleted.
    fn event(text: &str, revision: u64) -> Event {
        let (key, values) = text.split_once('=').unwrap();
        let (before, after) = values.split_once('>').unwrap();
        let key = Bytes::copy_from_slice(key.as_bytes());
        let value = |text: &str, mod_revision, version| {
            (!text.is_empty()).then(|| KeyValue {
                key: key.clone(),
                value: Bytes::copy_from_slice(text.as_bytes()),
                create_revision: Revision(5),
                mod_revision: Revision(mod_revision),
                version,
                lease: None,
            })
        };
        let previous = value(before, 5, 1);
        let value = value(after, revision, if before.is_empty() { 1 } else { 2 });
        Event { key: key.clone(), value, previous, revision: Revision(revision) }
    }

    /// Commits from revision 11 on, events of one apart by spaces.
    fn check(txn: &Txn, commits: &[&str], expected: &str) {
        let commits: Vec<_> = (11..)
            .zip(commits)
            .map(|(revision, events)| {
                let events = events.split(' ').map(|it| event(it, revision)).collect();
                Arc::new(Commit { revision: Revision(revision), events })
            })
            .collect();
        let outcome = match decide(txn, &commits, |it| it == Revision(19)) {
            Outcome::Happened(response) => format!("happened at {}", response.revision.0),
            Outcome::DidNot => "did not".to_owned(),
            Outcome::Unclear => "unclear".to_owned(),
        };
        assert_eq!(outcome, expected, "{commits:?}");
    }

    #[test]
    fn a_swap_is_the_one_write_on_what_it_compared() {
        let swap = Txn::when(
            vec![Compare::mod_revision(b"a", Revision(5))],
            vec![Op::put("a", "2"), Op::put("b", "2")],
        );
        check(&swap, &[], "did not");
        check(&swap, &["x=>2", "a=1>2 b=>2"], "happened at 12");
        check(&swap, &["a=1>3 b=>2"], "did not");
        check(&swap, &["a=1>2"], "did not");
        check(&swap, &["a=1>2 b=>2 c=>2"], "did not");
        check(&swap, &["a=1>2 b=1>"], "did not");
        // The same bytes, but not on the state that was compared.
        let other = Txn::when(
            vec![Compare::mod_revision(b"a", Revision(4))],
            vec![Op::put("a", "2"), Op::put("b", "2")],
        );
        check(&other, &["a=1>2 b=>2"], "unclear");
    }

    #[test]
    fn a_creation_is_the_one_write_on_nothing() {
        let create = Txn::when(vec![Compare::absent(b"a")], vec![Op::put("a", "2")]);
        check(&create, &["a=>2"], "happened at 11");
        check(&create, &["a=>1", "a=1>2"], "unclear");
        check(&create, &["x=>1", "x=>1", "x=>1", "x=>1"], "did not");
        // Revision 19 is another's.
        let late = ["x=>1"; 8];
        check(&create, &[&late[..], &["a=>2"]].concat(), "did not");
    }

    #[test]
    fn without_a_compare_nobody_can_tell() {
        check(&Txn::of(vec![Op::put("a", "2")]), &["a=1>2"], "unclear");
        check(&Txn::of(vec![Op::put("a", "2")]), &["a=1>3", "b=>2"], "did not");
        check(&Txn::of(vec![Op::delete(b"a")]), &["a=1>"], "unclear");
        let nested = Txn::of(vec![Op::Txn(Txn::of(vec![Op::put("a", "2")]))]);
        check(&nested, &["a=1>3"], "unclear");
        check(&nested, &["b=1>3"], "did not");
    }

    #[test]
    fn a_deletion_looks_like_any_other() {
        let compares = vec![Compare::mod_revision(b"a", Revision(5))];
        let delete = Txn::when(compares.clone(), vec![Op::delete(b"a")]);
        check(&delete, &["b=1>", "a=1>"], "unclear");
        check(&delete, &["a=1>2", "a=2>3"], "did not");
        let both = Txn::when(compares, vec![Op::delete(b"a"), Op::put("b", "mine")]);
        check(&both, &["a=1>", "a=>1"], "did not");
        check(&both, &["a=1> b=>mine"], "happened at 11");
    }
}
