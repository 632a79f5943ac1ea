//! The wiring of a kubelet that runs alone: the same parts as `up` has, over HTTPS.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use apimachinery::quantity::Amount;
use features::Gates;
use informer::Factory;
use k8s_openapi::api::core::v1::Taint;
use lifecycle::Tasks;
use linux::sysctl::Pattern;
use network::Network;
use stdx::{Backoff, World};
use telemetry::Registry;

use super::client::{self, Connected};
use super::flags::Flags;
use super::serving;
use super::state::State;
use crate::commands::network::parse_pod_cidrs;
use crate::component_config::kubelet::KubeletConfiguration;
use crate::control_plane::KUBERNETES_VERSION;
use crate::data_dir::{DataDir, make_private};
use crate::node::{self, ContainersConfig, KubeletWiring, LateNetwork, PodRanges};
use crate::plain_server;

const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(60);

/// Held while the kubelet runs.
pub(super) struct Started {
    pub(super) listen: SocketAddr,
    _data: DataDir,
}

pub(super) async fn start(
    flags: &Flags,
    configuration: &KubeletConfiguration,
    metrics: Registry,
    gates: &Gates,
    tasks: &Tasks,
) -> Result<Started> {
    let world = World::system();
    let addresses = match &flags.node_ip {
        Some(addresses) => addresses.0.clone(),
        None => node::machine_addresses(),
    };
    ensure!(!addresses.is_empty(), "this machine has no way to the world: give --node-ip");
    let data = DataDir::open(&flags.data_dir())?;
    let Connected { client, ca_pem, credentials } =
        client::connect(flags, configuration, &metrics, &world, tasks).await?;
    let state = state(flags, configuration, &ca_pem, &data)?;
    let factory = Factory::new(client.clone(), world.clone(), tasks);
    let opening = Opening {
        network: Arc::new(LateNetwork::new()),
        ranges: node::follow_pod_ranges(&factory, &state.node_name),
        state: state.clone(),
        cluster_cidr: flags.cluster_cidr.clone(),
        data_dir: data.path().to_owned(),
        tasks: tasks.child("network"),
    };
    let network = opening.network.clone();
    // What runs already is connected before anybody asks for it.
    if !state.pod_cidrs.is_empty() {
        opening.open(&state).await?;
    }
    tasks.spawn("pod-network", |shutdown| async move {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => {}
            () = opening.run() => {}
        }
    });
    let mut config = kubelet_config(flags, configuration, &state, addresses.clone())?;
    config.has_trust_bundles = gates.is_enabled(features::CLUSTER_TRUST_BUNDLE_PROJECTION);
    config.has_pod_certificates = gates.is_enabled(features::POD_CERTIFICATE_REQUEST);
    let listen = config.listen;
    let serving = serving::serving(flags, configuration, &credentials, &addresses, &world)?;
    let wiring = KubeletWiring {
        config,
        containers: containers_config(configuration, &state, &data)?,
        data_dir: data.path(),
        pod_network: network,
        client: client.clone(),
        factory,
        serving: serving.shown,
        client_ca: serving::client_authority(configuration, &ca_pem)?,
        metrics,
        port_flag: "--port",
        world: &world,
        tasks,
    };
    node::run_kubelet(wiring).await?;
    if let Some(kept) = serving.kept {
        credentials.renew(kept, &client, Vec::new(), tasks);
    }
    let healthz = SocketAddr::new(configuration.healthz_bind_address, configuration.healthz_port);
    if healthz.port() != 0 {
        let health = plain_server::serve(healthz, "--healthz-port", plain_server::healthz, tasks);
        health.await?;
    }
    Ok(Started { listen, _data: data })
}

/// What this node has, or will have from now on.
fn state(
    flags: &Flags,
    configuration: &KubeletConfiguration,
    authority: &[u8],
    data: &DataDir,
) -> Result<State> {
    let name = flags.node_name();
    let mut state = match State::load(data.path())? {
        Some(known) => known,
        None => State::new(node::derive_id(authority, &name), &name)?,
    };
    anyhow::ensure!(
        state.node_name == name,
        "the node on {} is called {}, and stays so: choose another --root-dir, or remove it with --cleanup",
        data.path().display(),
        state.node_name
    );
    if !configuration.cgroup_root.is_empty() {
        state.cgroup_root.clone_from(&configuration.cgroup_root);
    }
    state.container_runtime = container_runtime(configuration)?;
    state.save(data.path())?;
    Ok(state)
}

/// The socket of another runtime than ours.
pub(super) fn container_runtime(configuration: &KubeletConfiguration) -> Result<Option<PathBuf>> {
    let endpoint = &configuration.container_runtime_endpoint;
    let named = Some(endpoint).filter(|it| !it.is_empty());
    named.map(|it| cri::parse_endpoint(it)).transpose().context("containerRuntimeEndpoint")
}

