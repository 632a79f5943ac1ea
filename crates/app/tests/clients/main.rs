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

/// A test that cannot be run ends here: it says why, or fails where all that it needs was to be
/// installed.
fn skip(why: &str) {
    let is_complete = std::env::var_os("XEBEC_TEST_ALL_CLIENTS").is_some();
    assert!(!is_complete, "{why}, though it was to be installed");
    eprintln!("SKIPPED: {why} (cargo xtask install-test-deps)");
}
