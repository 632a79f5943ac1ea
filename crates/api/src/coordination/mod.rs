//! The group coordination.k8s.io: one folder per kind.

pub mod lease;
pub mod lease_candidate;
mod strategy;

pub use lease::Lease;
pub use lease_candidate::LeaseCandidate;
