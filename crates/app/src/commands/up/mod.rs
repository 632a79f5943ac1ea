//! `xebec up`: a cluster on this machine, from one command to a kubeconfig context.

mod nodes;

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::control_plane::{Availability, Components, ControllerSettings};
use anyhow::{Context as _, Result, bail};
use informer::Factory;
use lifecycle::Tasks;
use linux::sysctl::{Pattern, PatternError};
use node_api::ClusterId;
use service_proxy::backends;
use stdx::World;

use super::network::{
    Addresses, Cidrs, PortRange, parse_addresses, parse_pod_cidrs, parse_port_range,
    parse_service_cidrs,
};
use super::next_steps;
use super::ways;
use crate::api_server::{ApiServer, PATIENCE, Settings, serve_on};
use crate::cluster::{Claim, Cluster, ContainerRuntime, Name, NodeWishes, Registry, Wishes, claim};
use crate::control_plane::{self, PodNetwork};
use crate::detach::{self, Parent};
use crate::progress::{Progress, say};
use crate::{
    component, data_dir, datastore, front_proxy, kubeconfig_file, node, serve, server_names,
    signing, token_keys,
};
use nodes::Machine;

#[derive(clap::Args)]
pub(crate) struct Flags {
    /// Name of the cluster: of its data directory, and of the context `xebec-NAME` (default: xebec,
    /// with the context `xebec`)
    #[arg(long, value_name = "NAME", value_parser = Name::parse)]
    name: Option<Name>,
    /// Where the cluster keeps everything (default: /var/lib/xebec or /var/lib/xebec-NAME; without
    /// root below ~/.local/share)
    #[arg(long, value_name = "DIR", value_parser = data_dir::parser())]
    data_dir: Option<PathBuf>,
    /// Port of the API server; 0 picks any (default: the one it had, else the first free one from
    /// 6443 on)
    #[arg(long, value_name = "N")]
    https_port: Option<u16>,
    /// Address the API server listens on
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    bind_address: IpAddr,
    #[command(flatten)]
    names: server_names::Flags,
    /// Addresses of Services, of IPv4, IPv6 or both, such as 10.96.0.0/16,fd00:10:96::/112 (default:
    /// those it had, else the next free ones of the pods' families)
    #[arg(long, value_name = "CIDR[,CIDR]", value_parser = parse_service_cidrs)]
    service_cidr: Option<Cidrs>,
    /// Addresses of pods, of IPv4, IPv6 or both, such as 10.244.0.0/16,fd00:10:244::/56 (default:
    /// those it had, else 10.244.0.0/16 or the next free ones)
    #[arg(long, value_name = "CIDR[,CIDR]", value_parser = parse_pod_cidrs)]
    pod_cidr: Option<Cidrs>,
    /// Ports of Services of the type NodePort (default: those it had, else 30000-32767 or the next
    /// free thousand below)
    #[arg(long, value_name = "FIRST-LAST", value_parser = parse_port_range)]
    service_node_port_range: Option<PortRange>,
    /// The node on this machine; `none` is a control plane alone
    #[arg(long, value_name = "KIND", default_value = "embedded")]
    node: NodeKind,
    /// Nodes on this machine; those beyond the first are in namespaces of their own (default: as many
    /// as it had, else 1)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    nodes: Option<u8>,
    /// With --nodes: addresses of the network between them, of the families that pods have (default:
    /// those it had, else the next free ones)
    #[arg(long, value_name = "CIDR[,CIDR]", value_parser = parse_pod_cidrs)]
    node_cidr: Option<Cidrs>,
    /// Name of the node (default: the one it had, else the host's); further ones are NAME-2, NAME-3
    #[arg(long, value_name = "NAME")]
    node_name: Option<String>,
    /// Address of the node, or one of each family (default: those that the machine sends from)
    #[arg(long, value_name = "IP[,IP]", value_parser = parse_addresses)]
    node_ip: Option<Addresses>,
    /// Port of the kubelet (default: the one it had, else the first free one from 10250 on)
    #[arg(long, value_name = "N")]
    kubelet_port: Option<u16>,
    /// Cgroup below which the pods' are made (default: xebec-ID, where ID is the cluster's)
    #[arg(long, value_name = "PATH")]
    cgroup_root: Option<String>,
    /// Socket of a container runtime that speaks CRI, such as unix:///run/containerd/containerd.sock;
    /// empty: none but ourselves (default: the one it had, else none)
    #[arg(long, value_name = "ENDPOINT", value_parser = parse_container_runtime)]
    container_runtime_endpoint: Option<ContainerRuntime>,
    /// Kernel settings that pods may ask for though they are not safe; `*` at the end stands for
    /// anything
    #[arg(long, value_name = "SYSCTL,...", value_delimiter = ',', value_parser = parse_sysctl_pattern)]
    allowed_unsafe_sysctls: Vec<Pattern>,
    /// How the node serves Services
    #[arg(long, value_name = "MODE", default_value = "nftables", value_parser = backends::mode)]
    proxy_mode: &'static backends::Mode,
    #[command(flatten)]
    ways: ways::Flags,
    /// Simulated nodes beside it
    #[arg(long, value_name = "N", default_value_t = 0)]
    simulate: usize,
    #[command(flatten)]
    front_proxy: front_proxy::Flags,
    #[command(flatten)]
    token_keys: token_keys::Flags,
    #[command(flatten)]
    datastore: datastore::Flags,
    #[command(flatten)]
    signing: signing::Flags,
    #[command(flatten)]
    controllers: ControllerSettings,
    /// Go to the background once the cluster is ready
    #[arg(long)]
    detach: bool,
    /// Log level: 0 warnings, 1 and 2 information, 3 to 5 each request and decision, 6 and more
    /// everything
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value_t = 0)]
    verbosity: u8,
    #[command(flatten)]
    component: component::Flags,
    #[command(flatten)]
    api: component::ApiFlags,
    /// Set on the process in the background
    #[arg(long, hide = true)]
    detached_child: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum NodeKind {
    /// Containers in this binary
    Embedded,
    /// No node
    None,
}

