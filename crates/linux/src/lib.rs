//! The kernel's face: namespaces, mounts, cgroups, capabilities, seccomp, processes, terminals,
//! netlink. The only crate with unsafe code.
//!
//! Promises: every call either does what it says or returns an error that names it; no policy, no
//! Kubernetes. What must run in a single-threaded process says so.
#![allow(unsafe_code, reason = "this crate is where the kernel is spoken to")]

pub mod bpf;
pub mod capabilities;
pub mod cgroups;
pub mod datagrams;
pub mod echo;
pub mod inotify;
pub mod loopback;
pub mod mount_points;
pub mod mounts;
pub mod namespaces;
pub mod netlink;
pub mod network_namespace;
pub mod pause;
pub mod process;
pub mod removal;
pub mod rooted;
pub mod seccomp;
pub mod seqpacket;
pub mod sysctl;
pub mod tcp_md5;
pub mod terminal;
pub mod tun;
