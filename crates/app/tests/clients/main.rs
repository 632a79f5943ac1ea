//! Other clients: the `kube` crate and the Python client, unchanged, create, watch, patch and
//! delete; the operator of `examples/` does its work.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says what it skips"
)]

#[path = "../kubectl/cluster.rs"]
#[expect(dead_code, reason = "shared with the kubectl tests, which use all of it")]
mod cluster;
mod kube_crate;
mod operator;
mod python;
