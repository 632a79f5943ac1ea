//! Things with small numbers for names. A number is given again after its thing was removed.

use std::ops::{Index, IndexMut};

pub(super) struct Slab<T> {
    items: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(super) fn new() -> Self {
        Self { items: Vec::new(), free: Vec::new() }
    }

    pub(super) fn insert(&mut self, item: T) -> u32 {
        if let Some(id) = self.free.pop() {
            self.items[id as usize] = Some(item);
            return id;
        }
        let id = u32::try_from(self.items.len()).expect("memory ends before the numbers do");
        self.items.push(Some(item));
        id
    }

    pub(super) fn remove(&mut self, id: u32) -> Option<T> {
        let item = self.items[id as usize].take();
        if item.is_some() {
            self.free.push(id);
        }
        item
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.items.iter_mut().flatten()
    }
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, id: u32) -> &T {
        self.items[id as usize].as_ref().expect("a number is used until its thing is removed")
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, id: u32) -> &mut T {
        self.items[id as usize].as_mut().expect("a number is used until its thing is removed")
    }
}
