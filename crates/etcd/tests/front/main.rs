//! The front over real sockets: our own channel and Debian's `etcdctl` as clients, the in-memory and the embedded store behind it, and
//! a real etcd beside it that must answer the same.

mod abuse;
mod ctl;
mod harness;
mod kv;
mod lease;
mod listening;
mod maintenance;
mod same_as_etcd;
mod watch;
