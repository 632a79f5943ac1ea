//! How the parts of a node are joined, whoever starts them: each has a client of its own, and what
//! stands on the pod network starts when that is open, which takes the node's range.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use authn::pki::Rotating;
use informer::Factory;
use lifecycle::Tasks;
use network::Network;
use node_api::PodNetwork;
use stdx::{Cidr, World};
use telemetry::Registry;

use super::kubelet_parts::{self, KubeletWiring};
use super::peers::{self, Identities};
use super::{
    Clients, ContainersConfig, LateNetwork, PodRanges, Settings, dns, pod_ranges, policies,
};
use crate::api_server::PATIENCE;

/// What [`start`] needs beside the settings.
pub(crate) struct Wiring<'a> {
    pub(crate) clients: &'a Clients,
    /// What the kubelet shows to those who call it, who are vouched for by `client_ca` (PEM).
    pub(crate) serving: Arc<Rotating>,
    pub(crate) client_ca: String,
    pub(crate) addresses: Vec<IpAddr>,
    /// `None`: it is opened when the Node says which range is this node's.
    pub(crate) network: Option<Arc<Network>>,
    /// Told of the range that the Node says, before anything of it is made.
    pub(crate) note_ranges: &'a NoteRanges<'a>,
    pub(crate) data_dir: &'a Path,
    /// What the kubelet's `/metrics` shows.
    pub(crate) metrics: Registry,
    pub(crate) world: &'a World,
    pub(crate) tasks: &'a Tasks,
}

/// Keeps them for the next start.
pub(crate) type NoteRanges<'a> = dyn Fn(&[Cidr]) -> Result<()> + Send + Sync + 'a;

/// Starts the service proxy, the kubelet, and what stands on the pod network; returns when all have
/// started, before the Node is Ready.
pub(crate) async fn start(settings: &Settings, wiring: &Wiring<'_>) -> Result<()> {
    start_service_proxy(settings, wiring);
    let tasks = wiring.tasks.child("kubelet");
    let factory = Factory::new(wiring.clients.kubelet.clone(), wiring.world.clone(), &tasks);
    let ranges = pod_ranges::follow(&factory, &settings.node_name);
    let late = Arc::new(LateNetwork::new());
    let pod_network: Arc<dyn PodNetwork> = match &wiring.network {
        Some(opened) => opened.clone(),
        None => late.clone(),
    };
    let kubelet = start_kubelet(settings, wiring, pod_network, (factory, tasks));
    // First, so that the policies guard a network that is open before the kubelet connects a pod.
    let network = start_network(settings, wiring, &late, ranges);
    tokio::try_join!(network, kubelet).map(|_| ())
}

fn start_service_proxy(settings: &Settings, wiring: &Wiring<'_>) {
    let tasks = wiring.tasks.child("service-proxy");
    let factory = Factory::new(wiring.clients.proxy.clone(), wiring.world.clone(), &tasks);
    let config = service_proxy::Config {
        cluster: settings.cluster,
        node_name: settings.node_name.clone(),
        mode: settings.proxy_mode,
        pod_cidrs: settings.pod_cidrs.all().to_vec(),
        service_cidrs: settings.service_cidrs.all().to_vec(),
        node_port_addresses: None,
        worker: Some(super::worker_in(wiring.data_dir)),
        pods_cgroup: settings.cgroup_root.clone(),
    };
    service_proxy::start(config, &tasks, wiring.world, &factory);
    factory.start();
}

async fn start_kubelet(
    settings: &Settings,
    wiring: &Wiring<'_>,
    pod_network: Arc<dyn PodNetwork>,
    (factory, tasks): (Arc<Factory>, Tasks),
) -> Result<()> {
    let config = super::kubelet_config(settings, wiring.data_dir, wiring.addresses.clone())?;
    if let Some(manifests) = &config.static_pod_directory {
        crate::data_dir::make_private(manifests)
            .with_context(|| format!("making {}", manifests.display()))?;
    }
    kubelet_parts::run(KubeletWiring {
        config,
        containers: ContainersConfig::new(settings, wiring.data_dir)?,
        data_dir: wiring.data_dir,
        pod_network,
        factory,
        client: wiring.clients.kubelet.clone(),
        serving: wiring.serving.clone(),
        client_ca: wiring.client_ca.clone(),
        metrics: wiring.metrics.clone(),
        port_flag: "--kubelet-port",
        world: wiring.world,
        tasks: &tasks,
    })
    .await
}

/// What needs the pod network, once it is open.
async fn start_network(
    settings: &Settings,
    wiring: &Wiring<'_>,
    late: &LateNetwork,
    mut ranges: PodRanges,
) -> Result<()> {
    let tasks = wiring.tasks.child("network");
    let network = match &wiring.network {
        Some(opened) => {
            let (given, kept) = (ranges, settings.node_cidrs.clone());
            tasks.spawn("pod-ranges", |shutdown| async move {
                tokio::select! {
                    biased;
                    () = shutdown.cancelled() => {}
                    () = pod_ranges::compare(given, kept) => {}
                }
            });
            policies::start(settings, wiring, opened)?;
            opened.clone()
        }
        None => {
            let given = wait_for_ranges(&mut ranges, settings).await?;
            (wiring.note_ranges)(&given)?;
            let settings = Settings { node_cidrs: given, ..settings.clone() };
            let network = open(settings.clone(), wiring.data_dir.to_owned()).await?;
            policies::start(&settings, wiring, &network)?;
            late.open(network.clone(), &tasks).await.context("telling the pod network of pods")?;
            network
        }
    };
    network.follow(&tasks).context("following the pod network")?;
    let identities = Identities { network: &wiring.clients.network, node: &wiring.clients.kubelet };
    peers::spawn(&network, &settings.node_name, &identities, &tasks, wiring.world);
    let tasks = wiring.tasks.child("dns");
    let cluster_ips = settings.dns_addresses();
    dns::start(&wiring.clients.dns, network.gateways(), &cluster_ips, &tasks, wiring.world).await
}

async fn wait_for_ranges(ranges: &mut PodRanges, settings: &Settings) -> Result<Vec<Cidr>> {
    let given = tokio::time::timeout(PATIENCE, pod_ranges::wait(ranges)).await;
    let Ok(Some(given)) = given else {
        bail!(
            "the Node {} has no addresses for pods (spec.podCIDRs) after {PATIENCE:?}: is the cluster's range used up \
             (Event CIDRNotAvailable), or does nobody give any (--allocate-node-cidrs)?",
            settings.node_name
        );
    };
    Ok(given)
}

/// Looks at the kernel and changes it, which takes a moment.
async fn open(settings: Settings, data_dir: PathBuf) -> Result<Arc<Network>> {
    let opening = move || super::open_network(&settings, &data_dir);
    tokio::task::spawn_blocking(opening).await.context("opening the pod network")?
}
