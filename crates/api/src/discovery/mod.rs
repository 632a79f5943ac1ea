//! The group discovery.k8s.io: one folder per kind, one line per kind.

use std::sync::Arc;

use crate::kind::{Kind, Typed};

pub mod endpoint_slice;

pub use endpoint_slice::EndpointSlice;

pub(crate) fn kinds() -> Vec<Arc<dyn Kind>> {
    vec![Arc::new(Typed::<EndpointSlice>::new(crate::schema))]
}
