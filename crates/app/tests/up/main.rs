//! `xebec up` and `down` as a user meets them: background, restart, clear refusals, a kubeconfig
//! that keeps what it had.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says what it skips"
)]

mod addresses;
#[path = "../kubectl/cluster.rs"]
#[expect(dead_code, reason = "shared with the kubectl tests, which use all of it")]
mod cluster;
mod controllers;
mod lifecycle;
