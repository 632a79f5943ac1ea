//! What components that run alone share: a client from a kubeconfig, and leadership.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use client::Client;
use client::https::{Config, Https};
use lifecycle::Tasks;
use reconcile::Election;
use stdx::World;
use telemetry::Registry;

use crate::control_plane::identity;
use crate::kubeconfig_file;

/// Requests are counted on `metrics`.
pub(crate) fn config(kubeconfig: &Path, name: &str, metrics: &Registry) -> Result<Config> {
    let config = kubeconfig_file::load(kubeconfig, &format!("{name}/v1.36 (xebec)"))?;
    Ok(Config { metrics: metrics.clone(), ..config })
}

pub(crate) fn connect(config: &Config, name: &str, tasks: &Tasks, world: &World) -> Result<Client> {
    Ok(Client::new(Arc::new(Https::new(tasks, world, config)?), name))
}

/// Runs `lead` at once, or when this process becomes the leader.
pub(crate) async fn lead<F>(
    tasks: &Tasks,
    client: Client,
    world: World,
    name: &'static str,
    is_elected: bool,
    lead: impl FnOnce(Tasks) -> F + Send + 'static,
) where
    F: Future<Output = ()> + Send + 'static,
{
    if is_elected {
        let identity = identity(&world);
        reconcile::with_leadership(tasks, Election { client, world, name, identity }, lead);
    } else {
        lead(tasks.clone()).await;
    }
}
