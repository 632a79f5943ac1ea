//! A whole cluster with a real node: real containers, a real network, a real kubectl. Each test has
//! a host of its own: a network namespace with a way to a neighbor, a data directory, a cgroup.
//! Needs root; says so where it has to skip.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says what it skips"
)]

mod aggregated;
mod both_families;
mod churn;
mod cluster;
mod container_runtime;
mod crash;
#[path = "../../../cri/tests/containerd/daemon.rs"]
mod daemon;
mod debug;
mod host;
#[path = "../../../cri/tests/containerd/image.rs"]
mod image;
mod images;
mod isolation;
mod jobs;
mod mending;
mod peers;
mod pods;
mod policies;
mod proxy;
mod remote;
mod resize;
mod restarts;
mod services;
mod sets;
mod sources;
mod streams;
mod suite;
mod usage;
mod volumes;
mod webhooks;
