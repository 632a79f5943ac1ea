//! `xebec up`: a cluster on this machine, from one command to a kubeconfig context.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use features::RuntimeConfig;
use informer::Factory;
use lifecycle::Tasks;
use linux::sysctl::{Pattern, PatternError};
use network::Network;
use stdx::World;

use super::network::{Cidr, parse_cidr};
use crate::api_server::{ApiServer, Settings};
use crate::control_plane::{self, PodNetwork, Singletons};
use crate::data_dir::DataDir;
use crate::progress::{Progress, say};
use crate::{api_server, component, data_dir, datastore, detach, kubeconfig_file, node, serve};

#[derive(clap::Args)]
pub(crate) struct Flags {
    /// Where the cluster keeps everything
    #[arg(long, value_name = "DIR", default_value_os_t = data_dir::default_path(), value_parser = data_dir::parser())]
    data_dir: PathBuf,
    /// Port of the API server; 0 picks a free one
    #[arg(long, value_name = "N", default_value_t = 6443)]
    https_port: u16,
    /// Address the API server listens on
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    bind_address: IpAddr,
    /// Addresses of Services
    #[arg(long, value_name = "CIDR", default_value = "10.96.0.0/16", value_parser = parse_cidr)]
    service_cidr: Cidr,
    /// Addresses of pods
    #[arg(long, value_name = "CIDR", default_value = "10.244.0.0/16", value_parser = parse_cidr)]
    pod_cidr: Cidr,
    /// The node on this machine; `none` is a control plane alone
    #[arg(long, value_name = "KIND", default_value = "embedded")]
    node: NodeKind,
    /// Name of the node
    #[arg(long, value_name = "NAME", default_value_t = node::node_name())]
    node_name: String,
    /// Address of the node; without it the one that the machine sends from
    #[arg(long, value_name = "IP")]
    node_ip: Option<IpAddr>,
    /// Port of the kubelet
    #[arg(long, value_name = "N", default_value_t = 10250)]
    kubelet_port: u16,
    /// Cgroup below which the pods' are made
    #[arg(long, value_name = "PATH", default_value = "")]
    cgroup_root: String,
    /// Kernel settings that pods may ask for though they are not safe; `*` at the end stands for anything
    #[arg(long, value_name = "SYSCTL,...", value_delimiter = ',', value_parser = parse_sysctl_pattern)]
    allowed_unsafe_sysctls: Vec<Pattern>,
    /// Simulated nodes beside it
    #[arg(long, value_name = "N", default_value_t = 0)]
    simulate: usize,
    #[command(flatten)]
    datastore: datastore::Flags,
    /// Go to the background once the cluster is ready
    #[arg(long)]
    detach: bool,
    /// Log level: 0 warnings, 1 and 2 information, 3 to 5 each request and decision, 6 and more everything
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
    None,
}

fn parse_sysctl_pattern(text: &str) -> Result<Pattern, PatternError> {
    Pattern::parse(text)
}

/// More would not fit into the pod and node address ranges.
const SIMULATE_MAX: usize = 100_000;

pub(crate) fn run(flags: Flags) -> Result<()> {
    if flags.simulate > SIMULATE_MAX {
        bail!("--simulate: at most {SIMULATE_MAX} nodes");
    }
    let runtime_config = flags.api.runtime_config(control_plane::FOLLOWED)?;
    if flags.node == NodeKind::Embedded {
        node::check_requirements()?;
    }
    if flags.detach && !flags.detached_child {
        return detach::start(&flags.data_dir);
    }
    if flags.detached_child {
        detach::leave_terminal();
    }
    flags.component.start_logging(flags.verbosity);
    serve::run(|tasks| async move { start(&flags, runtime_config, &tasks).await })
}