pub(crate) fn parse_sysctl_pattern(text: &str) -> Result<Pattern, PatternError> {
    Pattern::parse(text)
}

/// More would not fit into the pod and node address ranges.
const SIMULATE_MAX: usize = 100_000;

pub(crate) fn run(flags: Flags) -> Result<()> {
    if flags.detach && !flags.detached_child {
        return detach::start();
    }
    let Claim { cluster, data, listener } = prepare(&flags)?;
    let parent = flags.detached_child.then(|| Parent::leave(data.path())).transpose()?;
    flags.component.start_logging(flags.verbosity);
    let parent = Mutex::new(parent);
    let take_parent = || parent.lock().unwrap_or_else(PoisonError::into_inner).take();
    let (started, directory) = (cluster.clone(), data.path().to_owned());
    let outcome = serve::run_and_then(
        |tasks| async move {
            let api = start(&flags, Claim { cluster: started, data, listener }, &tasks).await?;
            take_parent().map_or(Ok(()), Parent::ready)?;
            Ok(api)
        },
        |_| next_steps::say_farewell(&cluster, &directory),
    );
    if let (Err(err), Some(parent)) = (&outcome, take_parent()) {
        parent.fail(err);
    }
    outcome
}

/// Everything that can be refused is refused here, before anything is made.
fn prepare(flags: &Flags) -> Result<Claim> {
    if flags.simulate > SIMULATE_MAX {
        bail!("--simulate: at most {SIMULATE_MAX} nodes");
    }
    if let Some(pods) = flags.pod_cidr.as_ref().filter(|_| flags.simulate > 0) {
        PodNetwork::of(pods)?;
    }
    flags.ways.validate()?;
    flags.names.validate(flags.bind_address)?;
    flags.api.runtime_config(control_plane::FOLLOWED)?;
    flags.api.admission(&flags.component.gates())?;
    flags.signing.signers(None, &World::system())?;
    flags.controllers.check(&availability(flags)?).context("--controllers")?;
    if flags.node == NodeKind::Embedded {
        node::check_requirements()?;
    }
    flags.datastore.validate()?;
    flags.token_keys.validate()?;
    kubeconfig_file::validate()?;
    let registry = Registry::of_this_user();
    claim(&registry.place(flags.data_dir.as_deref(), flags.name.as_ref())?, &wishes(flags))
}

