//! The group apps: one folder per kind.

pub mod controller_revision;
pub mod daemon_set;
pub mod deployment;
pub mod replica_set;
pub mod stateful_set;
pub(crate) mod workload;

pub use controller_revision::ControllerRevision;
pub use daemon_set::DaemonSet;
pub use deployment::Deployment;
pub use replica_set::ReplicaSet;
pub use stateful_set::StatefulSet;
