//! Workloads, as far as they need no pods that run.

pub(super) mod cron_jobs;
pub(super) mod disruption_budgets;
pub(super) mod replication_controllers;
