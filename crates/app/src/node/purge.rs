//! Leaves nothing of a node behind: containers, mounts, cgroups, rules, links. Goes on after a
//! failure and tells all. What is not the cluster's own stays as it is.

use std::path::Path;
use std::sync::Arc;

use ::containers::Embedded;
use anyhow::{Context as _, Result, bail};
use lifecycle::Tasks;
use network::Network;
use node_api::{PodNetwork, Sandboxes, Volumes as _};
use stdx::World;
use volumes::LocalVolumes;

use super::Settings;
use crate::cluster::{self, Cluster};
use crate::local_nodes;

/// What could not be removed, as text. Nobody may run on the directory.
pub(crate) fn purge(data_dir: &Path, cluster: &Cluster) -> Result<Vec<String>> {
    let Some(node) = &cluster.node else { return Ok(Vec::new()) };
    if let Some(pid) = cluster::process_in_namespace_of(cluster)? {
        bail!(
            "the network of this cluster is in another network namespace, that of process {pid}: purge it from there, with \
             `nsenter --net=/proc/{pid}/ns/net xebec down --purge --data-dir {}`",
            data_dir.display()
        );
    }
    // They are below the cgroup of the machine's own node, and reach the world through it.
    let mut problems = local_nodes::purge(cluster, data_dir);
    let settings = Settings::new(cluster, node);
    problems.extend(purge_settings(&settings, data_dir, &data_dir.join("pods"))?);
    Ok(problems)
}

/// Volumes of pods are in `pods`, all else in `data_dir`.
pub(crate) fn purge_settings(
    settings: &Settings,
    data_dir: &Path,
    pods: &Path,
) -> Result<Vec<String>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the tokio runtime")?;
    Ok(runtime.block_on(purge_node(settings, data_dir, pods)))
}

async fn purge_node(settings: &Settings, data_dir: &Path, pods: &Path) -> Vec<String> {
    let mut problems = Vec::new();
    let tasks = Tasks::new();
    match Network::open_to_purge(super::network_config(settings, data_dir)) {
        Ok(network) => {
            let network = Arc::new(network);
            let pod_network: Arc<dyn PodNetwork> = network.clone();
            let containers = purge_containers(settings, data_dir, pod_network, &tasks).await;
            problems.extend(containers.err().map(|it| format!("{it:#}")));
            problems.extend(network.purge().iter().map(|it| stdx::error_chain(it).to_string()));
        }
        Err(err) => problems.push(stdx::error_chain(&err).to_string()),
    }
    tasks.cancel();
    problems.extend(purge_volumes(pods).await);
    if let Err(err) = service_proxy::purge(settings.cluster) {
        problems.push(stdx::error_chain(&err).to_string());
    }
    if let Err(err) = packets::purge(&super::worker_in(data_dir).directory) {
        problems.push(stdx::error_chain(&err).to_string());
    }
    if let Err(err) = network::policy::purge(settings.cluster) {
        problems.push(stdx::error_chain(&err).to_string());
    }
    problems
}

async fn purge_containers(
    settings: &Settings,
    data_dir: &Path,
    network: Arc<dyn PodNetwork>,
    tasks: &Tasks,
) -> Result<()> {
    purge_cri(settings, tasks).await?;
    let images = super::open_images(data_dir)?;
    let config = super::containers_config(settings, data_dir)?;
    let embedded = Embedded::open(config, images, network, World::system(), tasks).await?;
    let problems = embedded.purge().await;
    match problems.first() {
        None => Ok(()),
        Some(_) => {
            let all: Vec<String> =
                problems.iter().map(|it| stdx::error_chain(it).to_string()).collect();
            anyhow::bail!("removing containers: {}", all.join("; "))
        }
    }
}

/// The cluster's pods; what else the runtime has is not ours.
async fn purge_cri(settings: &Settings, tasks: &Tasks) -> Result<()> {
    let Some(config) = super::containers::cri_config(settings) else { return Ok(()) };
    let cri = super::containers::open_cri(config, &World::system(), tasks).await?;
    for sandbox in Sandboxes::list(&cri) {
        Sandboxes::remove(&cri, &sandbox.id).await?;
    }
    Ok(())
}

async fn purge_volumes(directory: &Path) -> Vec<String> {
    let mut problems = Vec::new();
    let config = volumes::Config { directory: directory.to_owned() };
    let volumes = match LocalVolumes::open(config, &World::system()) {
        Ok(volumes) => volumes,
        Err(err) => return vec![format!("opening the volumes: {err}")],
    };
    for pod in volumes.pods().await.unwrap_or_default() {
        if let Err(err) = volumes.tear_down(&pod).await {
            problems.push(stdx::error_chain(&err).to_string());
        }
    }
    problems
}
