//! Which of many ranges hold a key, in time that grows with the answer and not with the number of
//! ranges: a tree of intervals by start, each node of which knows the farthest end below it. Equal
//! ranges are one.

use std::cmp::Ordering;
use std::sync::Arc;

use super::slab::{Id, Slab};
use crate::KeyRange;

/// `start..end`; an empty end means no upper bound. Owns its bytes: a request may be part of a much
/// larger buffer. Cheap to clone.
///
/// The end of nearly every range is its start but for the last byte: of that only the last byte is
/// kept. `pods/a` and `pods/b` are `pods/ab` with a start of 6 bytes, of which the end has 5 too.
#[derive(Clone, Debug)]
pub(super) struct Interval {
    /// The start, and the bytes of the end that follow what it shares with the start.
    bounds: Arc<[u8]>,
    start_len: u32,
    shared_len: u32,
}

/// An end, in two pieces. Without any byte it is no bound.
#[derive(Clone, Copy)]
struct End<'a>(&'a [u8], &'a [u8]);

/// A tree whose shape is decided by random priorities (a treap), so that no order of insertions is
/// a bad one.
pub(super) struct Intervals<T> {
    nodes: Slab<Node<T>>,
    root: Option<Id>,
    chance: u32,
}

struct Node<T> {
    interval: Interval,
    item: T,
    priority: u32,
    left: Option<Id>,
    right: Option<Id>,
    /// The node with the farthest end below this one, if it is farther than its own.
    farthest: Option<Id>,
}

impl Interval {
    fn new(range: &KeyRange) -> Self {
        let len = |it: usize| u32::try_from(it).expect("keys are far below 4 GiB");
        let is_same = |(a, b): &(&u8, &u8)| a == b;
        let shared = range.start.iter().zip(&range.end).take_while(is_same).count();
        let bounds = [&range.start[..], &range.end[shared..]].concat();
        let (start_len, shared_len) = (len(range.start.len()), len(shared));
        Self { bounds: bounds.into(), start_len, shared_len }
    }

    fn start(&self) -> &[u8] {
        &self.bounds[..self.start_len as usize]
    }

    fn end(&self) -> End<'_> {
        End(&self.bounds[..self.shared_len as usize], &self.bounds[self.start_len as usize..])
    }

    pub(super) fn contains(&self, key: &[u8]) -> bool {
        self.start() <= key && self.end().is_after(key)
    }

    pub(super) fn range(&self) -> KeyRange {
        let End(shared, rest) = self.end();
        let end = [shared, rest].concat();
        KeyRange { start: bytes::Bytes::copy_from_slice(self.start()), end: end.into() }
    }

    fn compare(&self, range: &KeyRange) -> Ordering {
        self.start().cmp(&range.start).then_with(|| self.end().compare(End(&range.end, &[])))
    }
}

impl End<'_> {
    fn is_unbounded(self) -> bool {
        self.0.is_empty() && self.1.is_empty()
    }

    fn is_after(self, key: &[u8]) -> bool {
        self.is_unbounded() || self.compare_bytes(End(key, &[])) == Ordering::Greater
    }

    fn compare(self, other: End<'_>) -> Ordering {
        match (self.is_unbounded(), other.is_unbounded()) {
            (false, false) => self.compare_bytes(other),
            (mine, others) => mine.cmp(&others),
        }
    }

    fn compare_bytes(self, other: End<'_>) -> Ordering {
        let common = self.0.len().min(other.0.len());
        let (mine, others) = (self.0.split_at(common), other.0.split_at(common));
        mine.0
            .cmp(others.0)
            .then_with(|| mine.1.iter().chain(self.1).cmp(others.1.iter().chain(other.1)))
    }
}

impl<T> Intervals<T> {
    pub(super) fn new() -> Self {
        Self { nodes: Slab::new(), root: None, chance: 0x9e37_79b9 }
    }

    pub(super) fn interval(&self, id: Id) -> &Interval {
        &self.nodes[id].interval
    }

    pub(super) fn item_mut(&mut self, id: Id) -> &mut T {
        &mut self.nodes[id].item
    }

    /// The range with this item, or the one that is there already.
    pub(super) fn find_or_insert(&mut self, range: &KeyRange, item: T) -> Id {
        let mut at = self.root;
        while let Some(id) = at {
            at = match self.nodes[id].interval.compare(range) {
                Ordering::Equal => return id,
                Ordering::Greater => self.nodes[id].left,
                Ordering::Less => self.nodes[id].right,
            };
        }
        let interval = Interval::new(range);
        let priority = self.next_priority();
        let node = Node { interval, item, priority, left: None, right: None, farthest: None };
        let id = self.nodes.insert(node);
        self.refresh(id);
        let (before, after) = self.split(self.root, range);
        let joined = self.join(before, Some(id));
        self.root = self.join(joined, after);
        id
    }

    pub(super) fn remove(&mut self, id: Id) {
        let range = self.nodes[id].interval.range();
        self.root = self.without(self.root, id, &range);
        self.nodes.remove(id);
    }

    /// Adds the ranges that hold the key to `found`.
    pub(super) fn find(&self, key: &[u8], found: &mut Vec<Id>) {
        self.find_below(self.root, key, found);
    }

