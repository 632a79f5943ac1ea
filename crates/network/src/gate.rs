//! Who must know of a pod's addresses before it can send or receive anything.

use std::net::IpAddr;

use node_api::{Error, PodRef, SandboxId};

pub trait Gate: Send + Sync {
    /// Returns when pods can be attached, or with why they cannot.
    fn wait(&self) -> Result<(), Error>;

    /// Before its link is made. Never waits for anybody.
    fn attach(&self, sandbox: &SandboxId, pod: &PodRef, addresses: &[IpAddr]) -> Result<(), Error>;

    /// After its link is gone.
    fn detach(&self, sandbox: &SandboxId, pod: &PodRef) -> Result<(), Error>;
}
