//! Configurations that ask for nothing special: tests say with `..` what they do not care about.

use crate::containers::ContainerConfig;
use crate::sandboxes::SandboxConfig;
use crate::{ImageId, PodRef};

/// The image's own command, no limits, no log.
pub fn plain_container(name: &str, image: ImageId) -> ContainerConfig {
    ContainerConfig { name: name.to_owned(), image, ..ContainerConfig::default() }
}

/// Namespaces of its own, named as the pod, in no cgroup.
pub fn plain_sandbox(pod: PodRef) -> SandboxConfig {
    SandboxConfig { hostname: pod.name.clone(), pod, ..SandboxConfig::default() }
}
