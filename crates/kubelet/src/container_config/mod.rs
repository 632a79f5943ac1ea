//! A container's spec to what the node runs. Pure.

use k8s_openapi::api::core::v1::{Container, Pod};
use node_api::containers::ContainerConfig;

use crate::pod_facts::{PodFacts, RunFacts};

/// Shown with the reason `CreateContainerConfigError`.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    Placeholder(String),
}

pub fn render(
    pod: &Pod,
    container: &Container,
    facts: &PodFacts,
    run: &RunFacts,
) -> Result<ContainerConfig, Error> {
    let _ = (pod, facts);
    Ok(ContainerConfig {
        name: container.name.clone(),
        attempt: run.attempt,
        image: run.image.id.clone(),
        command: container.command.clone().unwrap_or_default(),
        args: container.args.clone().unwrap_or_default(),
        working_dir: container.working_dir.clone(),
        env: Vec::new(),
        mounts: Vec::new(),
        stdin: false,
        stdin_once: false,
        tty: false,
        log_path: run.log_path.clone(),
        resources: Default::default(),
        security: Default::default(),
        stop_signal: None,
        annotations: Default::default(),
    })
}
