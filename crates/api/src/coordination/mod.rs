//! The group coordination.k8s.io: one folder per kind, one line per kind.

use std::sync::Arc;

use crate::kind::{Kind, Typed};

pub mod lease;

pub use lease::Lease;

pub(crate) fn kinds() -> Vec<Arc<dyn Kind>> {
    vec![Arc::new(Typed::<Lease>::new(crate::schema))]
}
