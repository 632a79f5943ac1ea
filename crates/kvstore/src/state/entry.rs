//! What is known of a key at any time: all but its value.

use bytes::Bytes;

use crate::{KeyValue, LeaseId, Revision};

/// Small: there is one for each key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) create_revision: Revision,
    /// The commit of this revision has the value.
    pub(crate) mod_revision: Revision,
    pub(crate) version: u64,
    pub(crate) lease: Option<LeaseId>,
    /// How long the value is.
    pub(crate) value_bytes: u32,
}

impl Entry {
    pub(crate) fn of(entry: &KeyValue) -> Self {
        Self {
            create_revision: entry.create_revision,
            mod_revision: entry.mod_revision,
            version: entry.version,
            lease: entry.lease,
            value_bytes: u32::try_from(entry.value.len()).unwrap_or(u32::MAX),
        }
    }

    pub(crate) fn with_value(&self, key: Bytes, value: Bytes) -> KeyValue {
        KeyValue {
            key,
            value,
            create_revision: self.create_revision,
            mod_revision: self.mod_revision,
            version: self.version,
            lease: self.lease,
        }
    }

    pub(crate) fn without_value(&self, key: &[u8]) -> KeyValue {
        self.with_value(Bytes::copy_from_slice(key), Bytes::new())
    }
}
