//! What the embedded runtime does not do, refused by name: never left out in silence. Pure.

use node_api::Error;
use node_api::containers::{Apparmor, ContainerConfig, Propagation};
use node_api::sandboxes::SandboxConfig;

pub fn of_sandbox(config: &SandboxConfig) -> Result<(), Error> {
    if !config.runtime_handler.is_empty() {
        let what = format!("runtime handler {:?}", config.runtime_handler);
        return Err(Error::unsupported(what));
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
