//! Lists of watchers. A watcher stands in one list at a time and has the links itself: lists take
//! no memory, however long they get.

use super::slab::{Id, Slab};
use super::watchers::Watcher;

/// A watcher's neighbors in the list it stands in.
#[derive(Clone, Copy, Default)]
pub(super) struct Links {
    before: Option<Id>,
    after: Option<Id>,
}

#[derive(Clone, Copy, Default)]
pub(super) struct List {
    first: Option<Id>,
    last: Option<Id>,
}

impl List {
    pub(super) fn first(self) -> Option<Id> {
        self.first
    }

    pub(super) fn iter(self, watchers: &Slab<Watcher>) -> impl Iterator<Item = Id> {
        std::iter::successors(self.first, |id| watchers[*id].links.after)
    }

    pub(super) fn push_back(&mut self, watchers: &mut Slab<Watcher>, id: Id) {
        watchers[id].links = Links { before: self.last, after: None };
        match self.last.replace(id) {
            Some(last) => watchers[last].links.after = Some(id),
            None => self.first = Some(id),
        }
    }

    pub(super) fn remove(&mut self, watchers: &mut Slab<Watcher>, id: Id) {
        let Links { before, after } = std::mem::take(&mut watchers[id].links);
        match before {
            Some(before) => watchers[before].links.after = after,
            None => self.first = after,
        }
        match after {
            Some(after) => watchers[after].links.before = before,
            None => self.last = before,
        }
    }
}

impl Links {
    pub(super) fn after(self) -> Option<Id> {
        self.after
    }
}
