//! The group apps: one folder per kind.

pub mod deployment;
pub mod replica_set;
pub(crate) mod workload;

pub use deployment::Deployment;
pub use replica_set::ReplicaSet;