    fn find_below(&self, at: Option<Id>, key: &[u8], found: &mut Vec<Id>) {
        let Some(id) = at else { return };
        let node = &self.nodes[id];
        if !self.nodes[self.farthest(id)].interval.end().is_after(key) {
            return;
        }
        self.find_below(node.left, key, found);
        if node.interval.start() <= key {
            if node.interval.end().is_after(key) {
                found.push(id);
            }
            self.find_below(node.right, key, found);
        }
    }

    fn next_priority(&mut self) -> u32 {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 17;
        self.chance ^= self.chance << 5;
        self.chance
    }

    fn farthest(&self, id: Id) -> Id {
        self.nodes[id].farthest.unwrap_or(id)
    }

    fn refresh(&mut self, id: Id) {
        let node = &self.nodes[id];
        let mut farthest = id;
        for other in [node.left, node.right].into_iter().flatten().map(|it| self.farthest(it)) {
            let end = self.nodes[farthest].interval.end();
            if self.nodes[other].interval.end().compare(end) == Ordering::Greater {
                farthest = other;
            }
        }
        self.nodes[id].farthest = (farthest != id).then_some(farthest);
    }

    /// What comes before `range`, and what does not.
    fn split(&mut self, at: Option<Id>, range: &KeyRange) -> (Option<Id>, Option<Id>) {
        let Some(id) = at else { return (None, None) };
        let parts = if self.nodes[id].interval.compare(range) == Ordering::Less {
            let (before, after) = self.split(self.nodes[id].right, range);
            self.nodes[id].right = before;
            (Some(id), after)
        } else {
            let (before, after) = self.split(self.nodes[id].left, range);
            self.nodes[id].left = after;
            (before, Some(id))
        };
        self.refresh(id);
        parts
    }

    /// Everything of `left` comes before everything of `right`.
    fn join(&mut self, left: Option<Id>, right: Option<Id>) -> Option<Id> {
        let (Some(l), Some(r)) = (left, right) else { return left.or(right) };
        let top = if self.nodes[l].priority >= self.nodes[r].priority {
            self.nodes[l].right = self.join(self.nodes[l].right, right);
            l
        } else {
            self.nodes[r].left = self.join(left, self.nodes[r].left);
            r
        };
        self.refresh(top);
        Some(top)
    }

    fn without(&mut self, at: Option<Id>, id: Id, range: &KeyRange) -> Option<Id> {
        let at = at?;
        let (left, right) = (self.nodes[at].left, self.nodes[at].right);
        if at == id {
            return self.join(left, right);
        }
        if self.nodes[at].interval.compare(range) == Ordering::Greater {
            self.nodes[at].left = self.without(left, id, range);
        } else {
            self.nodes[at].right = self.without(right, id, range);
        }
        self.refresh(at);
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn range(bounds: (u8, u8)) -> KeyRange {
        let text = |n: u8| bytes::Bytes::from(n.to_string());
        let end = if bounds.1 > 90 { bytes::Bytes::new() } else { text(bounds.1) };
        KeyRange { start: text(bounds.0), end }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn an_interval_is_the_range_it_was_made_of(
            bounds in ("[ab]{0,4}", "[ab]{0,4}"),
            other in ("[ab]{0,4}", "[ab]{0,4}"),
            key in "[ab]{0,5}",
        ) {
            let range = |(start, end): (String, String)| KeyRange { start: start.into(), end: end.into() };
            let (range, other) = (range(bounds), range(other));
            let interval = Interval::new(&range);
            prop_assert_eq!(&interval.range(), &range);
            prop_assert_eq!(interval.contains(key.as_bytes()), range.contains(key.as_bytes()));
            prop_assert_eq!(interval.compare(&other) == Ordering::Equal, range == other);
            let ends = |it: &KeyRange| (it.end.is_empty(), it.end.clone());
            let expected = ends(&range).cmp(&ends(&other));
            prop_assert_eq!(interval.end().compare(Interval::new(&other).end()), expected);
        }

        #[test]
        fn a_key_finds_the_ranges_that_hold_it(
            steps in prop::collection::vec((any::<bool>(), (0u8..100, 0u8..100)), 0..80),
            keys in prop::collection::vec(0u8..100, 1..10),
        ) {
            let mut tree = Intervals::new();
            let mut plain: Vec<(Id, KeyRange)> = Vec::new();
            for (is_removal, bounds) in steps {
                if is_removal && !plain.is_empty() {
                    let (id, _) = plain.swap_remove(usize::from(bounds.0) % plain.len());
                    tree.remove(id);
                } else {
                    let range = range(bounds);
                    let id = tree.find_or_insert(&range, ());
                    match plain.iter().find(|(_, it)| *it == range) {
                        Some((known, _)) => prop_assert_eq!(*known, id),
                        None => plain.push((id, range)),
                    }
                }
            }
            for key in keys.iter().map(u8::to_string) {
                let mut found = Vec::new();
                tree.find(key.as_bytes(), &mut found);
                let holds = |it: &&(Id, KeyRange)| it.1.contains(key.as_bytes());
                let mut expected: Vec<Id> = plain.iter().filter(holds).map(|it| it.0).collect();
                found.sort_unstable();
                expected.sort_unstable();
                prop_assert_eq!(found, expected);
            }
        }
    }
}
