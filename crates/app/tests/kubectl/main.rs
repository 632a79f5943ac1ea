//! What a user sees: the real `xebec` binary, driven by a real kubectl and by curl. Each test runs a cluster of its own,
//! in directories of its own, on a port of its own.

mod access;
mod apply;
#[expect(dead_code, reason = "shared with other tests, which use the rest")]
mod cluster;
mod fruit;
mod rollout;
mod scheduling;
mod workloads;
