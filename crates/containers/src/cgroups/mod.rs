//! The cgroups of pods and containers, below one root in every hierarchy.

use std::sync::Arc;

use node_api::containers::{Resources, Usage};
use node_api::{Cgroups, Error, Future};

use crate::spec::Spec;

/// Implements [`node_api::Cgroups`]. Cheap to clone.
#[derive(Clone)]
pub struct Tree {
    root: Arc<str>,
}

impl Tree {
    /// `root` as in [`crate::Config::cgroup_root`]. Makes it.
    pub fn open(_root: &str) -> Result<Self, Error> {
        todo!()
    }

    /// The path of a cgroup from the hierarchies' root, for `linux.cgroupsPath`.
    pub fn path(&self, name: &str) -> String {
        format!("/{}/{name}", self.root)
    }

    /// Makes the cgroup of a container with the limits and device rules of its configuration. Blocks for a moment.
    pub fn create_container(&self, _spec: &Spec) -> Result<(), Error> {
        todo!()
    }

    /// Changes limits; those that are `None` are lifted.
    pub fn update(&self, _name: &str, _resources: &Resources) -> Result<(), Error> {
        todo!()
    }

    /// Kills everything in it, and returns when it is empty or after a bounded time.
    pub fn kill(&self, _name: &str) -> Result<(), Error> {
        todo!()
    }

    /// How often the kernel has killed in it for want of memory.
    pub fn oom_kills(&self, _name: &str) -> Result<u64, Error> {
        todo!()
    }

    /// Moves the calling process into it.
    pub fn join(&self, _name: &str) -> Result<(), Error> {
        todo!()
    }
}

impl Cgroups for Tree {
    fn ensure(&self, _name: &str, _resources: Resources) -> Future<'_, ()> {
        todo!()
    }

    fn remove(&self, _name: &str) -> Future<'_, ()> {
        todo!()
    }

    fn children(&self, _name: &str) -> Future<'_, Vec<String>> {
        todo!()
    }

    fn usage(&self, _name: &str) -> Future<'_, Usage> {
        todo!()
    }
}