/// What the server of this process has for the controllers.
fn availability(flags: &Flags) -> Result<Availability> {
    let config = flags.api.runtime_config(control_plane::FOLLOWED)?;
    Ok(Availability {
        gates: flags.component.gates(),
        serves: Arc::new(move |(group, version, plural)| config.is_enabled(group, version, plural)),
    })
}

fn wishes(flags: &Flags) -> Wishes {
    let node = NodeWishes {
        name: flags.node_name.clone(),
        default_name: node::node_name(),
        ips: flags.node_ip.clone().map(|it| it.0).unwrap_or_default(),
        default_ips: node::machine_addresses(),
        kubelet_port: flags.kubelet_port,
        cgroup_root: flags.cgroup_root.clone(),
        container_runtime: flags.container_runtime_endpoint.clone(),
    };
    let random = World::system().random.next_u64() as u32;
    Wishes {
        name: flags.name.clone(),
        bind_address: flags.bind_address,
        https_port: flags.https_port,
        service_cidrs: flags.service_cidr.clone(),
        pod_cidrs: flags.pod_cidr.clone(),
        node_ports: flags.service_node_port_range,
        node: (flags.node == NodeKind::Embedded).then_some(node),
        nodes: flags.nodes,
        node_cidrs: flags.node_cidr.clone(),
        joins: None,
        fresh_id: ClusterId::new(NonZeroU32::MIN.saturating_add(random)),
    }
}

async fn start(flags: &Flags, claim: Claim, tasks: &Tasks) -> Result<ApiServer> {
    let Claim { cluster, data, listener } = claim;
    let world = World::system();
    let progress = Progress::start();
    progress.waiting("starting the API server");
    let machine = nodes::open_machine(flags, &cluster, &data)?;
    let local = nodes::open_local(machine.as_ref(), &cluster, &data, tasks)?;
    let settings = server_settings(flags, &cluster, machine.as_ref())?;
    let api = ApiServer::start(data, serve_on(listener)?, &settings, &world, tasks).await?;
    progress.done(&format!("API server ready on https://{}", api.address));
    let merged = merge_kubeconfig(&api)?;

    let components = Components {
        world: world.clone(),
        clients: control_plane::clients(&api.server),
        root_ca: api.cluster.ca_pem.clone(),
        sign_token: Some(control_plane::token_signer(&api.pki.service_account_key)?),
        signers: flags.signing.signers(Some(&api.pki.authority), &world)?,
        controllers: controllers(flags, &cluster),
        availability: availability(flags)?,
        start_interval: Duration::ZERO,
        metrics: api.metrics.clone(),
    };
    let factory = start_components(&components, api.is_shared(), tasks, &progress).await?;
    let cluster_ips = cluster.service_cidrs.nth(10);
    node::publish_dns(nodes::itself(&api), cluster_ips, &tasks.child("cluster-dns"), &world);
    let joining = nodes::open_for_nodes(&api, &cluster, local.as_ref(), &world).await?;
    let starting = nodes::Starting {
        api: &api,
        factory: &factory,
        metrics: flags.component.registry(),
        progress: &progress,
        world: &world,
        tasks,
    };
    let machines = (machine.as_ref(), local.as_ref());
    let n_machines = nodes::start(machines, joining.as_ref(), &starting).await?;
    if flags.simulate > 0 {
        progress.waiting("registering simulated nodes");
        let network = PodNetwork::of(&cluster.pod_cidrs)?;
        let fleet = control_plane::fleet(flags.simulate, network);
        components.start_fleet(tasks, &factory, fleet);
        let wanted = flags.simulate + n_machines;
        control_plane::wait_for_nodes(&factory, wanted).await?;
        progress.done(&format!("{} simulated nodes ready", flags.simulate));
    }
    progress.finish();
    let line = joining.filter(|_| cluster.takes_nodes()).map(|it| it.line());
    let ready = next_steps::Ready {
        cluster: &cluster,
        kubeconfig: &api.data.kubeconfig(),
        merged: merged.as_deref(),
        has_nodes: flags.simulate > 0 || machine.is_some(),
        is_detached: flags.detached_child,
        join: line.as_deref(),
    };
    next_steps::render(&ready).iter().for_each(|it| say(it));
    serve::forget_the_start(tasks);
    Ok(api)
}

