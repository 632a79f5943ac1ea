//! A fleet of nodes that exist only in the API: they register, renew their leases, run pods through
//! their phases, as their annotations say, and obey deletion grace, without a process or a
//! namespace. For scale tests and for trying things.
//!
//! Promises: each node writes under its own identity and does what a kubelet would be seen to do. A
//! killed node falls silent and changes nothing until it is revived. A thousand nodes share a
//! handful of tasks.

mod addresses;
mod containers;
mod fleet;
mod leases;
mod node;
mod pods;
mod script;

pub use fleet::{Config, Fleet};