fn containers_config(
    configuration: &KubeletConfiguration,
    state: &State,
    data: &DataDir,
) -> Result<ContainersConfig> {
    let size = Amount::parse(&configuration.container_log_max_size);
    let size = size.context("containerLogMaxSize")?.value();
    let config = ContainersConfig::new(&state.settings_to_purge()?, data.path())?;
    Ok(config.with_log_limits(size.unsigned_abs(), configuration.container_log_max_files))
}

fn kubelet_config(
    flags: &Flags,
    configuration: &KubeletConfiguration,
    state: &State,
    addresses: Vec<IpAddr>,
) -> Result<kubelet::Config> {
    let pods = flags.root_dir.join("pods");
    make_private(&pods)
        .and_then(|()| std::fs::set_permissions(&pods, Permissions::from_mode(0o700)))
        .with_context(|| format!("making {}", pods.display()))?;
    let manifests = Some(configuration.static_pod_path.clone());
    let manifests = manifests.filter(|it| !it.as_os_str().is_empty());
    if let Some(manifests) = &manifests {
        make_private(manifests).with_context(|| format!("making {}", manifests.display()))?;
    }
    let pod_cidrs = match configuration.pod_cidr.as_str() {
        text if state.pod_cidrs.is_empty() && !text.is_empty() => {
            let given = parse_pod_cidrs(text).map_err(|err| anyhow!("podCIDR: {err}"))?;
            given.all().to_vec()
        }
        _ => state.pod_cidrs.clone(),
    };
    let domain = &configuration.cluster_domain;
    let sysctls = &configuration.allowed_unsafe_sysctls;
    let sysctls: Result<Vec<Pattern>, _> = sysctls.iter().map(|it| Pattern::parse(it)).collect();
    Ok(kubelet::Config {
        node_name: state.node_name.clone(),
        node_addresses: addresses,
        listen: SocketAddr::new(configuration.address, configuration.port),
        pod_cidrs,
        cluster_dns: configuration.cluster_dns.clone(),
        cluster_domain: match domain.is_empty() {
            true => node::CLUSTER_DOMAIN.to_owned(),
            false => domain.clone(),
        },
        directory: flags.root_dir.clone(),
        log_directory: configuration.pod_logs_dir.clone(),
        static_pod_directory: manifests,
        version: KUBERNETES_VERSION.to_owned(),
        max_pods: configuration.max_pods,
        labels: flags.labels(),
        annotations: BTreeMap::new(),
        taints: taints(configuration),
        is_registering: configuration.register_node,
        allowed_unsafe_sysctls: sysctls.context("allowedUnsafeSysctls")?,
        has_trust_bundles: false,
        has_pod_certificates: false,
    })
}

fn taints(configuration: &KubeletConfiguration) -> Vec<Taint> {
    let all = configuration.register_with_taints.iter().cloned();
    all.map(|it| Taint { key: it.key, value: it.value, effect: it.effect, time_added: None })
        .collect()
}

/// Opens the network when the Node says which addresses are its pods'.
struct Opening {
    network: Arc<LateNetwork>,
    ranges: PodRanges,
    state: State,
    cluster_cidr: Option<String>,
    data_dir: PathBuf,
    tasks: Tasks,
}

impl Opening {
    /// Ends when there is nothing left to wait for.
    async fn run(mut self) {
        let Some(ranges) = node::wait_for_pod_ranges(&mut self.ranges).await else { return };
        if !self.state.pod_cidrs.is_empty() {
            if self.state.pod_cidrs != ranges {
                tracing::error!(
                    kept = ?self.state.pod_cidrs, of_node = ?ranges,
                    "the Node has other addresses for pods than this node has given out: remove the old ones with --cleanup"
                );
            }
            return;
        }
        let mut state = self.state.clone();
        state.pod_cidrs = ranges;
        let mut backoff = Backoff::new(RETRY_FIRST, RETRY_MAX);
        while let Err(err) = self.open(&state).await {
            let delay = backoff.step();
            tracing::error!(error = format!("{err:#}"), ?delay, "no pod network yet");
            self.network.fail(format!("{err:#}"));
            tokio::time::sleep(delay).await;
        }
    }

    /// Written down first: what is in the kernel is found again.
    async fn open(&self, state: &State) -> Result<()> {
        let settings = state.settings(self.cluster_cidr.as_deref())?;
        state.save(&self.data_dir)?;
        let config = node::network_config(&settings, &self.data_dir);
        let opened = tokio::task::spawn_blocking(|| Network::open(config)).await;
        let network = opened.context("opening the pod network")?;
        let network = Arc::new(network.context("making the pod network")?);
        network.follow(&self.tasks).context("following the pod network")?;
        self.network.open(network, &self.tasks).await.context("telling the pod network of pods")
    }
}
