//! The wiring of a proxy that runs alone: the same part as `up` has, over HTTPS.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use anyhow::{Context as _, Result, anyhow, ensure};
use client::Client;
use informer::Factory;
use lifecycle::Tasks;
use node_api::ClusterId;
use service_proxy::backends::{self, Mode};
use stdx::{Cidr, Family, SharedClock, World};
use telemetry::Registry;

use super::{Flags, node, remote};
use crate::commands::network::{parse_pod_cidrs, parse_service_cidrs};
use crate::component_config::proxy::KubeProxyConfiguration;
use crate::plain_server::{self, Answer};

const NAME: &str = "kube-proxy";

/// All that can be refused is known.
pub(super) struct Plan {
    pub(super) cluster: ClusterId,
    pub(super) node_name: String,
    remote: client::https::Config,
    metrics: Registry,
    mode: &'static Mode,
    /// `None`: the Node says.
    pod_cidrs: Option<Vec<Cidr>>,
    /// `None`: they are not known.
    service_cidrs: Option<Vec<Cidr>>,
    node_port_addresses: Option<Vec<Cidr>>,
}

impl Plan {
    pub(super) fn new(
        flags: &Flags,
        configuration: &KubeProxyConfiguration,
        metrics: Registry,
    ) -> Result<Self> {
        let kubeconfig = &configuration.client_connection.kubeconfig;
        ensure!(!kubeconfig.as_os_str().is_empty(), "give --kubeconfig");
        let mut remote = remote::config(kubeconfig, NAME, &metrics)?;
        if let Some(master) = &flags.master {
            remote.server.clone_from(master);
        }
        let node_name = match configuration.hostname_override.trim() {
            "" => node::node_name(),
            name => name.to_ascii_lowercase(),
        };
        let pod_cidrs = match configuration.cluster_cidr.as_str() {
            _ if configuration.is_local_by_node() => None,
            "" if flags.cleanup => None,
            "" => anyhow::bail!("give --cluster-cidr, or --detect-local-mode NodeCIDR"),
            text => Some(parse_pod_cidrs(text).map_err(|err| anyhow!("clusterCIDR: {err}"))?),
        };
        let service_cidrs = flags.service_cluster_ip_range.as_deref().map(parse_service_cidrs);
        let service_cidrs = service_cidrs
            .transpose()
            .map_err(|err| anyhow!("--service-cluster-ip-range: {err}"))?;
        Ok(Self {
            cluster: node::derive_id(&remote.ca_pem, &node_name),
            node_name,
            remote,
            metrics,
            mode: backends::mode(&configuration.mode).context("mode")?,
            pod_cidrs: pod_cidrs.map(|it| it.all().to_vec()),
            service_cidrs: service_cidrs.map(|it| it.all().to_vec()),
            node_port_addresses: configuration.node_port_addresses(),
        })
    }

    /// Services are served in the families that pods have.
    fn config(&self, pod_cidrs: Vec<Cidr>) -> service_proxy::Config {
        let of_nobody = || pod_cidrs.iter().map(|it| of_nobody(it.family())).collect();
        service_proxy::Config {
            cluster: self.cluster,
            node_name: self.node_name.clone(),
            mode: self.mode,
            service_cidrs: self.service_cidrs.clone().unwrap_or_else(of_nobody),
            pod_cidrs,
            node_port_addresses: self.node_port_addresses.clone(),
            worker: Some(worker(self.cluster)),
            pods_cgroup: self.cluster.cgroup(),
        }
    }
}

/// Of a proxy that has no directory of its own.
pub(super) fn worker(cluster: ClusterId) -> packets::Place {
    packets::Place::new(Path::new("/run").join(cluster.table("proxy")), node::PROGRAM.into())
}

/// A range that no Service is in.
fn of_nobody(family: Family) -> Cidr {
    Cidr::host(match family {
        Family::V4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        Family::V6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    })
}

pub(super) async fn start(
    plan: Plan,
    configuration: &KubeProxyConfiguration,
    tasks: &Tasks,
) -> Result<()> {
    let world = World::system();
    let client = remote::connect(&plan.remote, NAME, tasks, &world)?;
    if let Some(address) = configuration.healthz() {
        serve_health(address, world.clock.clone(), tasks).await?;
    }
    if let Some(address) = configuration.metrics() {
        serve_metrics(address, plan.metrics.clone(), plan.mode, tasks).await?;
    }
    match plan.pod_cidrs.clone() {
        Some(pods) => follow(&plan, pods, client, &world, tasks),
        None => follow_when_known(plan, client, world, tasks),
    }
    Ok(())
}

fn follow(plan: &Plan, pods: Vec<Cidr>, client: Client, world: &World, tasks: &Tasks) {
    let factory = Factory::new(client, world.clone(), tasks);
    service_proxy::start(plan.config(pods), tasks, world, &factory);
    factory.start();
}

/// Rules that an earlier process made stay meanwhile.
fn follow_when_known(plan: Plan, client: Client, world: World, tasks: &Tasks) {
    let nodes = Factory::new(client.clone(), world.clone(), tasks);
    let mut ranges = node::follow_pod_ranges(&nodes, &plan.node_name);
    let children = tasks.clone();
    tasks.spawn("pod-ranges", |shutdown| async move {
        let known = tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            known = node::wait_for_pod_ranges(&mut ranges) => known,
        };
        if let Some(pods) = known {
            follow(&plan, pods, client, &world, &children);
        }
    });
    nodes.start();
}

/// As upstream's answers: what is told to the proxy is in the kernel, or it says so in its log and
/// tries again.
async fn serve_health(address: SocketAddr, clock: SharedClock, tasks: &Tasks) -> Result<()> {
    let answer = move |path: &str| {
        if !matches!(path, "/healthz" | "/livez") {
            return Answer::missing();
        }
        let now = clock.now();
        let body =
            format!(r#"{{"lastUpdated": "{now}","currentTime": "{now}", "nodeEligible": true}}"#);
        Answer { content_type: "application/json", ..Answer::ok(body) }
    };
    plain_server::serve(address, "--healthz-bind-address", answer, tasks).await
}

async fn serve_metrics(
    address: SocketAddr,
    metrics: Registry,
    mode: &'static Mode,
    tasks: &Tasks,
) -> Result<()> {
    let answer = move |path: &str| match path {
        "/metrics" => {
            Answer { content_type: telemetry::CONTENT_TYPE, ..Answer::ok(metrics.render()) }
        }
        "/proxyMode" => Answer::ok(mode.name),
        path => plain_server::healthz(path),
    };
    plain_server::serve(address, "--metrics-bind-address", answer, tasks).await
}
