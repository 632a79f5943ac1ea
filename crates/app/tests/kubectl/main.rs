//! What a user sees: the real `xebec` binary, driven by a real kubectl and by curl. Each test runs
//! a cluster of its own, in directories of its own, on a port of its own.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says what it skips"
)]

mod absent;
mod access;
mod admission;
mod apply;
mod certificates;
#[expect(dead_code, reason = "shared with other tests, which use the rest")]
mod cluster;
mod edit;
mod explain;
mod fruit;
mod migration;
mod nodes;
mod own_commands;
mod pod_security;
mod policies;
mod quotas;
mod rollout;
mod rules;
mod scheduling;
mod sets;
mod verbs;
mod versions;
mod waiting;
mod workloads;
