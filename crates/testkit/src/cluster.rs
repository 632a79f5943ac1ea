//! A cluster for a test: server, controllers, scheduler and simulated nodes.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use apimachinery::User;
use apiserver::{Compaction, Config, Parts, Server};
use authn::legacy::Signer;
use authn::pki::ServiceAccountKey;
use authn::tokens::Reference;
use client::Client;
use control_plane::{Clients, Components, ControllerSettings, Fleet, FleetConfig, SignToken};
use kvstore::Store as _;
use kvstore::memory::Memory;
use lifecycle::{Late, Readiness, Tasks};
use stdx::World;
use telemetry::Registry;

use crate::faults::Faults;
use crate::history::{History, Recorder};

#[derive(Clone, Debug)]
pub struct Options {
    pub seed: u64,
    pub nodes: usize,
}

/// Must be started inside a current-thread tokio runtime with paused time.
pub struct Cluster {
    pub server: Arc<Server>,
    pub fleet: Fleet,
    /// Faults of everybody but `admin`.
    pub faults: Faults,
    pub world: World,
    /// A client that may do everything and never fails by simulation.
    pub admin: Client,
    store: Arc<Memory>,
    recorder: Recorder,
    tasks: Tasks,
}

impl Cluster {
    pub async fn start(options: Options) -> Result<Self> {
        Self::start_with(options, |_| {}).await
    }

    /// With another configuration of the server.
    pub async fn start_with(options: Options, change: impl FnOnce(&mut Config)) -> Result<Self> {
        Self::start_all(options, ControllerSettings::default(), change).await
    }

    /// With flags of the controllers.
    pub async fn start_with_flags(options: Options, flags: &[&str]) -> Result<Self> {
        let settings = ControllerSettings::parse(flags).context("reading the flags")?;
        Self::start_all(options, settings, |_| {}).await
    }

    async fn start_all(
        options: Options,
        controllers: ControllerSettings,
        change: impl FnOnce(&mut Config),
    ) -> Result<Self> {
        let world = World::simulated(options.seed);
        let tasks = Tasks::new();
        let store = Arc::new(Memory::new());
        let recorder = Recorder::spawn(store.as_ref(), &tasks.child("recorder"))
            .await
            .context("watching the store")?;
        let readiness = Readiness::default();
        let key = Arc::new(ServiceAccountKey::create().context("making a key")?);
        let parts = Parts {
            store: store.clone(),
            world: world.clone(),
            tasks: tasks.child("apiserver"),
            readiness: readiness.clone(),
            metrics: Registry::default(),
            service_account_keys: vec![key.clone()],
        };
        // A store in memory has no budget.
        let mut config = Config { compaction: Compaction::ByServer, ..Config::default() };
        change(&mut config);
        let server = Server::start(config, parts).await.context("starting the server")?;
        readiness.wait().await;
        let faults = Faults::new(world.random.clone());
        let components = Components {
            world: world.clone(),
            clients: clients(&server, &faults),
            root_ca: "simulated".to_owned(),
            sign_token: Some(token_signer(&key)?),
            controllers,
            metrics: Registry::default(),
        };
        let factory = components.start(&tasks);
        let fleet = components.start_fleet(&tasks, &factory, fleet(options.nodes));
        factory.wait_for_sync().await;
        let admin = server.client(User::new("admin", &["system:masters"]), "admin");
        Ok(Self { server, fleet, faults, world, admin, store, recorder, tasks })
    }

    /// Everything that was written so far.
    pub async fn history(&self) -> Result<History> {
        self.recorder.through(self.store.revision()).await.context("the history has a gap")
    }

    /// Waits until `is_right` is true, looking once per simulated second.
    pub async fn until(
        &self,
        limit: Duration,
        mut is_right: impl AsyncFnMut(&Client) -> bool,
    ) -> bool {
        for _ in 0..limit.as_secs() {
            if is_right(&self.admin).await {
                return true;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        false
    }

    pub async fn stop(self) -> Result<(), Late> {
        self.tasks.shutdown(Duration::from_secs(30)).await
    }
}

fn token_signer(key: &Arc<ServiceAccountKey>) -> Result<SignToken> {
    let signer = Signer::new(key).context("preparing the key")?;
    Ok(Arc::new(move |secret, name, uid| {
        let account = Reference { name: name.to_owned(), uid: uid.to_owned() };
        Ok(signer.sign(&secret.namespace, &account, &secret.name)?)
    }))
}

/// Each component in this process, over a transport that fails now and then.
fn clients(server: &Arc<Server>, faults: &Faults) -> Clients {
    let (server, faults) = (server.clone(), faults.clone());
    Clients::new(move |it| faults.wrap(&server.client(it.user(), it.field_manager())))
}

fn fleet(nodes: usize) -> FleetConfig {
    FleetConfig {
        nodes,
        pod_network: Ipv4Addr::new(10, 244, 0, 0),
        pod_prefix_length: 16,
        version: "v1.36.0+xebec".to_owned(),
    }
}
