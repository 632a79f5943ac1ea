//! Sandboxes and containers without a daemon: one small holder process per pod owns namespaces, stdio and exit codes and
//! outlives us; a container is set up by a single-threaded child of its holder.
//!
//! `Embedded` implements [`node_api::Sandboxes`], [`node_api::Containers`] and [`node_api::Cgroups`].

pub mod cgroups;
mod files;
pub mod holder;
mod logs;
mod protocol;
pub mod setup;
pub mod spec;

use std::path::PathBuf;
use std::sync::Arc;

use lifecycle::Tasks;
use node_api::PodNetwork;
use stdx::World;

pub struct Config {
    /// Sandboxes and containers are below it.
    pub directory: PathBuf,
    /// Cgroups are below this, in every hierarchy; `""` is the root.
    pub cgroup_root: String,
    /// The program that is re-executed as holder: this binary.
    pub program: PathBuf,
    pub log_size_max: u64,
    pub log_files_max: u32,
}

/// Cheap to clone.
#[derive(Clone)]
pub struct Embedded;

impl Embedded {
    /// Finds every holder that is still there, and adopts it.
    pub async fn open(
        _config: Config,
        _images: images::Store,
        _network: Arc<dyn PodNetwork>,
        _world: World,
        _tasks: &Tasks,
    ) -> Result<Self, node_api::Error> {
        todo!()
    }

    /// Stops and removes everything: sandboxes, cgroups, files.
    pub async fn purge(&self) -> Vec<node_api::Error> {
        todo!()
    }
}
