//! All watchers, found by the keys they watch, and the groups they belong to. One that has nothing
//! to read (*idle*) stands in the list of its range; one that has (*pending*) stands in a list of
//! its group, so that commits do not come by it again.

use std::collections::BTreeSet;
use std::task::Waker;

use super::intervals::{Interval, Intervals};
use super::lists::{Links, List};
use super::slab::{Id, Slab};
use crate::{Event, EventFilter, KeyRange, Revision, WatchId};

pub(super) struct Watchers {
    watchers: Slab<Watcher>,
    ranges: Intervals<Audience>,
    groups: Slab<Group>,
    /// Those whose first revision is still to come, by the one before it.
    expectant: BTreeSet<(Revision, Id)>,
    /// Kept for its capacity.
    found: Vec<Id>,
    /// Those that want to know what was before.
    pub(super) n_previous: usize,
}

/// There may be very many: its size counts.
pub(super) struct Watcher {
    name: WatchId,
    standing: Standing,
    pub(super) links: Links,
    range: Id,
    group: Id,
    events: EventFilter,
    previous: bool,
}

/// Where a watcher stands; with a revision that is the first it has not looked at, except for
/// `Expectant`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Nothing after the last delivery concerns it. In the list of its range.
    Idle,
    /// The store has not come to this revision, and nothing up to it is wanted. In `expectant`.
    Expectant(Revision),
    /// In its group's list of those that can be served.
    Ready(Revision),
    /// The ring begins later, and the history is being read for another. In its group's list of
    /// such.
    Behind(Revision),
    /// The history is being read for it. In no list.
    Reading(Revision),
}

/// The watchers of one range.
#[derive(Default)]
struct Audience {
    idle: List,
    n_watchers: u32,
}

/// Watchers with one reader.
#[derive(Default)]
struct Group {
    waker: Option<Waker>,
    ready: List,
    behind: List,
    reading: Option<Id>,
    n_expectant: u32,
    asked: Option<Asked>,
}

/// The reader has asked how far the group is.
struct Asked {
    /// Where the store was.
    at: Revision,
    /// Watchers that have not seen everything up to there.
    n_owing: u32,
}

/// What a reader has to know to serve a watcher.
pub(super) struct Served {
    pub(super) id: Id,
    pub(super) name: WatchId,
    pub(super) interval: Interval,
    pub(super) events: EventFilter,
    pub(super) previous: bool,
}

impl Standing {
    fn pending(self) -> Option<Revision> {
        match self {
            Self::Idle | Self::Expectant(_) => None,
            Self::Ready(from) | Self::Behind(from) | Self::Reading(from) => Some(from),
        }
    }
}

impl Asked {
    fn is_owed_by(&self, standing: Standing) -> bool {
        standing.pending().is_some_and(|from| from <= self.at)
    }
}

impl Watchers {
    pub(super) fn new() -> Self {
        Self {
            watchers: Slab::new(),
            ranges: Intervals::new(),
            groups: Slab::new(),
            expectant: BTreeSet::new(),
            found: Vec::new(),
            n_previous: 0,
        }
    }

    pub(super) fn add_group(&mut self) -> Id {
        self.groups.insert(Group::default())
    }

    /// Its watchers are to be removed before.
    pub(super) fn remove_group(&mut self, group: Id) {
        self.groups.remove(group);
    }

    /// A watcher of everything after `after`, in a store that is at `revision`.
    pub(super) fn add(
        &mut self,
        (group, name): (Id, WatchId),
        range: &KeyRange,
        (events, previous): (EventFilter, bool),
        (after, revision): (Revision, Revision),
    ) -> Id {
        let range = self.ranges.find_or_insert(range, Audience::default());
        self.ranges.item_mut(range).n_watchers += 1;
        let (standing, links) = (Standing::Idle, Links::default());
        let watcher = Watcher { name, standing, links, range, group, events, previous };
        let id = self.watchers.insert(watcher);
        self.n_previous += usize::from(previous);
        self.enlist(id);
        if after < revision {
            self.stand(id, Standing::Ready(after.next()));
        } else if after > revision {
            self.stand(id, Standing::Expectant(after));
        }
        id
    }

