//! A cluster for a test: server, controllers, scheduler and simulated nodes.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use apimachinery::User;
use apiserver::{Compaction, Config, Parts, Server};
use authn::legacy::Signer;
use authn::pki::{Authority, ServiceAccountKey};
use authn::tokens::Reference;
use client::Client;
use control_plane::{
    AuthoritySigner, Availability, Clients, Components, ControllerSettings, Fleet, FleetConfig,
    SignToken, Signers, signs_all,
};
use features::{Gates, RuntimeConfig};
use kvstore::Store as _;
use kvstore::memory::Memory;
use lifecycle::{Late, Readiness, Tasks};
use stdx::{Random, World};
use telemetry::Registry;

use crate::extensions::Extensions;
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
    /// What others serve to everybody but `admin`.
    pub extensions: Extensions,
    pub world: World,
    /// A client that may do everything and never fails by simulation.
    pub admin: Client,
    store: Arc<Memory>,
    recorder: Recorder,
    tasks: Tasks,
    components: Components,
    /// Of the controllers and the scheduler.
    leader: Tasks,
}

impl Cluster {
    pub async fn start(options: Options) -> Result<Self> {
        Self::start_with(options, |_| {}).await
    }

    /// With another configuration of the server.
    pub async fn start_with(options: Options, change: impl FnOnce(&mut Config)) -> Result<Self> {
        Self::start_as(options, change, ControllerSettings::default(), "").await
    }

    /// With flags of the controllers.
    pub async fn start_with_controllers(options: Options, flags: &[&str]) -> Result<Self> {
        let controllers = ControllerSettings::parse(flags).context("the controllers' flags")?;
        Self::start_as(options, |_| {}, controllers, "").await
    }

    /// With feature gates, and everything served that they are for.
    pub async fn start_with_gates(options: Options, gates: &str, serve: &str) -> Result<Self> {
        let parsed = Gates::parse(gates).context("the gates")?;
        let served = RuntimeConfig::parse(serve).context("what is served")?;
        let change = |config: &mut Config| {
            config.gates = parsed;
            config.runtime_config = served;
        };
        Self::start_as(options, change, ControllerSettings::default(), gates).await
    }

    async fn start_as(
        options: Options,
        change: impl FnOnce(&mut Config),
        controllers: ControllerSettings,
        gates: &str,
    ) -> Result<Self> {
        let gates = Gates::parse(gates).context("the gates")?;
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
        let gates = Gates::merge([gates, config.gates.clone()]);
        let availability = Availability { gates, serves: Arc::new(|_| true) };
        let server = Server::start(config, parts).await.context("starting the server")?;
        readiness.wait().await;
        let faults = Faults::new(world.random.clone());
        let extensions = Extensions::default();
        let authority = authority()?;
        let components = Components {
            world: world.clone(),
            clients: clients(&server, &faults, &extensions),
            root_ca: authority.certificate_pem().to_owned(),
            sign_token: Some(token_signer(&key)?),
            signers: signers(authority, options.seed),
            controllers,
            availability,
            start_interval: Duration::ZERO,
            metrics: Registry::default(),
        };
        let leader = Tasks::new();
        let factory = components.start(&leader);
        // Nodes go on while others lead.
        let of_fleet = components.factory(&tasks);
        let fleet = components.start_fleet(&tasks, &of_fleet, fleet(options.nodes));
        of_fleet.start();
        factory.wait_for_sync().await;
        of_fleet.wait_for_sync().await;
        let admin = server.client(User::new("admin", &["system:masters"]), "admin");
        Ok(Self {
            server,
            fleet,
            faults,
            extensions,
            world,
            admin,
            store,
            recorder,
            tasks,
            components,
            leader,
        })
    }

    /// Another process leads from now on: controllers and scheduler are dropped wherever they are,
    /// and others start with nothing but what is stored.
    pub async fn change_leader(&mut self) -> Result<(), Late> {
        self.leader.shutdown(Duration::from_secs(30)).await?;
        self.leader = Tasks::new();
        self.components.start(&self.leader);
        Ok(())
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
        self.leader.shutdown(Duration::from_secs(30)).await?;
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

/// Always the same: keys are made by chance that no seed rules, and its certificate is in objects.
fn authority() -> Result<Arc<Authority>> {
    let certificate = include_str!("../testdata/authority.crt");
    let authority = Authority::load(certificate, include_str!("../testdata/authority.key"));
    Ok(Arc::new(authority.context("loading the authority")?))
}

/// With chance of its own: what others draw stays as it was.
fn signers(authority: Arc<Authority>, seed: u64) -> Signers {
    let random = Random::from_seed(seed);
    signs_all(Arc::new(AuthoritySigner { authority, random }))
}

/// Each component in this process, over a transport that fails now and then.
fn clients(server: &Arc<Server>, faults: &Faults, extensions: &Extensions) -> Clients {
    let (server, faults, extensions) = (server.clone(), faults.clone(), extensions.clone());
    Clients::new(move |it| {
        let client = server.client(it.user(), it.field_manager());
        faults.wrap(&extensions.wrap(&client))
    })
}

fn fleet(nodes: usize) -> FleetConfig {
    FleetConfig {
        nodes,
        pod_network: Ipv4Addr::new(10, 244, 0, 0),
        pod_prefix_length: 16,
        version: "v1.36.0+xebec".to_owned(),
    }
}
