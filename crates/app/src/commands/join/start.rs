//! The wiring of a node that has joined: the same parts as `up` has, over HTTPS, each with a
//! certificate of its own.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use authn::pki::{Authority, Identity};
use client::Client;
use client::https::{Config, Https, Servers};
use informer::{Factory, Selection};
use lifecycle::Tasks;
use stdx::World;
use telemetry::Registry;

use super::Flags;
use super::record::Record;
use crate::cluster::{Cluster, Node};
use crate::control_plane;
use crate::data_dir::DataDir;
use crate::joining::{
    Credentials, Kept, Place, Purpose, Refusal, check_version, follow_servers, is_unauthorized,
};
use crate::node::{self, Clients};
use crate::progress::{Progress, say};

/// Held while the node runs.
pub(super) struct Started {
    _record: Arc<Record>,
}

/// What all clients of this node have in common.
struct Connecting<'a> {
    server: String,
    others: Servers,
    ca_pem: String,
    metrics: Registry,
    world: &'a World,
    tasks: &'a Tasks,
}

impl Connecting<'_> {
    fn connect(&self, kept: &Kept, name: &str) -> Result<(Https, Client)> {
        let config = Config {
            server: self.server.clone(),
            others: self.others.clone(),
            ca_pem: self.ca_pem.clone().into_bytes(),
            identity: Some(kept.shown.clone()),
            user_agent: format!("{name}/v1.36 (xebec)"),
            metrics: self.metrics.clone(),
            ..Config::default()
        };
        // They last until all others have ended.
        let connections = self.tasks.child_last("connections");
        let https = Https::new(&connections, self.world, &config)?;
        Ok((https.clone(), Client::new(Arc::new(https), name)))
    }
}

pub(super) async fn start(
    flags: &Flags,
    cluster: Cluster,
    data: DataDir,
    tasks: &Tasks,
) -> Result<Started> {
    let world = World::system();
    let progress = Progress::start();
    let node = cluster.node.as_ref().context("a machine that has joined has a node")?;
    let joined = cluster.joined.as_ref().context("a machine that has joined knows where")?;
    let place = Place::parse(&joined.server).map_err(anyhow::Error::msg)?;
    let credentials = Credentials::new(data.pki(), &node.name, &world);
    let connecting = Connecting {
        server: place.url(),
        others: Servers::new(&joined.others),
        ca_pem: super::read(&super::authority(&data))?,
        metrics: flags.component.registry(),
        world: &world,
        tasks,
    };
    progress.waiting("asking for certificates");
    let Some(identity) = credentials.load(&Purpose::Kubelet)? else {
        bail!("{}", super::flags::how_to_join(Some(&cluster)));
    };
    let kubelet = credentials.keep(Purpose::Kubelet, &identity)?;
    let (https, client) = connecting.connect(&kubelet, "kubelet")?;
    let is_known = check_version(&client, &place).await;
    if is_known.as_ref().is_err_and(is_unauthorized) {
        return Err(Refusal::ShutOut(place).into());
    }
    let clients = components(&credentials, &connecting, &client, tasks).await?;
    credentials.renew(kubelet, &client, vec![https], tasks);
    let record = Record::new(cluster.clone(), data);
    let keep = record.clone();
    let keep = move |known: &[SocketAddr]| keep.note_servers(known);
    let following = tasks.child("api-servers");
    follow_servers(&clients.network, &connecting.others, keep, &following, &world);

    progress.waiting("starting the node");
    let settings = settings(flags, &cluster, node)?;
    start_node(&settings, &connecting, &clients, &credentials, &record).await?;
    match is_known {
        Ok(()) => {
            wait_until_ready(&settings.node_name, &client, &world, tasks).await?;
            progress.done(&format!("node {} ready", settings.node_name));
        }
        // What runs here goes on without it.
        Err(err) => say(&format!("node {} started; {err:#}", settings.node_name)),
    }
    progress.finish();
    Ok(Started { _record: record })
}

