//! The group apiextensions.k8s.io: one folder per kind, one line per kind.

use std::sync::Arc;

use crate::kind::{Kind, Typed};

pub mod custom_resource_definition;

pub use custom_resource_definition::CustomResourceDefinition;

pub(crate) fn kinds() -> Vec<Arc<dyn Kind>> {
    vec![Arc::new(Typed::<CustomResourceDefinition>::new(crate::schema))]
}
