//! Sandboxes and containers without a daemon: one small holder process per pod owns namespaces,
//! stdio and exit codes and outlives us; a container is set up by a single-threaded child of its
//! holder.
//!
//! `Embedded` implements [`node_api::Sandboxes`], [`node_api::Containers`] and
//! [`node_api::Cgroups`].

pub mod cgroups;
mod embedded;
mod files;
pub mod holder;
mod logs;
mod protocol;
mod records;
pub mod setup;
pub mod spec;

use std::path::PathBuf;
use std::time::Duration;

use node_api::ClusterId;

pub use embedded::{Embedded, Root, Roots, Unreadable};
pub use protocol::garbage;

pub struct Config {
    /// Whose containers they are: holders have it in their arguments.
    pub cluster: ClusterId,
    /// Sandboxes and containers are below it.
    pub directory: PathBuf,
    /// Cgroups are below this, in every hierarchy; `""` is the root.
    pub cgroup_root: String,
    /// The program that is re-executed as holder: this binary.
    pub program: PathBuf,
    pub log_size_max: u64,
    pub log_files_max: u32,
    pub timeouts: Timeouts,
}

/// How long holders are waited for. None that is late is taken for dead.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// After which a start goes on without one that has not answered, and names it.
    pub adopt: Duration,
    /// After which one that was asked something is taken for silent.
    pub answer: Duration,
    /// Given to one that was asked to end.
    pub end: Duration,
}

/// A holder takes milliseconds to answer and to go; these are for machines in distress.
impl Default for Timeouts {
    fn default() -> Self {
        let [adopt, answer, end] = [2, 10, 30].map(Duration::from_secs);
        Self { adopt, answer, end }
    }
}
