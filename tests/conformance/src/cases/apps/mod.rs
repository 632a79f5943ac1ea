//! Workloads. Cases that need pods that run are skipped where no node is ready.

pub(super) mod cron_jobs;
pub(super) mod daemon_sets;
pub(super) mod disruption_budgets;
pub(super) mod jobs;
pub(super) mod replication_controllers;
mod running;
pub(super) mod stateful_sets;