fn settings(flags: &Flags, cluster: &Cluster, node: &Node) -> Result<node::Settings> {
    flags.ways.set(node::Settings {
        proxy_mode: flags.proxy_mode,
        allowed_unsafe_sysctls: flags.allowed_unsafe_sysctls.clone(),
        gates: flags.component.gates(),
        ..node::Settings::new(cluster, node)
    })
}

/// Returns when its parts run, and those who call the kubelet believe it.
async fn start_node(
    settings: &node::Settings,
    connecting: &Connecting<'_>,
    clients: &Clients,
    credentials: &Credentials,
    record: &Record,
) -> Result<()> {
    let all_pods = settings.pod_cidrs.all();
    let ranges: Vec<IpAddr> = all_pods.iter().map(|it| it.network()).collect();
    let addresses = settings.node_addresses(&ranges);
    let serving = serving(credentials, &addresses)?;
    let network = match settings.node_cidrs.is_empty() {
        true => None,
        false => Some(node::open_network(settings, record.folder())?),
    };
    let wiring = node::Wiring {
        clients,
        serving: serving.shown.clone(),
        client_ca: connecting.ca_pem.clone(),
        addresses,
        network,
        note_ranges: &|given| record.note_ranges(given),
        data_dir: record.folder(),
        metrics: connecting.metrics.clone(),
        world: connecting.world,
        tasks: connecting.tasks,
    };
    node::start(settings, &wiring).await?;
    serve_as_signed(credentials, serving, &clients.kubelet, connecting.tasks).await
}

/// What runs on the node beside the kubelet, each with a certificate that the kubelet's own gets it.
async fn components(
    credentials: &Credentials,
    connecting: &Connecting<'_>,
    kubelet: &Client,
    tasks: &Tasks,
) -> Result<Clients> {
    let [proxy, dns, network] = Purpose::COMPONENTS.map(|it| async move {
        let name = it.file();
        let kept = credentials.load_or_ask(kubelet, it).await?;
        let (https, client) = connecting.connect(&kept, name)?;
        credentials.renew(kept, kubelet, vec![https], tasks);
        anyhow::Ok(client)
    });
    let (proxy, dns, network) = tokio::try_join!(proxy, dns, network)?;
    Ok(Clients { kubelet: kubelet.clone(), proxy, dns, network })
}

/// The one that was signed before, else one that nobody signed, until the Node is there and somebody
/// does.
fn serving(credentials: &Credentials, addresses: &[IpAddr]) -> Result<Kept> {
    let purpose = Purpose::Serving(addresses.to_vec());
    let identity = match credentials.load(&purpose)? {
        Some(identity) => identity,
        None => unsigned(credentials, addresses)?,
    };
    credentials.keep(purpose, &identity)
}

fn unsigned(credentials: &Credentials, addresses: &[IpAddr]) -> Result<Identity> {
    let (name, World { clock, random }) = (credentials.node.as_str(), &credentials.world);
    let authority = Authority::create(&format!("{name}-unsigned"), clock.now(), random)?;
    Ok(authority.issue_server(name, &[name], addresses, clock.now(), random)?)
}

/// At each start anew, since the addresses may be others.
async fn serve_as_signed(
    credentials: &Credentials,
    serving: Kept,
    client: &Client,
    tasks: &Tasks,
) -> Result<()> {
    let had_one = credentials.load(&serving.purpose)?.is_some();
    match credentials.exchange(&serving, client).await {
        Ok(renewed) => credentials.renew(renewed, client, Vec::new(), tasks),
        Err(err) if had_one => {
            tracing::warn!(
                error = format!("{err:#}"),
                "the certificate to serve with is an older one"
            );
            credentials.renew(serving, client, Vec::new(), tasks);
        }
        Err(err) => return Err(err),
    }
    Ok(())
}

async fn wait_until_ready(name: &str, client: &Client, world: &World, tasks: &Tasks) -> Result<()> {
    let tasks = tasks.child("own-node");
    let factory = Factory::new(client.clone(), world.clone(), &tasks);
    let field_selector = format!("metadata.name={name}");
    let selection = Selection { field_selector, ..Selection::default() };
    let ready = control_plane::wait_for_nodes_of(&factory, selection, 1);
    factory.start();
    let outcome = ready.await;
    tasks.cancel();
    outcome
}
