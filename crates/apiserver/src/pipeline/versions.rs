//! Custom resources are stored in one version and served in several. The versions differ in `apiVersion` alone, so that
//! an object of another version is its bytes with that one field exchanged; all others are shared as they are.

use std::sync::Arc;

use api::{Kind, Stored};

use super::Outcome;
use crate::cache::with_api_version;

/// The object in the version of `kind`.
pub(super) fn served(kind: &dyn Kind, stored: Arc<Stored>) -> Arc<Stored> {
    if !kind.is_custom() {
        return stored;
    }
    match with_api_version(&stored.bytes, &kind.names().api_version()) {
        None => stored,
        Some(bytes) => Arc::new(Stored::new(stored.meta.clone(), bytes)),
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
