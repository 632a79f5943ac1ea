//! Workloads. Cases that need pods that run are skipped where no node is ready.

pub(super) mod cron_jobs;
pub(super) mod daemon_sets;
pub(super) mod deployments;
pub(super) mod disruption_budgets;
pub(super) mod evictions;
pub(super) mod jobs;
pub(super) mod replica_sets;
pub(super) mod replication_controllers;
pub(super) mod running;
pub(super) mod stateful_health;
pub(super) mod stateful_sets;
mod watched;