async fn start(flags: &Flags, runtime_config: RuntimeConfig, tasks: &Tasks) -> Result<ApiServer> {
    let world = World::system();
    let progress = Progress::start();
    progress.waiting("starting the API server");
    let data = DataDir::open(&flags.data_dir)?;
    let bind = SocketAddr::new(flags.bind_address, flags.https_port);
    let listener = api_server::listen(bind).await?;
    let machine = open_machine(flags, &data)?;
    let settings = Settings {
        bind,
        service_cidr: flags.service_cidr,
        pods_reach: machine.as_ref().map(|it| it.network.gateway()),
        datastore: flags.datastore.clone(),
        gates: flags.component.gates(),
        runtime_config,
        metrics: flags.component.registry(),
    };
    let api = ApiServer::start(data, listener, &settings, &world, tasks).await?;
    progress.done(&format!("API server ready on https://{}", api.address));
    let merged = kubeconfig_file::merge_into_users(&api.cluster, &api.pki.admin)?;

    let factory = start_singletons(&api, tasks, &world, &progress).await;
    if let Some(Machine { settings, network }) = &machine {
        progress.waiting("starting the node");
        let metrics = flags.component.registry();
        let neighbors = node::Neighbors { api: &api, network, tasks, world: &world, metrics };
        node::start(settings, &neighbors).await?;
        control_plane::wait_for_nodes(&factory, 1).await;
        progress.done(&format!("node {} ready", settings.node_name));
    }
    if flags.simulate > 0 {
        progress.waiting("registering simulated nodes");
        let network = PodNetwork {
            address: flags.pod_cidr.address,
            prefix_length: flags.pod_cidr.prefix_length,
        };
        control_plane::start_fleet(&api.server, tasks, &world, &factory, flags.simulate, network);
        let wanted = flags.simulate + usize::from(machine.is_some());
        control_plane::wait_for_nodes(&factory, wanted).await;
        progress.done(&format!("{} simulated nodes ready", flags.simulate));
    }
    progress.finish();
    say_what_next(flags, &api.data.kubeconfig(), merged.as_deref());
    if flags.detached_child {
        detach::ready()?;
    }
    forget_the_start(tasks);
    Ok(api)
}

/// Controllers and scheduler: here, or by election where other servers may be over the same store. Returns informers for
/// the rest of the start.
async fn start_singletons(
    api: &ApiServer,
    tasks: &Tasks,
    world: &World,
    progress: &Progress,
) -> Arc<Factory> {
    let singletons = Singletons {
        server: api.server.clone(),
        world: world.clone(),
        root_ca: api.cluster.ca_pem.clone(),
        metrics: api.metrics.clone(),
    };
    if api.is_shared() {
        singletons.start_when_elected(tasks);
        progress.done("controllers and scheduler stand for election");
        let factory = singletons.factory(&tasks.child("nodes"));
        factory.start();
        return factory;
    }
    progress.waiting("starting controllers and scheduler");
    let factory = singletons.start(tasks);
    factory.wait_for_sync().await;
    progress.done("controllers and scheduler running");
    factory
}

/// When the start is over.
const SETTLED: Duration = Duration::from_secs(5);

/// Most code pages were needed for the start alone; once, a while after it, they are given back.
fn forget_the_start(tasks: &Tasks) {
    tasks.spawn("forget-the-start", |shutdown| async move {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => {}
            () = tokio::time::sleep(SETTLED) => {
                if let Err(err) = linux::process::drop_touched_pages() {
                    tracing::debug!(error = %err, "pages not given back");
                }
            }
        }
    });
}

/// What of the machine is made before the API server starts.
struct Machine {
    settings: node::Settings,
    network: Arc<Network>,
}

fn open_machine(flags: &Flags, data: &DataDir) -> Result<Option<Machine>> {
    if flags.node == NodeKind::None {
        return Ok(None);
    }
    let settings = node::Settings {
        node_name: flags.node_name.clone(),
        node_ip: flags.node_ip,
        bridge: BRIDGE.to_owned(),
        pod_cidr: flags.pod_cidr,
        service_cidr: flags.service_cidr,
        cgroup_root: flags.cgroup_root.clone(),
        kubelet_port: flags.kubelet_port,
        allowed_unsafe_sysctls: flags.allowed_unsafe_sysctls.clone(),
    };
    settings.save(data.path())?;
    let network = node::open_network(&settings, data.path())?;
    Ok(Some(Machine { settings, network }))
}

const BRIDGE: &str = "xebec0";

fn say_what_next(flags: &Flags, kubeconfig: &Path, merged: Option<&Path>) {
    let context = match merged {
        Some(path) => format!("Context \"xebec\" is in {}.", path.display()),
        None => format!("export KUBECONFIG={}", kubeconfig.display()),
    };
    say("");
    say(&format!("Your cluster is ready. {context} Try:"));
    say("");
    if flags.simulate > 0 || flags.node == NodeKind::Embedded {
        say("  kubectl get nodes");
        say("  kubectl create deployment web --image=xebec.local/toolbox --replicas=3");
        say("  kubectl get pods -o wide");
    } else {
        say("  kubectl get namespaces");
        say("  kubectl api-resources");
        say(
            "  (there are no nodes: start without --node none, or with --simulate 3, to see pods run)",
        );
    }
    say("");
    if flags.detached_child {
        say(&format!("Stop it with: xebec down --data-dir {}", flags.data_dir.display()));
    } else {
        say("Stop it with Ctrl-C.");
    }
}
