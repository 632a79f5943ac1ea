//! What a pod and a pod template have in common: defaults and validation of the spec, and what it
//! asks for.
//!
//! Where pods and templates differ, the function says which one it is for.

pub(crate) mod defaults;
pub mod disabled;
#[cfg(test)]
pub(crate) mod fields;
mod image_tag;
mod qos;
pub mod references;
mod requests;
#[cfg(test)]
mod tests;
mod totals;
pub(crate) mod validation;

pub use qos::qos_class;
pub use requests::requests;
pub use totals::peak;
pub use validation::validate_tolerations;

use k8s_openapi::api::core::v1::{Container, EphemeralContainer};

/// An init container that keeps running beside the containers.
pub fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

/// An ephemeral container seen as a container, which has the same fields.
pub(crate) fn as_container(it: &EphemeralContainer) -> Container {
    Container {
        args: it.args.clone(),
        command: it.command.clone(),
        env: it.env.clone(),
        env_from: it.env_from.clone(),
        image: it.image.clone(),
        image_pull_policy: it.image_pull_policy.clone(),
        lifecycle: it.lifecycle.clone(),
        liveness_probe: it.liveness_probe.clone(),
        name: it.name.clone(),
        ports: it.ports.clone(),
        readiness_probe: it.readiness_probe.clone(),
        resize_policy: it.resize_policy.clone(),
        resources: it.resources.clone(),
        restart_policy: it.restart_policy.clone(),
        restart_policy_rules: it.restart_policy_rules.clone(),
        security_context: it.security_context.clone(),
        startup_probe: it.startup_probe.clone(),
        stdin: it.stdin,
        stdin_once: it.stdin_once,
        termination_message_path: it.termination_message_path.clone(),
        termination_message_policy: it.termination_message_policy.clone(),
        tty: it.tty,
        volume_devices: it.volume_devices.clone(),
        volume_mounts: it.volume_mounts.clone(),
        working_dir: it.working_dir.clone(),
    }
}
