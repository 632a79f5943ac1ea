//! What a store should hold: every state it had, which of them must be there after a crash, and
//! which may be.

use std::collections::{BTreeMap, BTreeSet};

use crate::{KeyValue, LeaseId, Revision};

/// The keys at one revision.
pub(super) type Keys = BTreeMap<Vec<u8>, KeyValue>;

#[derive(Clone, Debug)]
pub(super) struct Model {
    /// By revision. The last ones may be of writes that were not acknowledged.
    pub(super) states: BTreeMap<Revision, Keys>,
    /// Acknowledged, so that no later revision may be given again.
    pub(super) acknowledged: Revision,
    /// Acknowledged as durable.
    pub(super) durable: Revision,
    /// Compacted through here for certain, and perhaps.
    pub(super) oldest: Revision,
    pub(super) oldest_asked: Revision,
    /// Granted and not revoked for certain; `maybe` changes that were not acknowledged.
    pub(super) leases: BTreeSet<LeaseId>,
    pub(super) leases_maybe: BTreeSet<LeaseId>,
}

/// One write of a transaction.
#[derive(Clone, Debug)]
pub(super) enum Write {
    Put(Vec<u8>, Vec<u8>, Option<LeaseId>),
    Delete(Vec<u8>),
}

impl Model {
    pub(super) fn new() -> Self {
        let start = Revision::EMPTY;
        Self {
            states: BTreeMap::from([(start, Keys::new())]),
            acknowledged: start,
            durable: start,
            oldest: start,
            oldest_asked: start,
            leases: BTreeSet::new(),
            leases_maybe: BTreeSet::new(),
        }
    }

    pub(super) fn last(&self) -> (Revision, &Keys) {
        let (revision, keys) = self.states.last_key_value().expect("the empty state is there");
        (*revision, keys)
    }

    /// Adds the state after a transaction, if it changes anything. `from` is the store's revision
    /// before it.
    pub(super) fn write(&mut self, from: Revision, writes: &[Write]) -> Option<Revision> {
        let revision = from.next();
        let mut keys = self.last().1.clone();
        let mut is_changed = false;
        for write in writes {
            match write {
                Write::Put(key, value, lease) => {
                    let before = keys.get(key);
                    let entry = KeyValue {
                        key: key.clone().into(),
                        value: value.clone().into(),
                        create_revision: before.map_or(revision, |it| it.create_revision),
                        mod_revision: revision,
                        version: before.map_or(1, |it| it.version + 1),
                        lease: *lease,
                    };
                    keys.insert(key.clone(), entry);
                    is_changed = true;
                }
                Write::Delete(key) => is_changed |= keys.remove(key).is_some(),
            }
        }
        is_changed.then(|| {
            self.states.insert(revision, keys);
            revision
        })
    }

    /// Writes after this revision did not happen after all.
    pub(super) fn forget_after(&mut self, revision: Revision) {
        self.states.retain(|it, _| *it <= revision);
    }

    /// The state at a revision, which may be one that no transaction has.
    pub(super) fn at(&self, revision: Revision) -> Option<&Keys> {
        self.states.range(..=revision).next_back().map(|(_, keys)| keys)
    }
}
