//! The group scheduling.k8s.io: one folder per kind, and what they share.

mod gates;
pub mod pod_group;
mod policies;
pub mod priority_class;
pub mod workload;

pub use pod_group::PodGroup;
pub use priority_class::PriorityClass;
pub use workload::Workload;

/// Whoever groups pods believes that they are scheduled together.
const NOT_SCHEDULED: &str =
    "spec: accepted, but groups of pods are not scheduled together on this server";
