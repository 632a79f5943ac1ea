//! Configurations that ask for nothing special: tests say with `..` what they do not care about.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::containers::{ContainerConfig, Resources, Security};
use crate::sandboxes::{IpcNamespace, NetworkNamespace, PidNamespace, SandboxConfig};
use crate::{ImageId, PodRef};

/// The image's own command, no limits, no log.
pub fn plain_container(name: &str, image: ImageId) -> ContainerConfig {
    ContainerConfig {
        name: name.to_owned(),
        attempt: 0,
        image,
        command: Vec::new(),
        args: Vec::new(),
        working_dir: None,
        env: Vec::new(),
        mounts: Vec::new(),
        stdin: false,
        stdin_once: false,
        tty: false,
        log_path: PathBuf::new(),
        resources: Resources::default(),
        security: Security::default(),
        stop_signal: None,
        target: None,
        annotations: BTreeMap::new(),
    }
}

/// Namespaces of its own, named as the pod, in no cgroup.
pub fn plain_sandbox(pod: PodRef) -> SandboxConfig {
    SandboxConfig {
        attempt: 0,
        hostname: pod.name.clone(),
        pod,
        network: NetworkNamespace::Pod,
        pid: PidNamespace::Container,
        ipc: IpcNamespace::Pod,
        dns: None,
        host_ports: Vec::new(),
        sysctls: BTreeMap::new(),
        cgroup: String::new(),
        annotations: BTreeMap::new(),
    }
}
