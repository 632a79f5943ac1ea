//! Owners that the server did not have: a uid never comes back, so it need not be asked again for
//! each of their dependents. Bounded: the oldest makes room.

use std::collections::{BTreeSet, VecDeque};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

const MAX: usize = 500;

/// What a reference names, and where it was looked for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Named {
    namespace: String,
    api_version: String,
    kind: String,
    name: String,
    uid: String,
}

impl Named {
    pub(super) fn new(namespace: &str, reference: &OwnerReference) -> Self {
        let OwnerReference { api_version, kind, name, uid, .. } = reference.clone();
        Self { namespace: namespace.to_owned(), api_version, kind, name, uid }
    }
}

/// `order` has what `all` has, oldest first.
#[derive(Default)]
pub(super) struct Absent {
    all: BTreeSet<Named>,
    order: VecDeque<Named>,
}

impl Absent {
    pub(super) fn has(&self, named: &Named) -> bool {
        self.all.contains(named)
    }

    pub(super) fn add(&mut self, named: Named) {
        if !self.all.insert(named.clone()) {
            return;
        }
        self.order.push_back(named);
        if self.order.len() > MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.all.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Absent, MAX, Named};

    #[test]
    fn the_oldest_makes_room() {
        let named = |n: usize| Named::new(&n.to_string(), &Default::default());
        let mut absent = Absent::default();
        for n in 0..=MAX {
            absent.add(named(n));
            absent.add(named(n));
        }
        assert!(!absent.has(&named(0)) && absent.has(&named(1)) && absent.has(&named(MAX)));
        assert_eq!((absent.all.len(), absent.order.len()), (MAX, MAX));
    }
}
