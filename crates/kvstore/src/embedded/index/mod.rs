//! Where everything that can still be asked for is in the log, and what of the log nobody needs any
//! more. Pure.
//!
//! Compacted through 5:  2 put a, 3 put b, 4 put a, 5 delete b, 6 put a needless are 2 (4 took its
//! place), 3 (5 did) and 5 itself (a deletion leaves nothing); needed is 4, which is what `a` is at
//! revision 5, though 6 has superseded it.

mod budget;
#[cfg(test)]
mod tests;
mod usage;

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;

use super::log::Place;
use super::record::{EventRecord, WallTime, event_bytes};
use crate::state::{Entry, State, bounds};
use crate::{KeyRange, Revision};

pub use budget::HistoryBudget;
use budget::Marks;
pub(super) use usage::Usage;

#[derive(Default)]
pub(super) struct Index {
    /// Every commit of which some event is needed: all after `oldest`, and older ones with a value
    /// that was still there at `oldest`.
    commits: BTreeMap<Revision, Stored>,
    /// What keys were before they became what they are now, for those that were written more than
    /// once.
    history: BTreeMap<Box<[u8]>, Versions>,
    usage: BTreeMap<u32, Usage>,
    marks: Marks,
    /// What the current entries take in the log.
    bytes_current: u64,
}

/// One commit in the log.
#[derive(Clone, Copy, Debug)]
struct Stored {
    place: Place,
    /// What its needed events take: about, when some are needless.
    bytes: u32,
    n_needed: u32,
}

/// Superseded writes of one key, and its deletions, by revision.
#[derive(Default)]
struct Versions(Vec<Version>);

/// A revision, and in the highest bit whether it was a deletion: half the memory of a struct of the
/// two.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Version(u64);

/// What a key was at some revision.
pub(super) enum Found<'a> {
    /// It still is.
    Current { key: &'a [u8], entry: &'a Entry },
    /// The commit of this revision has it.
    Superseded { key: &'a [u8], revision: Revision },
}

/// A step of `Index::sweep`.
pub(super) enum Swept {
    /// More keys follow; go on with this one.
    Until(Bytes),
    All,
}

impl Version {
    const DELETION: u64 = 1 << 63;

    fn revision(self) -> Revision {
        Revision(self.0 & !Self::DELETION)
    }

    fn is_deletion(self) -> bool {
        self.0 & Self::DELETION != 0
    }
}

impl Versions {
    /// The last one at or before `at`.
    fn at(&self, at: Revision) -> Option<Version> {
        let after = self.0.partition_point(|it| it.revision() <= at);
        after.checked_sub(1).map(|it| self.0[it])
    }

    fn find(&self, revision: Revision) -> Option<Version> {
        self.at(revision).filter(|it| it.revision() == revision)
    }
}

impl Index {
    /// Adds one event of a commit that is in the log. `before` is what the key was until then.
    pub(super) fn note_event(
        &mut self,
        revision: Revision,
        event: &EventRecord<'_>,
        before: Option<&Entry>,
    ) {
        if let Some(value) = event.value {
            self.bytes_current += size(event_bytes(event.key, value));
        }
        if before.is_none() && event.value.is_some() {
            return;
        }
        let versions = match self.history.get_mut(event.key) {
            Some(versions) => versions,
            None => self.history.entry(event.key.into()).or_default(),
        };
        if let Some(before) = before {
            let bytes = size(event_bytes(event.key, &[])) + u64::from(before.value_bytes);
            self.bytes_current -= bytes;
            self.marks.supersede(bytes);
            versions.0.push(Version(before.mod_revision.0));
        }
        if event.value.is_none() {
            self.marks.supersede(size(event_bytes(event.key, &[])));
            versions.0.push(Version(revision.0 | Version::DELETION));
        }
    }

