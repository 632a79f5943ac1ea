//! What the embedded runtime does not do, refused by name: never left out in silence. Pure.

use node_api::Error;
use node_api::containers::{Apparmor, ContainerConfig, Propagation};
use node_api::sandboxes::SandboxConfig;

/// The prefix of containers' ids in the status of pods.
pub(crate) const NAME: &str = "xebec";

/// There is one way to run containers; it may be asked for by name.
pub(crate) const HANDLERS: &[&str] = &["", NAME];

pub fn of_sandbox(config: &SandboxConfig) -> Result<(), Error> {
    if !HANDLERS.contains(&config.runtime_handler.as_str()) {
        let why = format!("RuntimeHandler {:?} not supported", config.runtime_handler);
        return Err(Error::Refused(why));
    }
    if config.user_namespace.is_some() {
        return Err(Error::unsupported("a user namespace of the pod's own"));
    }
    Ok(())
}

pub(super) fn of_container(config: &ContainerConfig) -> Result<(), Error> {
    if !config.cdi_devices.is_empty() {
        return Err(Error::unsupported("a device of the Container Device Interface (CDI)"));
    }
    if matches!(config.security.apparmor, Apparmor::Localhost(_)) {
        return Err(Error::unsupported("an AppArmor profile"));
    }
    if config.security.selinux.is_some() {
        return Err(Error::unsupported("an SELinux label"));
    }
    for mount in &config.mounts {
        let at = &mount.container_path;
        if mount.id_mappings.is_some() {
            return Err(Error::unsupported(format!("a mount with mapped ids at {at:?}")));
        }
        if mount.recursive_read_only
            && !(mount.read_only && mount.propagation == Propagation::Private)
        {
            let why = "recursively read-only, but not read-only and private";
            return Err(Error::Refused(format!("mount at {at:?} is {why}")));
        }
    }
    Ok(())
}
