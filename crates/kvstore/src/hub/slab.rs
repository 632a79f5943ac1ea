//! Things with small numbers for names. A number is given again after its thing was removed.

use std::num::NonZeroU32;
use std::ops::{Index, IndexMut};

/// The name of a thing. Not zero, so that `Option<Id>` takes four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Id(NonZeroU32);

/// Items of one page. A slab grows by pages: nothing is moved, and nothing is left behind for the
/// allocator to keep.
const PAGE: usize = 256;

pub(super) struct Slab<T> {
    /// All but the last are full.
    pages: Vec<Vec<Option<T>>>,
    free: Vec<Id>,
}

impl Id {
    fn at(self) -> (usize, usize) {
        let index = self.0.get() as usize - 1;
        (index / PAGE, index % PAGE)
    }
}

impl<T> Slab<T> {
    pub(super) fn new() -> Self {
        Self { pages: Vec::new(), free: Vec::new() }
    }

    pub(super) fn insert(&mut self, item: T) -> Id {
        if let Some(id) = self.free.pop() {
            *self.slot(id) = Some(item);
            return id;
        }
        if self.pages.last().is_none_or(|it| it.len() == PAGE) {
            // Most slabs have one thing or very many.
            let capacity = if self.pages.is_empty() { 0 } else { PAGE };
            self.pages.push(Vec::with_capacity(capacity));
        }
        let n_full = self.pages.len() - 1;
        let page = &mut self.pages[n_full];
        page.push(Some(item));
        let number = u32::try_from(n_full * PAGE + page.len()).ok().and_then(NonZeroU32::new);
        Id(number.expect("memory ends before the numbers do"))
    }

    pub(super) fn remove(&mut self, id: Id) -> Option<T> {
        let item = self.slot(id).take();
        if item.is_some() {
            self.free.push(id);
        }
        item
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.pages.iter_mut().flatten().flatten()
    }

    fn slot(&mut self, id: Id) -> &mut Option<T> {
        let (page, at) = id.at();
        &mut self.pages[page][at]
    }
}

impl<T> Index<Id> for Slab<T> {
    type Output = T;

    fn index(&self, id: Id) -> &T {
        let (page, at) = id.at();
        self.pages[page][at].as_ref().expect("a number is used until its thing is removed")
    }
}

impl<T> IndexMut<Id> for Slab<T> {
    fn index_mut(&mut self, id: Id) -> &mut T {
        self.slot(id).as_mut().expect("a number is used until its thing is removed")
    }
}

#[cfg(test)]
mod tests {
    use super::{PAGE, Slab};

    #[test]
    fn numbers_stand_for_their_things_over_many_pages() {
        let mut slab = Slab::new();
        let ids: Vec<_> = (0..3 * PAGE + 1).map(|it| slab.insert(it)).collect();
        for (thing, id) in ids.iter().enumerate().step_by(3) {
            assert_eq!(slab.remove(*id), Some(thing));
            assert_eq!(slab.remove(*id), None);
        }
        let again = slab.insert(usize::MAX);
        assert!(ids.iter().step_by(3).any(|it| *it == again), "a number is given again");
        for (thing, id) in ids.iter().enumerate().filter(|(thing, _)| thing % 3 != 0) {
            assert_eq!(slab[*id], thing);
        }
        assert_eq!(slab.values_mut().count(), 2 * PAGE + 1);
    }
}