    pub(super) fn remove(&mut self, id: Id) {
        if matches!(self.watchers[id].standing, Standing::Reading(_)) {
            self.end_reading(self.watchers[id].group);
        }
        // Idle ones are in no count.
        self.stand(id, Standing::Idle);
        self.unlist(id);
        let Some(watcher) = self.watchers.remove(id) else { return };
        self.n_previous -= usize::from(watcher.previous);
        let audience = self.ranges.item_mut(watcher.range);
        audience.n_watchers -= 1;
        if audience.n_watchers == 0 {
            self.ranges.remove(watcher.range);
        }
    }

    /// How far a watcher is, in a store that is at `revision`: what it wants up to here has been
    /// delivered.
    pub(super) fn progress(&self, id: Id, revision: Revision) -> Revision {
        match self.watchers[id].standing {
            Standing::Idle => revision,
            Standing::Expectant(after) => after,
            Standing::Ready(from) | Standing::Behind(from) | Standing::Reading(from) => {
                Revision(from.0 - 1)
            }
        }
    }

    /// Whose turn it is in the group, and what it needs next. When nothing is being read, one that
    /// waits for that is first.
    pub(super) fn first_ready(&self, group: Id) -> Option<(Id, Revision)> {
        let Group { ready, behind, reading, .. } = &self.groups[group];
        let behind = behind.first().filter(|_| reading.is_none());
        let id = behind.or_else(|| ready.first())?;
        self.watchers[id].standing.pending().map(|from| (id, from))
    }

    pub(super) fn served(&self, id: Id) -> Served {
        let Watcher { name, range, events, previous, .. } = self.watchers[id];
        Served { id, name, interval: self.ranges.interval(range).clone(), events, previous }
    }

    /// The watcher, whose turn it is, needs the history. False: it has to wait until another's was
    /// read.
    pub(super) fn begin_reading(&mut self, id: Id, from: Revision) -> bool {
        let group = self.watchers[id].group;
        if self.groups[group].reading.is_some() {
            self.stand(id, Standing::Behind(from));
            return false;
        }
        self.stand(id, Standing::Reading(from));
        self.groups[group].reading = Some(id);
        true
    }

    /// The group may read for the next one that waits.
    pub(super) fn end_reading(&mut self, group: Id) {
        self.groups[group].reading = None;
    }

    /// The watcher has seen everything before `next`; `None` is everything there is. Others of its
    /// group are served first.
    pub(super) fn advance(&mut self, id: Id, next: Option<Revision>) {
        self.stand(id, next.map_or(Standing::Idle, Standing::Ready));
    }

    /// The group's reader is woken when it has something to read.
    pub(super) fn wait(&mut self, group: Id, waker: &Waker) {
        let place = &mut self.groups[group].waker;
        match place {
            Some(old) if old.will_wake(waker) => {}
            _ => *place = Some(waker.clone()),
        }
    }

    /// The reader wants to know when everything up to `at` has been delivered, where the store is.
    pub(super) fn ask_progress(&mut self, group: Id, at: Revision) {
        let n_owing = self.pending_of(group).filter(|from| *from <= at).count();
        let n_owing = u32::try_from(n_owing).expect("names of watchers are u32");
        self.groups[group].asked = Some(Asked { at, n_owing });
    }

    /// The answer, once it can be given: how far the whole group is, in a store that is at
    /// `revision`.
    pub(super) fn take_progress(&mut self, group: Id, revision: Revision) -> Option<Revision> {
        let of_group = &mut self.groups[group];
        let is_there = of_group.n_expectant == 0;
        of_group.asked.take_if(|it| it.n_owing == 0 && is_there)?;
        let least = self.pending_of(group).min();
        Some(least.map_or(revision, |from| Revision(from.0 - 1)))
    }

