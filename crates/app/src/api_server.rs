//! The API server with everything it stands on: data directory, store, certificates, listener. `up` and `apiserver` share it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use apiserver::{Config, Parts, Server, ServiceCidr};
use features::{Gates, RuntimeConfig};
use lifecycle::{Readiness, Tasks};
use stdx::World;
use telemetry::Registry;
use tokio::net::TcpListener;

use crate::commands::network::Cidr;
use crate::data_dir::DataDir;
use crate::datastore::{self, Datastore};
use crate::kubeconfig_file::{self, Cluster};
use crate::pki_files::Pki;

pub(crate) struct Settings {
    pub(crate) bind: SocketAddr,
    pub(crate) service_cidr: Cidr,
    /// Where pods of this machine reach the server, beside `bind`.
    pub(crate) pods_reach: Option<Ipv4Addr>,
    pub(crate) datastore: datastore::Flags,
    pub(crate) gates: Gates,
    pub(crate) runtime_config: RuntimeConfig,
    /// What `/metrics` shows.
    pub(crate) metrics: Registry,
}

/// A serving API server. The store is closed and the directory's lock released when this is dropped, after the tasks have
/// stopped.
pub(crate) struct ApiServer {
    pub(crate) server: Arc<Server>,
    pub(crate) pki: Pki,
    pub(crate) address: SocketAddr,
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
        let inner = match settings.pods_reach.filter(|_| !address.ip().is_unspecified()) {
            Some(gateway) => Some(listen(SocketAddr::new(gateway.into(), address.port())).await?),
            None => None,
        };
        let pki =
            Pki::load_or_create(&data.pki(), world, SERVER_NAMES, &server_addresses(settings))?;
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
        let config = Config {
            service_cidr: ServiceCidr {
                base: settings.service_cidr.address,
                prefix: settings.service_cidr.prefix_length,
            },
            advertise: match settings.pods_reach {
                Some(gateway) => SocketAddr::new(gateway.into(), address.port()),
                None => reachable(address),
            },
            kubelet_tls: Some(Arc::new(authn::pki::client_config(
                pki.authority.certificate_pem(),
                Some(&pki.kubelet_client()?),
            )?)),
            compaction_interval: settings.datastore.compaction_interval(),
            compaction: store.compaction(),
            encoding: settings.datastore.encoding(&store),
            gates: settings.gates.clone(),
            runtime_config: settings.runtime_config.clone(),
            ..Config::default()
        };
        let server = Server::start(config, parts).await.context("starting the API server")?;
        let tls = authn::pki::server_config(&pki.server, pki.authority.certificate_pem())?;
        let tls = Arc::new(tls);
        server.serve(listener, tls.clone());
        if let Some(inner) = inner {
            server.serve(inner, tls);
        }
        readiness.wait().await;
        let cluster = Cluster {
            server: format!("https://{}", reachable(address)),
            ca_pem: pki.authority.certificate_pem().to_owned(),
        };
        kubeconfig_file::write(&data.kubeconfig(), &cluster, &pki.admin)?;
        let metrics = settings.metrics.clone();
        Ok(Self { server, pki, address, cluster, store, data, metrics })
    }
}

impl ApiServer {
    /// Whether other servers may be over the same store.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self.store, Datastore::Etcd(_))
    }
}

/// A port that is taken is noticed before anything is made.
pub(crate) async fn listen(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| {
        format!("cannot listen on {address}: choose another port with --https-port")
    })
}

/// What the server's certificate is valid for, beside its addresses.
const SERVER_NAMES: &[&str] = &[
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

fn server_addresses(settings: &Settings) -> Vec<IpAddr> {
    let mut addresses =
        vec![IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V4(settings.service_cidr.first_address())];
    addresses.extend(settings.pods_reach.map(IpAddr::V4));
    let bind = settings.bind.ip();
    if !bind.is_unspecified() && !bind.is_loopback() {
        addresses.push(bind);
    }
    addresses
}

/// The address to put into a kubeconfig for clients on this machine.
fn reachable(address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        SocketAddr::new(Ipv4Addr::LOCALHOST.into(), address.port())
    } else {
        address
    }
}
