//! Other clients, unchanged: the `kube` crate, those of Python and JavaScript create, watch, patch
//! and delete; the operator of `examples/` and one of kopf do their work.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says what it skips"
)]

#[path = "../kubectl/cluster.rs"]
#[expect(dead_code, reason = "shared with the kubectl tests, which use all of it")]
mod cluster;
mod javascript;
mod kopf;
mod kube_crate;
mod operator;
mod python;
