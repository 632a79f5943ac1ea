//! Machines that become nodes with one line: two network namespaces with a cable between them, and
//! `xebec` on both. Needs root; says so where it has to skip.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says what it skips"
)]

mod carried;
#[path = "../node/cluster.rs"]
#[expect(dead_code, reason = "shared with the node tests, which use all of it")]
mod cluster;
mod deleted;
#[path = "../node/host.rs"]
#[expect(dead_code, reason = "shared with the node tests, which use all of it")]
mod host;
mod impostor;
mod joined;

mod life;
mod refusals;
mod rights;
mod second;
mod servers;
mod tokens;
