//! The API server with everything it stands on: data directory, store, certificates, listener. `up`
//! and `apiserver` share it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use apiserver::{Config, Parts, Server};
use features::{Gates, RuntimeConfig};
use lifecycle::{Readiness, Tasks};
use stdx::{Family, World};
use telemetry::Registry;
use tokio::net::TcpListener;

use crate::admission_plugins::Plugins;
use crate::cluster;
use crate::commands::network::{Cidrs, PortRange, covers};
use crate::component;
use crate::data_dir::DataDir;
use crate::datastore::{self, Datastore};
use crate::front_proxy;
use crate::kubeconfig_file::{self, Cluster};
use crate::pki_files::Pki;
use crate::server_names::{self, Known, Subjects};
use crate::token_keys;

pub(crate) struct Settings {
    /// What the cluster is called in kubeconfigs.
    pub(crate) context: String,
    pub(crate) bind: SocketAddr,
    pub(crate) service_cidrs: Cidrs,
    pub(crate) node_ports: PortRange,
    /// Where pods of this machine, and its further nodes, reach the server beside `bind`: of each
    /// family the first is for all.
    pub(crate) pods_reach: Vec<IpAddr>,
    /// Of the node on this machine.
    pub(crate) node_addresses: Vec<IpAddr>,
    pub(crate) names: server_names::Flags,
    pub(crate) datastore: datastore::Flags,
    pub(crate) front_proxy: front_proxy::Flags,
    pub(crate) token_keys: token_keys::Flags,
    pub(crate) serving: component::ServingFlags,
    /// Whether controllers and scheduler run in this process, unless others over the same store may
    /// run them.
    pub(crate) has_components: bool,
    /// Whether bootstrap tokens let in whoever is to become a node.
    pub(crate) has_bootstrap_tokens: bool,
    pub(crate) gates: Gates,
    pub(crate) runtime_config: RuntimeConfig,
    pub(crate) admission: Plugins,
    /// What `/metrics` shows.
    pub(crate) metrics: Registry,
}

/// A serving API server. The store is closed and the directory's lock released when this is
/// dropped, after the tasks have stopped.
pub(crate) struct ApiServer {
    pub(crate) server: Arc<Server>,
    pub(crate) pki: Pki,
    pub(crate) address: SocketAddr,
    /// Where other machines reach it, if they do.
    pub(crate) outside: IpAddr,
    pub(crate) cluster: Cluster,
    /// Dropping it writes what is queued and closes the files.
    store: Datastore,
    pub(crate) data: DataDir,
    /// For what has no page of its own in this process: the controllers and the scheduler.
    pub(crate) metrics: Registry,
}

impl ApiServer {
    /// Returns when `/readyz` says ok.
    pub(crate) async fn start(
        data: DataDir,
        listener: TcpListener,
        settings: &Settings,
        world: &World,
        tasks: &Tasks,
    ) -> Result<Self> {
        let address = listener.local_addr().context("reading the listening address")?;
        settings.validate()?;
        let inner = settings.listen_for_pods(address)?;
        let pki = Pki::load_or_create(&data.pki(), world)?;
        let name = format!("{}-{}", crate::node::node_name(), address.port());
        let store = settings.datastore.open(&data, &name, world, tasks).await?;
        let readiness = Readiness::default();
        let parts = Parts {
            store: store.store(),
            world: world.clone(),
            tasks: tasks.child("apiserver"),
            readiness: readiness.clone(),
            service_account_keys: vec![pki.service_account_key.clone()],
            metrics: settings.metrics.clone(),
        };
        let front_proxy = settings.front_proxy.load(&pki, tasks)?;
        let trust = front_proxy.trust.clone().context("nobody is trusted")?;
        let config = Config {
            front_proxy,
            service_cidrs: settings.service_cidrs.all().to_vec(),
            node_port_range: settings.node_ports.first..=settings.node_ports.last,
            advertise: SocketAddr::new(settings.advertised(), address.port()),
            host_name: crate::node::node_name(),
            kubelet_tls: Some(Arc::new(authn::pki::rotating_client_config(
                pki.authority.certificate_pem(),
                Some(pki.kubelet_client(tasks)?),
            )?)),
            verifying_keys: settings.token_keys.load()?,
            issuers: settings.token_keys.issuers(),
            jwks_uri: settings.token_keys.jwks_uri(),
            audiences: settings.token_keys.audiences(),
            request_timeout: settings.serving.request_timeout,
            streams_per_connection: settings.serving.streams(),
            compaction_interval: settings.datastore.compaction_interval(),
            compaction: store.compaction(),
            encoding: settings.datastore.encoding(&store),
            has_components: settings.has_components && !matches!(store, Datastore::Etcd(_)),
            has_bootstrap_tokens: settings.has_bootstrap_tokens,
            gates: settings.gates.clone(),
            runtime_config: settings.runtime_config.clone(),
            admission_plugins: settings.admission.selection.clone(),
            admission_configuration: settings.admission.configuration.clone(),
            ..Config::default()
        };
        let server = Server::start(config, parts).await.context("starting the API server")?;
        let identity = pki.server(settings.subjects(), tasks)?;
        let tls = Arc::new(authn::pki::trusting_server_config(identity, trust)?);
        server.serve(listener, tls.clone());
        for inner in inner {
            server.serve(inner, tls.clone());
        }
        tokio::time::timeout(PATIENCE, readiness.wait())
            .await
            .with_context(|| format!("the API server was not ready after {PATIENCE:?}"))?;
        let cluster = Cluster {
            context: settings.context.clone(),
            server: format!("https://{}", reachable(address)),
            ca_pem: pki.authority.certificate_pem().to_owned(),
        };
        kubeconfig_file::write(&data.kubeconfig(), &cluster, &pki.admin)?;
        let metrics = settings.metrics.clone();
        let outside = settings.advertised();
        Ok(Self { server, pki, address, outside, cluster, store, data, metrics })
    }
}