    /// Adds a commit with events, after its events.
    pub(super) fn note_commit(
        &mut self,
        revision: Revision,
        place: Place,
        (bytes, n_events): (usize, usize),
        time: WallTime,
    ) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let n_needed = u32::try_from(n_events).unwrap_or(u32::MAX);
        self.commits.insert(revision, Stored { place, bytes, n_needed });
        self.usage.entry(place.segment).or_default().needed += u64::from(bytes);
        self.marks.note(time, revision);
    }

    /// What the present takes in the log.
    pub(super) fn bytes_current(&self) -> u64 {
        self.bytes_current
    }

    pub(super) fn place(&self, revision: Revision) -> Option<Place> {
        self.commits.get(&revision).map(|it| it.place)
    }

    /// The last commit with events of which something is needed.
    pub(super) fn last(&self) -> Option<Revision> {
        self.commits.last_key_value().map(|(revision, _)| *revision)
    }

    /// Commits with events, in order.
    pub(super) fn commits(
        &self,
        from: Revision,
        through: Revision,
    ) -> impl Iterator<Item = (Revision, Place)> {
        let bounds = (Bound::Included(from), Bound::Included(through.max(from)));
        self.commits
            .range(bounds)
            .map(|(revision, it)| (*revision, it.place))
            .filter(move |it| it.0 <= through)
    }

    /// What the keys of the range were at `at`, in order, looking at so many keys at most. Returns
    /// the key to go on with.
    pub(super) fn visit_at<'a>(
        &'a self,
        state: &'a State,
        range: &KeyRange,
        (at, keys_max): (Revision, usize),
        mut take: impl FnMut(Found<'a>),
    ) -> Option<Bytes> {
        let mut others = self.history.range::<[u8], _>(bounds(range)?).peekable();
        let mut entries = state.entries(range).peekable();
        for _ in 0..keys_max {
            let entry = match (entries.peek(), others.peek()) {
                (None, None) => return None,
                (Some((entry_key, _)), Some((key, _))) if *entry_key <= key.as_ref() => {
                    entries.next()
                }
                (Some(_), None) => entries.next(),
                (_, Some(_)) => None,
            };
            let history = match entry {
                Some((entry_key, _)) => others.next_if(|(key, _)| key.as_ref() == entry_key),
                None => others.next(),
            };
            if let Some((key, entry)) = entry.filter(|(_, it)| it.mod_revision <= at) {
                take(Found::Current { key, entry });
            } else if let Some((key, versions)) = history
                && let Some(version) = versions.at(at).filter(|it| !it.is_deletion())
            {
                take(Found::Superseded { key, revision: version.revision() });
            }
        }
        let entry = entries.peek().map(|it| it.0);
        let other = others.peek().map(|(key, _)| key.as_ref());
        entry.into_iter().chain(other).min().map(Bytes::copy_from_slice)
    }

    /// Forgets what nobody can ask for once history up to `oldest` is given up, for some keys from
    /// `from` on.
    pub(super) fn sweep(
        &mut self,
        state: &State,
        oldest: Revision,
        from: &Bytes,
        keys_max: usize,
    ) -> Swept {
        let mut needless = Vec::new();
        let mut emptied = Vec::new();
        let mut next = Swept::All;
        let start = (Bound::Included(from.as_ref()), Bound::Unbounded);
        for (n, (key, versions)) in self.history.range_mut::<[u8], _>(start).enumerate() {
            if n == keys_max {
                next = Swept::Until(Bytes::copy_from_slice(key));
                break;
            }
            let is_settled = state.get(key).is_some_and(|it| it.mod_revision <= oldest);
            let n_past = versions.0.partition_point(|it| it.revision() <= oldest);
            let n_needless = match n_past.checked_sub(1).map(|it| versions.0[it]) {
                _ if is_settled => versions.0.len(),
                None => 0,
                Some(last) if last.is_deletion() => n_past,
                Some(_) => n_past - 1,
            };
            needless.extend(versions.0.drain(..n_needless));
            if versions.0.is_empty() {
                emptied.push(key.clone());
            } else if n_needless > 0 {
                versions.0.shrink_to_fit();
            }
        }
        emptied.iter().for_each(|key| drop(self.history.remove(key)));
        needless.into_iter().for_each(|it| self.forget(it));
        next
    }

    fn forget(&mut self, version: Version) {
        let revision = version.revision();
        let Some(stored) = self.commits.get_mut(&revision) else { return };
        let share = stored.bytes / stored.n_needed.max(1);
        stored.bytes -= share;
        stored.n_needed = stored.n_needed.saturating_sub(1);
        let usage = self.usage.entry(stored.place.segment).or_default();
        usage.forget(u64::from(share), version.is_deletion());
        if stored.n_needed == 0 {
            usage.needed -= u64::from(stored.bytes);
            self.commits.remove(&revision);
        }
    }

    /// Whether an event of a commit in the log can still be asked for.
    pub(super) fn needs(&self, state: &State, revision: Revision, event: &EventRecord<'_>) -> bool {
        let is_current = state.get(event.key).is_some_and(|it| it.mod_revision == revision);
        is_current || self.history.get(event.key).is_some_and(|it| it.find(revision).is_some())
    }

    /// A commit is now somewhere else, perhaps with some of its needless events gone.
    pub(super) fn move_commit(&mut self, revision: Revision, place: Place, bytes: usize) {
        let Some(stored) = self.commits.get_mut(&revision) else { return };
        if let Some(usage) = self.usage.get_mut(&stored.place.segment) {
            usage.needed = usage.needed.saturating_sub(u64::from(stored.bytes));
        }
        stored.place = place;
        stored.bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.usage.entry(place.segment).or_default().needed += u64::from(stored.bytes);
    }

    /// How the segments are used, by their id.
    pub(super) fn usage(&self) -> &BTreeMap<u32, Usage> {
        &self.usage
    }

    /// Segments were replaced by one, which kept so many needless deletions.
    pub(super) fn replace_segments(&mut self, old: &[u32], new: u32, n_deletions_needless: u64) {
        self.usage.retain(|id, _| !old.contains(id));
        self.usage.entry(new).or_default().n_deletions_needless = n_deletions_needless;
    }

    /// Through which revision history has to be given up to keep the budget.
    pub(super) fn over_budget(
        &self,
        budget: &HistoryBudget,
        now: WallTime,
        oldest: Revision,
    ) -> Option<Revision> {
        self.marks.over_budget(budget, now, oldest)
    }

    /// When the next part of history becomes too old.
    pub(super) fn next_too_old(
        &self,
        budget: &HistoryBudget,
        oldest: Revision,
    ) -> Option<WallTime> {
        self.marks.next_too_old(budget, oldest)
    }

    pub(super) fn forget_marks(&mut self, oldest: Revision) {
        self.marks.forget(oldest);
    }
}

fn size(bytes: usize) -> u64 {
    bytes as u64
}
