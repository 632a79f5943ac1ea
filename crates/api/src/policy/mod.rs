//! The group policy: one folder per kind, one line per kind.

use std::sync::Arc;

use crate::kind::Kind;

pub mod eviction;

pub use eviction::Eviction;

pub(crate) fn kinds() -> Vec<Arc<dyn Kind>> {
    vec![]
}
