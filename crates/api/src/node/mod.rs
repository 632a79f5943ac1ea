//! The group node.k8s.io: one folder per kind.

pub mod runtime_class;

pub use runtime_class::RuntimeClass;
