//! Numbers of chains and sets, and the names that they make.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Gives the lowest free number. One that is given back is given again only after the kernel was
/// told ([`Slots::settle`]): one transaction does not remove and make something of one name.
#[derive(Debug, Default)]
pub(super) struct Slots {
    free: BTreeSet<u32>,
    given_back: Vec<u32>,
    next: u32,
}

impl Slots {
    pub(super) fn take(&mut self) -> u32 {
        self.free.pop_first().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        })
    }

    pub(super) fn give_back(&mut self, slot: u32) {
        self.given_back.push(slot);
    }

    pub(super) fn settle(&mut self) {
        self.free.extend(self.given_back.drain(..));
    }
}

static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

/// The name of a numbered set, which lives as long as the process, as names of sets do. Numbers are
/// used again, so there are as many names as there ever were sets at once.
pub(super) fn set_name(kind: &str, slot: u32) -> &'static str {
    let name = format!("{kind}-{slot}");
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.get(name.as_str()) {
        return known;
    }
    let name: &'static str = Box::leak(name.into_boxed_str());
    names.insert(name);
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_used_again_after_the_kernel_was_told() {
        let mut slots = Slots::default();
        assert_eq!([slots.take(), slots.take()], [0, 1]);
        slots.give_back(0);
        assert_eq!(slots.take(), 2);
        slots.settle();
        assert_eq!([slots.take(), slots.take()], [0, 3]);
    }

    #[test]
    fn a_name_is_made_once() {
        assert!(std::ptr::eq(set_name("a", 1), set_name("a", 1)));
        assert_ne!(set_name("a", 1), set_name("a", 2));
    }
}
