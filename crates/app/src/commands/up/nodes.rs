//! The nodes of this machine: its own, in this process, and further ones in namespaces of their own.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use anyhow::Result;
use apimachinery::User;
use client::Client;
use informer::Factory;
use lifecycle::Tasks;
use network::Network;
use stdx::World;
use telemetry::Registry as Metrics;

use super::Flags;
use crate::api_server::ApiServer;
use crate::cluster::Cluster;
use crate::data_dir::DataDir;
use crate::joining::{self, Facts, JoinToken, NewToken, Place};
use crate::local_nodes::{self, LocalNodes};
use crate::progress::Progress;
use crate::{control_plane, node};

/// What of the machine is made before the API server starts.
pub(super) struct Machine {
    pub(super) settings: node::Settings,
    network: Arc<Network>,
}

impl Machine {
    pub(super) fn addresses(&self) -> Vec<IpAddr> {
        self.settings.node_addresses(self.network.gateways())
    }

    /// By its pods, and by further nodes, and so by any pod.
    pub(super) fn reached_at(&self, cluster: &Cluster) -> Vec<IpAddr> {
        let local = cluster.local_nodes.as_ref().map_or_else(Vec::new, |it| it.gateways());
        local.into_iter().chain(self.network.gateways().iter().copied()).collect()
    }
}

/// On the network between nodes the API server listens.
pub(super) fn open_local(
    machine: Option<&Machine>,
    cluster: &Cluster,
    data: &DataDir,
    tasks: &Tasks,
) -> Result<Option<LocalNodes>> {
    let local = machine.map(|_| LocalNodes::of(cluster, data.path())).transpose()?.flatten();
    if let Some(local) = &local {
        local.open()?;
        local.stop_with(tasks);
    }
    Ok(local)
}

pub(super) fn open_machine(
    flags: &Flags,
    cluster: &Cluster,
    data: &DataDir,
) -> Result<Option<Machine>> {
    let Some(node) = cluster.node.as_ref().filter(|_| flags.node == super::NodeKind::Embedded)
    else {
        return Ok(None);
    };
    let settings = flags.ways.set(node::Settings {
        proxy_mode: flags.proxy_mode,
        allowed_unsafe_sysctls: flags.allowed_unsafe_sysctls.clone(),
        gates: flags.component.gates(),
        ..node::Settings::new(cluster, node)
    })?;
    let network = node::open_network(&settings, data.path())?;
    Ok(Some(Machine { settings, network }))
}

/// This process itself, which made the cluster.
pub(super) fn itself(api: &ApiServer) -> Client {
    api.server.client(User::new("xebec:up", &["system:masters"]), "xebec")
}

/// With what a machine becomes a node, for a day.
pub(super) struct Joining {
    token: JoinToken,
    place: Place,
}

impl Joining {
    /// What one types there.
    pub(super) fn line(&self) -> String {
        format!("xebec join {}@{}", self.token.render(), self.place)
    }
}

/// Publishes what machines need to join, where they reach this cluster: those elsewhere, if any do,
/// else its further nodes here. `None`: nobody is to join.
pub(super) async fn open_for_nodes(
    api: &ApiServer,
    cluster: &Cluster,
    local: Option<&LocalNodes>,
    world: &World,
) -> Result<Option<Joining>> {
    if !cluster.takes_nodes() && local.is_none() {
        return Ok(None);
    }
    let client = itself(api);
    let facts = Facts {
        pod_cidrs: cluster.pod_cidrs.clone(),
        service_cidrs: cluster.service_cidrs.clone(),
    };
    let ca_pem = api.pki.authority.certificate_pem();
    let place = Place { host: api.outside.to_string(), port: api.address.port() };
    joining::publish(&client, &place.url(), ca_pem, &facts).await?;
    let new = NewToken::for_a_day("made by xebec up");
    let bootstrap = joining::create_token(&client, &new, world.clock.now(), &world.random).await?;
    let token = JoinToken { bootstrap, pin: Some(authn::pki::pin(ca_pem)?) };
    Ok(Some(Joining { token, place }))
}

/// What a node needs beside itself.
pub(super) struct Starting<'a> {
    pub(super) api: &'a ApiServer,
    pub(super) factory: &'a Arc<Factory>,
    pub(super) metrics: Metrics,
    pub(super) progress: &'a Progress,
    pub(super) world: &'a World,
    pub(super) tasks: &'a Tasks,
}

/// All of this machine, at once. Returns how many they are, when all are Ready.
pub(super) async fn start(
    (machine, local): (Option<&Machine>, Option<&LocalNodes>),
    joining: Option<&Joining>,
    starting: &Starting<'_>,
) -> Result<usize> {
    let Starting { api, factory, progress, .. } = starting;
    let Some(machine) = machine else { return Ok(0) };
    progress.waiting("starting the node");
    let own = start_own(machine, starting);
    let Some((local, joining)) = local.zip(joining) else {
        own.await?;
        control_plane::wait_for_nodes(factory, 1).await?;
        progress.done(&format!("node {} ready", machine.settings.node_name));
        return Ok(1);
    };
    let further = local.start(local_nodes::Start {
        server: SocketAddr::new(local.gateway()?, api.address.port()).to_string(),
        flags: crate::flags_for_nodes(),
        token: Some(joining.token.render()),
    });
    tokio::try_join!(own, further)?;
    let n_nodes = 1 + local.len();
    control_plane::wait_for_nodes(factory, n_nodes).await?;
    progress.done(&format!("{n_nodes} nodes ready"));
    Ok(n_nodes)
}

/// The node of this machine, in this process. Its network is open already.
async fn start_own(machine: &Machine, starting: &Starting<'_>) -> Result<()> {
    let Starting { api, metrics, world, tasks, .. } = starting;
    let Machine { settings, network } = machine;
    node::give_role(itself(api), &settings.node_name, &tasks.child("node-role"), world);
    let addresses = machine.addresses();
    let wiring = node::Wiring {
        clients: &node::Clients::in_process(&api.server, &settings.node_name),
        serving: api.pki.kubelet_serving(
            &settings.node_name,
            &addresses,
            &tasks.child("kubelet"),
        )?,
        client_ca: api.pki.authority.certificate_pem().to_owned(),
        addresses,
        network: Some(network.clone()),
        note_ranges: &|_| Ok(()),
        data_dir: api.data.path(),
        metrics: metrics.clone(),
        world,
        tasks,
    };
    node::start(settings, &wiring).await
}
