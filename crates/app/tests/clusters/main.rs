//! Several clusters on one machine: who gets what, who is refused, what commands mean. Needs root;
//! says so where it has to skip.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says what it skips"
)]

mod commands;
#[path = "../node/host.rs"]
#[expect(dead_code, reason = "shared with the node tests, which use all of it")]
mod host;
mod leftovers;
mod machine;
mod names;
mod neighbors;
mod refusals;
