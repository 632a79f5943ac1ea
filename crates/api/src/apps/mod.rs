//! The group apps: one folder per kind, one line per kind.

use std::sync::Arc;

use crate::kind::{Kind, Typed};

pub mod deployment;
pub mod replica_set;
pub(crate) mod workload;

pub use deployment::Deployment;
pub use replica_set::ReplicaSet;

pub(crate) fn kinds() -> Vec<Arc<dyn Kind>> {
    vec![
        Arc::new(Typed::<Deployment>::new(crate::schema)),
        Arc::new(Typed::<ReplicaSet>::new(crate::schema)),
    ]
}
