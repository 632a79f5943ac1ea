//! `xebec kubelet` and `xebec proxy` as processes of their own, on another machine than the control
//! plane: two network namespaces with a cable between them. Needs root; says so where it has to
//! skip.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says what it skips"
)]

#[path = "../node/cluster.rs"]
#[expect(dead_code, reason = "shared with the node tests, which use all of it")]
mod cluster;
#[path = "../node/host.rs"]
mod host;
mod worker;

mod access;
mod nodes;
mod pods;
mod refusals;
