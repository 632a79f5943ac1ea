//! Metrics, logs and feature gates of the real binary, as Prometheus, a person at a terminal and
//! upstream's flags meet them.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says what it skips"
)]

#[path = "../kubectl/cluster.rs"]
#[expect(dead_code, reason = "shared with the kubectl tests, which use all of it")]
mod cluster;
mod components;
mod features;
mod logs;
mod metrics;
mod page;
#[path = "../components/process.rs"]
mod process;
