//! Attacks, one file per class: users of few rights, ordinary pods, single packets and single
//! objects, against the real binary. What each tries once worked, here or elsewhere;
//! `docs/security.md` says what is promised.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says what it skips"
)]

// With a node on a host of its own, for what pods try.
#[path = "../node/cluster.rs"]
#[expect(dead_code, reason = "shared with the node tests, which use all of it")]
mod cluster;
// Without a node, for what requests try.
#[path = "../kubectl/cluster.rs"]
#[expect(dead_code, reason = "shared with the kubectl tests, which use all of it")]
mod control_plane;
#[path = "../node/host.rs"]
#[expect(dead_code, reason = "shared with the node tests, which use all of it")]
mod host;
mod shell;
mod user;

mod bodies;
mod connections;
mod cpu;
mod create_verb;
mod data_directory;
mod descriptors;
mod escalation;
mod fields;
mod impersonation;
mod logs;
mod memory;
mod nodes;
mod own_program;
mod process_namespace;
mod rights;
mod scope;
mod seccomp;
mod selectors;
mod shadowing;
mod sysctls;
mod tokens;
