//! The group coordination.k8s.io: one folder per kind.

pub mod lease;

pub use lease::Lease;
