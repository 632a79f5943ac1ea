//! A whole server over the in-memory store, with a client that may do everything.

pub(crate) mod remote;
pub(crate) mod wire;

use std::sync::{Arc, OnceLock};

use admission::Plugin;
use apimachinery::User;
use apiserver::{Config, Parts, Server};
use authn::pki::ServiceAccountKey;
use client::Client;
use features::{Gates, RuntimeConfig};
use lifecycle::{Readiness, Tasks};
use stdx::World;
use telemetry::logs::Lines;

/// What is logged from now on, by all tests of this process: each looks for the audit ids of its
/// own requests.
pub(crate) fn logs() -> &'static Lines {
    static LINES: OnceLock<Lines> = OnceLock::new();
    LINES.get_or_init(|| {
        let lines = Lines::default();
        tracing::dispatcher::set_global_default(lines.dispatch(3)).expect("nobody else logs");
        lines
    })
}

pub(crate) struct Harness {
    pub(crate) server: Arc<Server>,
    pub(crate) client: Client,
    pub(crate) tasks: Tasks,
    pub(crate) world: World,
    /// Signs tokens.
    pub(crate) key: Arc<ServiceAccountKey>,
}

/// With every version of every kind, also those that are served only on request.
pub(crate) fn everything() -> Config {
    let gates = "ClusterTrustBundle=true,ClusterTrustBundleProjection=true,GenericWorkload=true,\
                 PodCertificateRequest=true,StorageVersionMigrator=true";
    let gates = Gates::parse(gates);
    Config {
        runtime_config: RuntimeConfig::parse("api/all=true").expect("it can be asked for"),
        gates: gates.expect("they can be switched on"),
        ..Config::default()
    }
}

pub(crate) async fn start(world: World) -> Harness {
    start_over(world, Arc::new(kvstore::memory::Memory::new())).await
}

pub(crate) async fn start_over(world: World, store: Arc<dyn kvstore::Store>) -> Harness {
    try_start_over(world, store, everything()).await.expect("the server starts")
}

pub(crate) async fn try_start_over(
    world: World,
    store: Arc<dyn kvstore::Store>,
    config: Config,
) -> Result<Harness, apiserver::Error> {
    try_start_with(world, store, config, Vec::new()).await
}

/// With admission plugins beside the built-in ones.
pub(crate) async fn try_start_with(
    world: World,
    store: Arc<dyn kvstore::Store>,
    config: Config,
    plugins: Vec<Arc<dyn Plugin>>,
) -> Result<Harness, apiserver::Error> {
    let tasks = Tasks::new();
    let key = Arc::new(ServiceAccountKey::create().expect("a key"));
    let parts = Parts {
        store,
        world: world.clone(),
        tasks: tasks.clone(),
        readiness: Readiness::default(),
        metrics: telemetry::Registry::default(),
        service_account_keys: vec![key.clone()],
    };
    let server = Server::start_with(config, parts, plugins).await?;
    let client = server.client(User::new("admin", &["system:masters"]), "test");
    Ok(Harness { server, client, tasks, world, key })
}
