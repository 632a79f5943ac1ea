//! The group apiextensions.k8s.io, one folder per kind, and the kinds that its objects define.

pub mod custom_resource;
pub mod custom_resource_definition;
pub(crate) mod json_path;

pub use custom_resource::CustomKind;
pub use custom_resource_definition::CustomResourceDefinition;