fn server_settings(
    flags: &Flags,
    cluster: &Cluster,
    machine: Option<&Machine>,
) -> Result<Settings> {
    Ok(Settings {
        context: cluster.name.context(),
        bind: SocketAddr::new(cluster.bind_address, cluster.https_port),
        service_cidrs: cluster.service_cidrs.clone(),
        node_ports: cluster.node_ports,
        pods_reach: machine.map(|it| it.reached_at(cluster)).unwrap_or_default(),
        node_addresses: machine.map(Machine::addresses).unwrap_or_default(),
        names: flags.names.clone(),
        datastore: flags.datastore.clone(),
        front_proxy: flags.front_proxy.clone(),
        token_keys: flags.token_keys.clone(),
        serving: flags.api.serving.clone(),
        has_components: true,
        has_bootstrap_tokens: true,
        gates: flags.component.gates(),
        runtime_config: flags.api.runtime_config(control_plane::FOLLOWED)?,
        admission: flags.api.admission(&flags.component.gates())?,
        metrics: flags.component.registry(),
    })
}

/// What runs here beside what runs everywhere.
const FOR_NODES: &[&str] = &[
    "bootstrap-signer-controller",
    "node-certificate-approving-controller",
    "token-cleaner-controller",
];

/// With what a cluster that takes nodes needs: tokens, certificates, and ranges for their pods.
fn controllers(flags: &Flags, cluster: &Cluster) -> ControllerSettings {
    let (pods, services) = (cluster.pod_cidrs.all(), cluster.service_cidrs.all());
    flags.controllers.clone().adding(FOR_NODES).allocating_node_cidrs(pods, services)
}

/// One at a time, so that two clusters that start together do not lose each other's context.
fn merge_kubeconfig(api: &ApiServer) -> Result<Option<PathBuf>> {
    let registry = Registry::of_this_user();
    let _locked = registry.lock()?;
    kubeconfig_file::merge_into_users(&api.cluster, &api.pki.admin)
}

/// Controllers and scheduler: here, or by election where other servers may be over the same store.
/// Returns informers for the rest of the start.
async fn start_components(
    components: &Components,
    is_shared: bool,
    tasks: &Tasks,
    progress: &Progress,
) -> Result<Arc<Factory>> {
    if is_shared {
        components.start_when_elected(tasks, || control_plane::identity(&components.world));
        progress.done("controllers and scheduler stand for election");
        let factory = components.factory(&tasks.child("nodes"));
        factory.start();
        return Ok(factory);
    }
    progress.waiting("starting controllers and scheduler");
    let factory = components.start(tasks);
    tokio::time::timeout(PATIENCE, factory.wait_for_sync())
        .await
        .with_context(|| format!("the controllers had not read everything after {PATIENCE:?}"))?;
    progress.done("controllers and scheduler running");
    Ok(factory)
}

pub(crate) fn parse_container_runtime(
    text: &str,
) -> Result<ContainerRuntime, cri::ParseEndpointError> {
    match text {
        "" => Ok(ContainerRuntime::Embedded),
        text => cri::parse_endpoint(text).map(ContainerRuntime::Socket),
    }
}
