//! The group apiextensions.k8s.io, one folder per kind, and the kinds that its objects define.

use std::sync::Arc;

use crate::kind::{Kind, Typed};

pub mod custom_resource;
pub mod custom_resource_definition;
mod json_path;

pub use custom_resource::CustomKind;
pub use custom_resource_definition::CustomResourceDefinition;

pub(crate) fn kinds() -> Vec<Arc<dyn Kind>> {
    vec![Arc::new(Typed::<CustomResourceDefinition>::new(crate::schema))]
}
