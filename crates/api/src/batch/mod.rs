//! The group batch: one folder per kind.

pub mod cron_job;
pub mod job;

pub use cron_job::CronJob;
pub use job::Job;
