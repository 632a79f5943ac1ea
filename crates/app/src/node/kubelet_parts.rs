//! The parts of a kubelet put together: containers, volumes, server. `up`, `join` and `xebec kubelet`
//! start it here and nowhere else.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use authn::pki::Rotating;
use client::Client;
use informer::Factory;
use lifecycle::Tasks;
use node_api::PodNetwork;
use stdx::World;
use telemetry::Registry;
use volumes::LocalVolumes;

use super::{ContainersConfig, machine};

/// A kubelet, whoever starts it.
pub(crate) struct KubeletWiring<'a> {
    pub(crate) config: kubelet::Config,
    pub(crate) containers: ContainersConfig,
    /// Images are below it.
    pub(crate) data_dir: &'a Path,
    pub(crate) pod_network: Arc<dyn PodNetwork>,
    /// As the node.
    pub(crate) client: Client,
    pub(crate) factory: Arc<Factory>,
    pub(crate) serving: Arc<Rotating>,
    /// PEM.
    pub(crate) client_ca: String,
    pub(crate) metrics: Registry,
    /// What chooses another port than the one that is taken.
    pub(crate) port_flag: &'static str,
    pub(crate) world: &'a World,
    pub(crate) tasks: &'a Tasks,
}

pub(crate) async fn run(wiring: KubeletWiring<'_>) -> Result<()> {
    let KubeletWiring { config, world, tasks, .. } = wiring;
    let opened = wiring.containers.open(wiring.data_dir, wiring.pod_network, world, tasks).await?;
    let volumes = volumes::Config { directory: config.directory.join("pods") };
    let volumes = LocalVolumes::open(volumes, world).context("opening the volumes")?;
    let parts = kubelet::Parts {
        sandboxes: opened.sandboxes,
        containers: opened.containers,
        cgroups: opened.cgroups,
        images: opened.images,
        volumes: Arc::new(volumes),
        client: wiring.client,
        factory: wiring.factory,
        serving: wiring.serving,
        client_ca: wiring.client_ca,
        machine: machine::read(&config.directory),
        metrics: wiring.metrics,
    };
    let (listen, flag) = (config.listen, wiring.port_flag);
    kubelet::start(config, parts, world, tasks)
        .await
        .with_context(|| format!("the kubelet cannot listen on {listen}: see {flag}"))
}
