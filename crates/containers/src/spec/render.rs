//! From what a kubelet wants and what the image says to a runtime configuration. Pure.

use node_api::Error;
use node_api::containers::{ContainerConfig, Mount};
use node_api::images::ImageConfig;
use node_api::sandboxes::SandboxConfig;

use super::Spec;

/// Everything a configuration is made of.
#[derive(Clone, Copy)]
pub struct Inputs<'a> {
    pub container: &'a ContainerConfig,
    pub image: &'a ImageConfig,
    pub sandbox: &'a SandboxConfig,
    /// An empty directory that the root is mounted on (in the container's own mount namespace).
    pub root: &'a str,
    /// The container's cgroup: `/<cgroup root>/<the pod's>/<container id>`.
    pub cgroup: &'a str,
    /// `/etc/resolv.conf`, `/etc/hosts`, `/etc/hostname`, `/dev/shm` of the pod. A mount of the container at the same
    /// place wins.
    pub pod_mounts: &'a [Mount],
    /// The text of the profile where `security.seccomp` is `Localhost`.
    pub seccomp_profile: Option<&'a str>,
}

pub fn render(_inputs: Inputs<'_>) -> Result<Spec, Error> {
    todo!()
}
