//! Other clients, unchanged: the `kube` crate, those of Python and JavaScript create, watch, patch
//! and delete; a definition that `kube` derives holds its rules; the operators of `examples/` and those of
//! kopf and dask do their work.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says what it skips"
)]

#[path = "../kubectl/cluster.rs"]
#[expect(dead_code, reason = "shared with the kubectl tests, which use all of it")]
mod cluster;
mod cronjob;
mod dask;
mod javascript;
mod kopf;
mod kube_crate;
mod kube_derive;
mod operator;
mod python;