    fn pending_of(&self, group: Id) -> impl Iterator<Item = Revision> {
        let Group { ready, behind, reading, .. } = self.groups[group];
        let listed = ready.iter(&self.watchers).chain(behind.iter(&self.watchers));
        listed.chain(reading).filter_map(|id| self.watchers[id].standing.pending())
    }

    /// Makes those pending whom the event concerns.
    pub(super) fn announce(&mut self, event: &Event, wake: &mut Vec<Waker>) {
        let mut found = std::mem::take(&mut self.found);
        self.ranges.find(&event.key, &mut found);
        for range in found.drain(..) {
            self.announce_to(range, event, wake);
        }
        self.found = found;
    }

    fn announce_to(&mut self, range: Id, event: &Event, wake: &mut Vec<Waker>) {
        let mut at = self.ranges.item_mut(range).idle.first();
        while let Some(id) = at {
            let Watcher { links, group, events, .. } = self.watchers[id];
            at = links.after();
            if events.admits(event) {
                self.stand(id, Standing::Ready(event.revision));
                wake.extend(self.groups[group].waker.take());
            }
        }
    }

    /// The store has come to `revision`: those that begin after it are idle now.
    pub(super) fn arrive(&mut self, revision: Revision, wake: &mut Vec<Waker>) {
        while let Some((after, id)) = self.expectant.first().copied()
            && after <= revision
        {
            self.stand(id, Standing::Idle);
            let group = self.watchers[id].group;
            if let Some(asked) = &self.groups[group].asked {
                // The answer is not to be before the beginning of any: others have to come there
                // too.
                self.ask_progress(group, asked.at.max(after));
                wake.extend(self.groups[group].waker.take());
            }
        }
    }

    pub(super) fn wake_all(&mut self, wake: &mut Vec<Waker>) {
        wake.extend(self.groups.values_mut().filter_map(|it| it.waker.take()));
    }

    /// The one way to stand elsewhere: keeps lists and counts right.
    fn stand(&mut self, id: Id, standing: Standing) {
        self.unlist(id);
        let watcher = &mut self.watchers[id];
        let before = std::mem::replace(&mut watcher.standing, standing);
        if let Some(asked) = &mut self.groups[watcher.group].asked {
            asked.n_owing += u32::from(asked.is_owed_by(standing));
            asked.n_owing -= u32::from(asked.is_owed_by(before));
        }
        self.enlist(id);
    }

    fn enlist(&mut self, id: Id) {
        let Watcher { standing, range, group, .. } = self.watchers[id];
        let of_group = &mut self.groups[group];
        match standing {
            Standing::Idle => {
                self.ranges.item_mut(range).idle.push_back(&mut self.watchers, id);
            }
            Standing::Expectant(after) => {
                self.expectant.insert((after, id));
                of_group.n_expectant += 1;
            }
            Standing::Ready(_) => of_group.ready.push_back(&mut self.watchers, id),
            Standing::Behind(_) => of_group.behind.push_back(&mut self.watchers, id),
            Standing::Reading(_) => {}
        }
    }

    fn unlist(&mut self, id: Id) {
        let Watcher { standing, range, group, .. } = self.watchers[id];
        let of_group = &mut self.groups[group];
        match standing {
            Standing::Idle => self.ranges.item_mut(range).idle.remove(&mut self.watchers, id),
            Standing::Expectant(after) => {
                self.expectant.remove(&(after, id));
                of_group.n_expectant -= 1;
            }
            Standing::Ready(_) => of_group.ready.remove(&mut self.watchers, id),
            Standing::Behind(_) => of_group.behind.remove(&mut self.watchers, id),
            Standing::Reading(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Watcher;

    #[test]
    fn a_watcher_takes_as_little_as_it_says() {
        assert!(size_of::<Option<Watcher>>() <= 48, "{}", size_of::<Option<Watcher>>());
    }
}
