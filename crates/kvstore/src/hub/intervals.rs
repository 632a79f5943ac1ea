//! Which of many ranges hold a key, in time that grows with the answer and not with the number of ranges: a tree of
//! intervals by start, each node of which knows the farthest end below it. Equal ranges are one.

use std::cmp::Ordering;
use std::sync::Arc;

use super::slab::Slab;
use crate::KeyRange;

/// `start..end`; an empty end means no upper bound. Owns its bytes: a request may be part of a much larger buffer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Interval {
    /// Start and end, one after the other: one allocation.
    bounds: Box<[u8]>,
    split: usize,
}

/// A tree whose shape is decided by random priorities (a treap), so that no order of insertions is a bad one.
pub(super) struct Intervals<T> {
    nodes: Slab<Node<T>>,
    root: Option<u32>,
    chance: u32,
}

struct Node<T> {
    interval: Arc<Interval>,
    item: T,
    priority: u32,
    left: Option<u32>,
    right: Option<u32>,
    /// The node with the farthest end, of this one and all below it.
    farthest: u32,
}

impl Interval {
    fn new(range: &KeyRange) -> Self {
        let bounds = [&range.start[..], &range.end[..]].concat().into_boxed_slice();
        Self { bounds, split: range.start.len() }
    }

    fn start(&self) -> &[u8] {
        &self.bounds[..self.split]
    }

    fn end(&self) -> &[u8] {
        &self.bounds[self.split..]
    }

    pub(super) fn contains(&self, key: &[u8]) -> bool {
        self.start() <= key && self.ends_after(key)
    }

    pub(super) fn range(&self) -> KeyRange {
        let copy = |it: &[u8]| bytes::Bytes::copy_from_slice(it);
        KeyRange { start: copy(self.start()), end: copy(self.end()) }
    }

    fn ends_after(&self, key: &[u8]) -> bool {
        self.end().is_empty() || key < self.end()
    }

    fn compare_end(&self, other: &[u8]) -> Ordering {
        match (self.end().is_empty(), other.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => self.end().cmp(other),
        }
    }

    fn compare(&self, range: &KeyRange) -> Ordering {
        self.start().cmp(&range.start).then_with(|| self.compare_end(&range.end))
    }
}

impl<T> Intervals<T> {
    pub(super) fn new() -> Self {
        Self { nodes: Slab::new(), root: None, chance: 0x9e37_79b9 }
    }

    pub(super) fn interval(&self, id: u32) -> &Arc<Interval> {
        &self.nodes[id].interval
    }

    pub(super) fn item_mut(&mut self, id: u32) -> &mut T {
        &mut self.nodes[id].item
    }

    /// The range with this item, or the one that is there already.
    pub(super) fn find_or_insert(&mut self, range: &KeyRange, item: T) -> u32 {
        let mut at = self.root;
        while let Some(id) = at {
            at = match self.nodes[id].interval.compare(range) {
                Ordering::Equal => return id,
                Ordering::Greater => self.nodes[id].left,
                Ordering::Less => self.nodes[id].right,
            };
        }
        let interval = Arc::new(Interval::new(range));
        let priority = self.next_priority();
        let node = Node { interval, item, priority, left: None, right: None, farthest: 0 };
        let id = self.nodes.insert(node);
        self.refresh(id);
        let (before, after) = self.split(self.root, range);
        let joined = self.join(before, Some(id));
        self.root = self.join(joined, after);
        id
    }

    pub(super) fn remove(&mut self, id: u32) {
        let range = self.nodes[id].interval.range();
        self.root = self.without(self.root, id, &range);
        self.nodes.remove(id);
    }

    /// Adds the ranges that hold the key to `found`.
    pub(super) fn find(&self, key: &[u8], found: &mut Vec<u32>) {
        self.find_below(self.root, key, found);
    }

    fn find_below(&self, at: Option<u32>, key: &[u8], found: &mut Vec<u32>) {
        let Some(id) = at else { return };
        let node = &self.nodes[id];
        if !self.nodes[node.farthest].interval.ends_after(key) {
            return;
        }
        self.find_below(node.left, key, found);
        if node.interval.start() <= key {
            if node.interval.ends_after(key) {
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

    fn refresh(&mut self, id: u32) {
        let node = &self.nodes[id];
        let below = [node.left, node.right].into_iter().flatten();
        let mut farthest = id;
        for other in below.map(|it| self.nodes[it].farthest) {
            let end = self.nodes[farthest].interval.end();
            if self.nodes[other].interval.compare_end(end) == Ordering::Greater {
                farthest = other;
            }
        }
        self.nodes[id].farthest = farthest;
    }

    /// What comes before `range`, and what does not.
    fn split(&mut self, at: Option<u32>, range: &KeyRange) -> (Option<u32>, Option<u32>) {
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
    fn join(&mut self, left: Option<u32>, right: Option<u32>) -> Option<u32> {
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

    fn without(&mut self, at: Option<u32>, id: u32, range: &KeyRange) -> Option<u32> {
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
        fn a_key_finds_the_ranges_that_hold_it(
            steps in prop::collection::vec((any::<bool>(), (0u8..100, 0u8..100)), 0..80),
            keys in prop::collection::vec(0u8..100, 1..10),
        ) {
            let mut tree = Intervals::new();
            let mut plain: Vec<(u32, KeyRange)> = Vec::new();
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
                let holds = |it: &&(u32, KeyRange)| it.1.contains(key.as_bytes());
                let mut expected: Vec<u32> = plain.iter().filter(holds).map(|it| it.0).collect();
                found.sort_unstable();
                expected.sort_unstable();
                prop_assert_eq!(found, expected);
            }
        }
    }
}