impl ApiServer {
    /// Whether other servers may be over the same store.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self.store, Datastore::Etcd(_))
    }
}

/// For whatever a start waits for: what has not happened by then will not.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

fn listen(address: SocketAddr) -> Result<TcpListener> {
    serve_on(cluster::listen(address)?)
}

/// Inside the runtime.
pub(crate) fn serve_on(listener: std::net::TcpListener) -> Result<TcpListener> {
    listener.set_nonblocking(true).context("preparing the listening socket")?;
    TcpListener::from_std(listener).context("preparing the listening socket")
}

impl Settings {
    /// What the server's certificate has to be valid for at this start.
    fn subjects(&self) -> Subjects {
        let bind = self.bind.ip();
        let interfaces =
            if bind.is_unspecified() { server_names::interface_addresses() } else { Vec::new() };
        Subjects::of(&Known {
            bind,
            services: &self.service_cidrs.nth(1),
            gateways: &self.pods_reach,
            nodes: &self.node_addresses,
            flags: &self.names,
            host_name: &rustix::system::uname().nodename().to_string_lossy(),
            interfaces: &interfaces,
        })
    }

    /// Where the Service `kubernetes` leads to: what was given, else where other machines reach the
    /// server, which is the machine's own address if it listens on all; else where this machine's
    /// pods do.
    fn advertised(&self) -> IpAddr {
        let bind = self.bind.ip();
        let is_right =
            |it: &IpAddr| self.service_cidrs.families().first() == Some(&Family::of(*it));
        let pods_reach = || self.pods_reach.iter().copied().find(is_right);
        let machine = || crate::node::machine_addresses().into_iter().find(is_right);
        let outside = || match bind {
            it if it.is_loopback() => None,
            it if it.is_unspecified() => machine(),
            it => Some(it).filter(is_right),
        };
        let given = self.names.advertise_address.or_else(outside);
        given.or_else(pods_reach).unwrap_or_else(|| reachable(self.bind).ip())
    }

    /// As upstream: the Service `kubernetes` has the first family, and leads to one address.
    fn validate(&self) -> Result<()> {
        let Some(given) = self.names.advertise_address else { return Ok(()) };
        let is_first = self.service_cidrs.families().first() == Some(&Family::of(given));
        anyhow::ensure!(
            is_first,
            "--advertise-address {given}: it must be of the family of the first addresses of Services, {}",
            self.service_cidrs
        );
        Ok(())
    }

    /// Beside what it listens on already.
    fn listen_for_pods(&self, address: SocketAddr) -> Result<Vec<TcpListener>> {
        let inner = self.pods_reach.iter().filter(|it| !covers(address.ip(), **it));
        inner.map(|it| listen(SocketAddr::new(*it, address.port()))).collect()
    }
}

/// The address to put into a kubeconfig for clients on this machine.
pub(crate) fn reachable(address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        SocketAddr::new(Ipv4Addr::LOCALHOST.into(), address.port())
    } else {
        address
    }
}
