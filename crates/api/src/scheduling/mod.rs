//! The group scheduling.k8s.io: one folder per kind.

pub mod priority_class;

pub use priority_class::PriorityClass;
