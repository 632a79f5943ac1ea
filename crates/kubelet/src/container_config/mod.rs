//! A container's spec to what the node runs. Pure: everything that had to be looked up is in the
//! facts.

mod env;
pub(crate) mod env_file;
mod expansion;
pub(crate) mod fields;
mod mounts;
pub(crate) mod resources;
mod sandbox;
mod security;
mod service_links;
#[cfg(test)]
pub(crate) mod tests;

use k8s_openapi::api::core::v1::{Container, Pod};
use node_api::containers::ContainerConfig;

pub(crate) use mounts::is_recursive_read_only;
pub use mounts::sub_paths;
pub use resources::{of_container, of_pod};
pub use sandbox::{of_overhead, of_sandbox};
pub use security::runs_as_root;

use crate::allocation::{ANNOTATION_SIZE, Size};
use crate::pod_facts::{PodFacts, RunFacts};

/// Shown with the reason `CreateContainerConfigError`.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("configmap {name:?} not found")]
    ConfigMapNotFound { name: String },
    #[error("secret {name:?} not found")]
    SecretNotFound { name: String },
    #[error("couldn't find key {key} in {kind} {namespace}/{name}")]
    KeyNotFound { kind: &'static str, key: String, namespace: String, name: String },
    #[error(transparent)]
    Field(#[from] fields::Error),
    #[error("cannot find the volume {volume:?} referenced by FileKeyRef")]
    FileVolumeNotFound { volume: String },
    /// The log says why.
    #[error("couldn't parse env file")]
    FileUnreadable,
    #[error("environment variable key {key:?} not found in file {path:?}")]
    FileKeyNotFound { key: String, path: String },
    #[error("{0} is not supported by this node")]
    Fields(String),
    #[error("cannot find volume {volume:?} to mount into container {container:?}")]
    VolumeNotFound { volume: String, container: String },
    #[error("failed to expand subPathExpr {expression:?}: missing value for {variable:?}")]
    SubPathExpression { expression: String, variable: String },
    #[error("failed to prepare subPath for volumeMount {volume:?} of container {container:?}")]
    SubPathUnprepared { volume: String, container: String },
    #[error(
        "failed to resolve recursive read-only mode: volume {volume:?} requested recursive read-only mode, but {why}"
    )]
    RecursiveReadOnly { volume: String, why: String },
    #[error(
        "failed to resolve recursive read-only mode: unknown recursive read-only mode {mode:?}"
    )]
    RecursiveReadOnlyMode { mode: String },
    #[error("localhostProfile must be set if seccompProfile type is Localhost.")]
    SeccompUnnamed,
    #[error("localhostProfile {name:?} must be a relative path without '..'")]
    SeccompPath { name: String },
    #[error("unknown seccomp profile type {name:?}")]
    SeccompType { name: String },
    #[error("container's runAsUser breaks non-root policy (pod: {pod:?}, container: {container})")]
    RunsAsRoot { pod: String, container: String },
    #[error(
        "container has runAsNonRoot and image will run as root (pod: {pod:?}, container: {container})"
    )]
    ImageRunsAsRoot { pod: String, container: String },
    #[error(
        "container has runAsNonRoot and image has non-numeric user ({user}), cannot verify user is \
         non-root (pod: {pod:?}, container: {container})"
    )]
    ImageUserUnknown { user: String, pod: String, container: String },
}

pub fn render(
    pod: &Pod,
    container: &Container,
    facts: &PodFacts,
    run: &RunFacts,
) -> Result<ContainerConfig, Error> {
    let refused = crate::admission::fields::of_container(pod, &container.name);
    if !refused.is_empty() {
        return Err(Error::Fields(refused.join(", ")));
    }
    runs_as_root(pod, container, &run.image.config.user)?;
    let env = env::render(pod, container, facts)?;
    let expand = |texts: &Option<Vec<String>>| -> Vec<String> {
        let texts = texts.iter().flatten();
        texts.map(|it| expansion::expand(it, |name| env.get(name).cloned())).collect()
    };
    Ok(ContainerConfig {
        name: container.name.clone(),
        attempt: run.attempt,
        image: run.image.id.clone(),
        command: expand(&container.command),
        args: expand(&container.args),
        working_dir: container.working_dir.clone().filter(|it| !it.is_empty()),
        mounts: mounts::render(pod, container, facts, run)?,
        env: env.into_iter().collect(),
        stdin: container.stdin.unwrap_or_default(),
        stdin_once: container.stdin_once.unwrap_or_default(),
        tty: container.tty.unwrap_or_default(),
        log_path: run.log_path.clone(),
        resources: of_container(pod, container, &facts.allocatable),
        security: security::render(pod, container, &facts.directory)?,
        stop_signal: container.lifecycle.as_ref().and_then(|it| it.stop_signal.clone()),
        target: run.target.clone(),
        annotations: [(ANNOTATION_SIZE.to_owned(), Size::of(pod, container).render())].into(),
        ..ContainerConfig::default()
    })
}
