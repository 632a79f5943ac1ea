//! Custom resources are stored in one version and served in several. The versions differ in `apiVersion` alone, so that
//! an object of another version is its bytes with that one field exchanged, and what was stored before its schema got a
//! default has it filled in; all others are shared as they are.

use std::sync::Arc;

use api::{Kind, Stored};

use super::Outcome;
use crate::stored_bytes::{with_api_version, with_version};

/// The object in the version of `kind`, complete.
pub(super) fn served(kind: &dyn Kind, stored: Arc<Stored>) -> Arc<Stored> {
    if !kind.is_custom() {
        return stored;
    }
    let completed = kind.complete_stored(&stored).map(|mut it| {
        it.meta_mut().resource_version = None;
        with_version(&it.encode(), stored.meta.resource_version)
    });
    let bytes = completed.as_ref().unwrap_or(&stored.bytes);
    match with_api_version(bytes, &kind.names().api_version()).or(completed) {
        None => stored,
        Some(bytes) => Arc::new(Stored::new(stored.meta.clone(), bytes)),
    }
}

/// The bytes that `served_outcome` has to look at.
pub(super) fn weight(kind: &dyn Kind, outcome: &Outcome) -> usize {
    match outcome {
        Outcome::List(list) if kind.is_custom() => list.items.iter().map(|it| it.bytes.len()).sum(),
        _ => 0,
    }
}

pub(super) fn served_outcome(kind: &dyn Kind, outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Object(object) => Outcome::Object(served(kind, object)),
        Outcome::List(mut list) if kind.is_custom() => {
            list.items = list.items.into_iter().map(|it| served(kind, it)).collect();
            Outcome::List(list)
        }
        other => other,
    }
}
