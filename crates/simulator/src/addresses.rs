//! Pod addresses, handed out in order from one range and taken again when a pod is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use apimachinery::ObjectKey;

/// Invariant: `taken` and `by_pod` hold the same addresses.
pub(crate) struct Addresses {
    first: u32,
    last: u32,
    next: u32,
    taken: BTreeSet<u32>,
    by_pod: BTreeMap<ObjectKey, u32>,
}

impl Addresses {
    /// The network and broadcast addresses of the range stay free.
    pub(crate) fn new(network: Ipv4Addr, prefix_length: u8) -> Self {
        let size = 1u64 << (32 - u32::from(prefix_length.min(30)));
        let network = u32::from(network) & !((size - 1) as u32);
        let (first, last) = (network + 1, network + (size - 2) as u32);
        Self { first, last, next: first, taken: BTreeSet::new(), by_pod: BTreeMap::new() }
    }

    /// The pod's address; the same one when asked again. `None` when the range is used up.
    pub(crate) fn assign(&mut self, pod: &ObjectKey) -> Option<Ipv4Addr> {
        if let Some(address) = self.by_pod.get(pod) {
            return Some(Ipv4Addr::from(*address));
        }
        if self.taken.len() as u64 > u64::from(self.last - self.first) {
            return None;
        }
        while self.taken.contains(&self.next) {
            self.advance();
        }
        let address = self.next;
        self.advance();
        self.keep(pod, address);
        Some(Ipv4Addr::from(address))
    }

    /// An address that the API already shows, such as after a restart.
    pub(crate) fn observe(&mut self, pod: &ObjectKey, address: Ipv4Addr) {
        let address = u32::from(address);
        if (self.first..=self.last).contains(&address) && !self.by_pod.contains_key(pod) {
            self.keep(pod, address);
        }
    }

    pub(crate) fn release(&mut self, pod: &ObjectKey) {
        if let Some(address) = self.by_pod.remove(pod) {
            self.taken.remove(&address);
        }
    }

    fn keep(&mut self, pod: &ObjectKey, address: u32) {
        self.taken.insert(address);
        self.by_pod.insert(pod.clone(), address);
    }

    fn advance(&mut self) {
        self.next = if self.next == self.last { self.first } else { self.next + 1 };
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use apimachinery::ObjectKey;

    use super::Addresses;

    #[test]
    fn addresses_are_unique_and_come_back_after_release() {
        let mut addresses = Addresses::new(Ipv4Addr::new(10, 0, 0, 0), 30);
        let (a, b, c) = (ObjectKey::cluster("a"), ObjectKey::cluster("b"), ObjectKey::cluster("c"));
        assert_eq!(addresses.assign(&a), Some(Ipv4Addr::new(10, 0, 0, 1)));
        assert_eq!(addresses.assign(&a), Some(Ipv4Addr::new(10, 0, 0, 1)));
        assert_eq!(addresses.assign(&b), Some(Ipv4Addr::new(10, 0, 0, 2)));
        assert_eq!(addresses.assign(&c), None);
        addresses.release(&a);
        assert_eq!(addresses.assign(&c), Some(Ipv4Addr::new(10, 0, 0, 1)));
    }
}
