//! The group policy: one folder per kind.

pub mod eviction;
pub mod pod_disruption_budget;

pub use eviction::Eviction;
pub use pod_disruption_budget::PodDisruptionBudget;
