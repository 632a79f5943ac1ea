//! What happened to each key and is not delivered yet, in order of the first change of each key. Pure.
//!
//! Worked example: `Added a, Updated b, Updated a, Deleted b` is popped as `a: [Added, Updated]`, then
//! `b: [Updated, Deleted]`. Two deletions in a row become the first one, since it has the better state.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use apimachinery::ObjectKey;

use crate::indexer::Entry;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeltaKind {
    Added,
    Updated,
    /// Part of a whole new list.
    Replaced,
    Deleted,
    /// Nothing changed; it is delivered again.
    Sync,
}

pub(crate) struct Delta<T> {
    pub(crate) kind: DeltaKind,
    pub(crate) entry: Entry<T>,
}

pub(crate) struct DeltaFifo<T> {
    /// Each key once; every key here is in `deltas`, and the other way round.
    order: VecDeque<ObjectKey>,
    /// No list is empty.
    deltas: BTreeMap<ObjectKey, Vec<Delta<T>>>,
}

impl<T> Default for DeltaFifo<T> {
    fn default() -> Self {
        Self { order: VecDeque::new(), deltas: BTreeMap::new() }
    }
}

impl<T> DeltaFifo<T> {
    pub(crate) fn push(&mut self, key: &ObjectKey, kind: DeltaKind, entry: Entry<T>) {
        let deltas = self.deltas.entry(key.clone()).or_insert_with(|| {
            self.order.push_back(key.clone());
            Vec::new()
        });
        let is_repeated = kind == DeltaKind::Deleted
            && deltas.last().is_some_and(|it| it.kind == DeltaKind::Deleted);
        if !is_repeated {
            deltas.push(Delta { kind, entry });
        }
    }

    /// A whole list: each item is `Replaced`, and what `known` has besides is deleted with its last known state.
    pub(crate) fn replace(
        &mut self,
        items: Vec<(ObjectKey, Entry<T>)>,
        known: Vec<(ObjectKey, Entry<T>)>,
    ) {
        let listed: BTreeSet<ObjectKey> = items.iter().map(|(key, _)| key.clone()).collect();
        for (key, entry) in items {
            self.push(&key, DeltaKind::Replaced, entry);
        }
        for (key, entry) in known {
            if !listed.contains(&key) {
                self.push(&key, DeltaKind::Deleted, entry);
            }
        }
    }

    /// Everything known again, except keys with something newer on the way.
    pub(crate) fn resync(&mut self, known: Vec<(ObjectKey, Entry<T>)>) {
        for (key, entry) in known {
            if !self.deltas.contains_key(&key) {
                self.push(&key, DeltaKind::Sync, entry);
            }
        }
    }

    pub(crate) fn pop(&mut self) -> Option<(ObjectKey, Vec<Delta<T>>)> {
        let key = self.order.pop_front()?;
        let deltas = self.deltas.remove(&key).expect("every key in `order` has deltas");
        Some((key, deltas))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use apimachinery::ObjectKey;

    use super::{DeltaFifo, DeltaKind};
    use crate::indexer::Entry;

    fn item(name: &str, version: u64) -> (ObjectKey, Entry<()>) {
        (ObjectKey::cluster(name), Entry { version, object: Arc::new(()) })
    }

    fn push(fifo: &mut DeltaFifo<()>, kind: DeltaKind, name: &str, version: u64) {
        let (key, entry) = item(name, version);
        fifo.push(&key, kind, entry);
    }

    fn check(mut fifo: DeltaFifo<()>, expected: &[&str]) {
        let mut popped = Vec::new();
        while let Some((key, deltas)) = fifo.pop() {
            let deltas: Vec<String> =
                deltas.iter().map(|it| format!("{:?}@{}", it.kind, it.entry.version)).collect();
            popped.push(format!("{key}: {}", deltas.join(" ")));
        }
        assert_eq!(popped, expected);
    }

    #[test]
    fn deltas_gather_under_their_key_in_order_of_the_first() {
        let mut fifo = DeltaFifo::default();
        push(&mut fifo, DeltaKind::Added, "a", 1);
        push(&mut fifo, DeltaKind::Updated, "b", 2);
        push(&mut fifo, DeltaKind::Updated, "a", 3);
        check(fifo, &["a: Added@1 Updated@3", "b: Updated@2"]);
    }

    #[test]
    fn two_deletions_in_a_row_are_the_first_one() {
        let mut fifo = DeltaFifo::default();
        push(&mut fifo, DeltaKind::Deleted, "a", 1);
        push(&mut fifo, DeltaKind::Deleted, "a", 2);
        push(&mut fifo, DeltaKind::Added, "a", 3);
        check(fifo, &["a: Deleted@1 Added@3"]);
    }

    #[test]
    fn a_new_list_deletes_what_it_lacks_in_its_last_known_state() {
        let mut fifo = DeltaFifo::default();
        fifo.replace(vec![item("a", 5), item("b", 6)], vec![item("a", 1), item("gone", 2)]);
        check(fifo, &["a: Replaced@5", "b: Replaced@6", "gone: Deleted@2"]);
    }

    #[test]
    fn a_resync_leaves_keys_alone_that_have_news() {
        let mut fifo = DeltaFifo::default();
        push(&mut fifo, DeltaKind::Updated, "a", 3);
        fifo.resync(vec![item("a", 1), item("b", 2)]);
        check(fifo, &["a: Updated@3", "b: Sync@2"]);
    }
}
