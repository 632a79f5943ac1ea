//! Several nodes on one machine (`xebec up --nodes N`): namespaces each, pods that reach each other,
//! failures that are played and got over. Needs root; says so where it has to skip.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says what it skips"
)]

#[path = "../node/cluster.rs"]
#[expect(dead_code, reason = "shared with the node tests, which use all of it")]
mod cluster;
#[path = "../node/host.rs"]
#[expect(dead_code, reason = "shared with the node tests, which use all of it")]
mod host;
mod three;

mod failures;
mod life;
mod refusals;
mod traffic;
