//! postStart and preStop.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Container, LifecycleHandler};
use node_api::{ContainerId, Containers};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    Placeholder(String),
}

/// Runs to its end; the caller sets a deadline by dropping it. `address` is the pod's, for HTTP hooks without a host.
pub async fn run(
    containers: &dyn Containers,
    container: &Container,
    id: &ContainerId,
    hook: &LifecycleHandler,
    address: Option<IpAddr>,
) -> Result<(), Error> {
    let _ = (containers, container, id, hook, address);
    Err(Error::Placeholder("not yet".to_owned()))
}
