//! CRI v1's messages, as far as they are used here, and its numbers.

mod container;
mod image;
mod sandbox;
mod stats;

pub(crate) use container::*;
pub(crate) use image::*;
pub(crate) use sandbox::*;
pub(crate) use stats::*;

/// `NamespaceMode`.
pub(crate) mod namespace {
    pub(crate) const POD: i32 = 0;
    pub(crate) const CONTAINER: i32 = 1;
    pub(crate) const NODE: i32 = 2;
    pub(crate) const TARGET: i32 = 3;
}

/// `SecurityProfile.ProfileType`.
pub(crate) mod profile {
    pub(crate) const RUNTIME_DEFAULT: i32 = 0;
    pub(crate) const UNCONFINED: i32 = 1;
    pub(crate) const LOCALHOST: i32 = 2;
}

/// `ContainerState`; 3 is unknown.
pub(crate) mod container_state {
    pub(crate) const CREATED: i32 = 0;
    pub(crate) const RUNNING: i32 = 1;
    pub(crate) const EXITED: i32 = 2;
}

/// `PodSandboxState`.
pub(crate) const SANDBOX_READY: i32 = 0;
