//! The front over real sockets: our own channel and Debian's `etcdctl` as clients, the in-memory
//! and the embedded store behind it, and a real etcd beside it that must answer the same.
#![expect(clippy::unwrap_used, reason = "a panic is a failed test")]
#![expect(clippy::print_stderr, reason = "a test that skips says so")]

mod abuse;
mod ctl;
mod harness;
mod kv;
mod lease;
mod listening;
mod maintenance;
mod same_as_etcd;
mod watch;
