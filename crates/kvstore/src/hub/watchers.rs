//! All watchers, found by the keys they watch. One that has nothing to read (*idle*) stands in the list of its range; one
//! that has (*pending*) stands in no list, so that commits do not come by it again.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::task::Waker;

use super::intervals::{Interval, Intervals};
use super::slab::Slab;
use crate::{Event, EventFilter, KeyRange, Revision};

pub(super) struct Watchers {
    watchers: Slab<Watcher>,
    ranges: Intervals<Audience>,
    /// Those that wait to be told that the store has come to their floor.
    expectant: BTreeSet<(Revision, u32)>,
    /// Kept for its capacity.
    found: Vec<u32>,
}

struct Watcher {
    range: u32,
    /// In its range's list, while it is idle.
    position: u32,
    /// Nothing up to here is wanted. Ahead of the store only when the watch is from a future revision.
    floor: Revision,
    /// The first revision not yet looked at. `None`: nothing after the last delivery concerns it.
    pending: Option<Revision>,
    events: EventFilter,
    waker: Option<Waker>,
}

/// The watchers of one range.
#[derive(Default)]
struct Audience {
    idle: Vec<u32>,
    n_watchers: u32,
}

impl Watchers {
    pub(super) fn new() -> Self {
        Self {
            watchers: Slab::new(),
            ranges: Intervals::new(),
            expectant: BTreeSet::new(),
            found: Vec::new(),
        }
    }

    pub(super) fn add(
        &mut self,
        range: &KeyRange,
        events: EventFilter,
        floor: Revision,
        pending: Option<Revision>,
    ) -> (u32, Arc<Interval>) {
        let range = self.ranges.find_or_insert(range, Audience::default());
        let watcher = Watcher { range, position: 0, floor, pending, events, waker: None };
        let id = self.watchers.insert(watcher);
        self.ranges.item_mut(range).n_watchers += 1;
        if pending.is_none() {
            self.enlist(id);
        }
        (id, self.ranges.interval(range).clone())
    }

    pub(super) fn remove(&mut self, id: u32) {
        if self.watchers[id].pending.is_none() {
            self.unlist(id);
        }
        let Some(watcher) = self.watchers.remove(id) else { return };
        self.expectant.remove(&(watcher.floor, id));
        let audience = self.ranges.item_mut(watcher.range);
        audience.n_watchers -= 1;
        if audience.n_watchers == 0 {
            self.ranges.remove(watcher.range);
        }
    }

    pub(super) fn pending(&self, id: u32) -> Option<Revision> {
        self.watchers[id].pending
    }

    pub(super) fn floor(&self, id: u32) -> Revision {
        self.watchers[id].floor
    }

    /// The watcher is woken when it has something to read.
    pub(super) fn wait(&mut self, id: u32, waker: &Waker) {
        let place = &mut self.watchers[id].waker;
        match place {
            Some(old) if old.will_wake(waker) => {}
            _ => *place = Some(waker.clone()),
        }
    }

    /// The watcher is also woken when the store has come to its floor.
    pub(super) fn expect_floor(&mut self, id: u32) {
        self.expectant.insert((self.watchers[id].floor, id));
    }

    /// The watcher has seen everything before `next`; `None` is everything there is.
    pub(super) fn advance(&mut self, id: u32, next: Option<Revision>) {
        let was_pending = self.watchers[id].pending.is_some();
        self.watchers[id].pending = next;
        match (was_pending, next.is_some()) {
            (true, false) => self.enlist(id),
            (false, true) => self.unlist(id),
            _ => {}
        }
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

    fn announce_to(&mut self, range: u32, event: &Event, wake: &mut Vec<Waker>) {
        let idle = &mut self.ranges.item_mut(range).idle;
        let mut position = 0;
        while position < idle.len() {
            let watcher = &mut self.watchers[idle[position]];
            if event.revision <= watcher.floor || !watcher.events.admits(event) {
                position += 1;
                continue;
            }
            watcher.pending = Some(event.revision);
            wake.extend(watcher.waker.take());
            idle.swap_remove(position);
            if let Some(moved) = idle.get(position) {
                self.watchers[*moved].position = number(position);
            }
        }
    }

    /// Wakes those that wait for the store to come to `revision`.
    pub(super) fn arrive(&mut self, revision: Revision, wake: &mut Vec<Waker>) {
        while let Some((floor, id)) = self.expectant.first().copied()
            && floor <= revision
        {
            self.expectant.pop_first();
            wake.extend(self.watchers[id].waker.take());
        }
    }

    pub(super) fn wake_all(&mut self, wake: &mut Vec<Waker>) {
        wake.extend(self.watchers.values_mut().filter_map(|it| it.waker.take()));
    }

    fn enlist(&mut self, id: u32) {
        let idle = &mut self.ranges.item_mut(self.watchers[id].range).idle;
        self.watchers[id].position = number(idle.len());
        idle.push(id);
    }

    fn unlist(&mut self, id: u32) {
        let (range, position) = (self.watchers[id].range, self.watchers[id].position);
        let idle = &mut self.ranges.item_mut(range).idle;
        idle.swap_remove(position as usize);
        if let Some(moved) = idle.get(position as usize) {
            self.watchers[*moved].position = position;
        }
    }
}

fn number(position: usize) -> u32 {
    u32::try_from(position).expect("a list has no more than all watchers, whose names are u32")
}
