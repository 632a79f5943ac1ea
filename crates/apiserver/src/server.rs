//! The server: what it is made of, how it starts, and the ways in.

use std::sync::{Arc, Mutex};

use admission::plugins::{Deciders, Needs};
use admission::policy::Policies;
use admission::webhook::{Blocked, Webhooks};
use admission::{Chain, Plugin, Provisioner};
use api::Lookup;
use apimachinery::{ApiError, GroupVersionResource, User};
use authn::pki::{ServiceAccountKey, VerifyingKey};
use authn::tokens::TokenIssuer;
use authn::{Authenticator, Component};
use authz::{Authorizer, NodeAuthorizer, Rbac};
use bytes::Bytes;
use client::hooks::Caller;
use client::{Client, ListOptions};
use kvstore::Store;
use lifecycle::{Readiness, Tasks};
use stdx::World;
use telemetry::Registry as MetricsRegistry;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::admission_files::AdmissionFiles;
use crate::aggregated::Aggregated;
use crate::aggregation::Aggregation;
use crate::cache::Cache;
use crate::config::Config;
use crate::conversion::Conversions;
use crate::documents::Documents;
use crate::enabled;
use crate::flow::Flow;
use crate::heavy::Heavy;
use crate::in_process::InProcess;
use crate::kubernetes_service::{self, MasterLease};
use crate::legacy_tokens::LegacyTokens;
use crate::metrics::Metrics;
use crate::namespaces::Namespaces;
use crate::pipeline::deleted_nodes::DeletedNodes;
use crate::pipeline::hooks::HookSet;
use crate::pipeline::{Core, Recent};
use crate::registry::Registry;
use crate::{admission_follow, bootstrap, compaction, identity, kinds, webhooks};

/// The name of the readiness check of this crate.
const CHECK: &str = "apiserver";

pub struct Parts {
    pub store: Arc<dyn Store>,
    pub world: World,
    pub tasks: Tasks,
    pub readiness: Readiness,
    /// The first signs; all verify.
    pub service_account_keys: Vec<Arc<ServiceAccountKey>>,
    /// What `/metrics` shows.
    pub metrics: MetricsRegistry,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("admission plugins")]
    Admission(#[source] admission::ConfigurationError),
    #[error("--runtime-config")]
    RuntimeConfig(#[source] features::RuntimeConfigError),
    #[error("reading the store")]
    Load(#[source] kvstore::Error),
    #[error("writing the first objects")]
    Bootstrap(#[source] kvstore::Error),
    #[error("no service-account key was given")]
    NoKey,
    #[error("preparing the token issuer")]
    Tokens(#[source] authn::pki::Error),
}

/// Those that run, and `more` after them; and the files that say what they are told.
fn plugins(
    config: &Config,
    (world, metrics): (&World, &MetricsRegistry),
    (provisioner, deciders): (Arc<dyn Provisioner>, Deciders<'_>),
    more: Vec<Arc<dyn Plugin>>,
) -> Result<(Chain, AdmissionFiles), Error> {
    let needs = Needs {
        world,
        metrics,
        gates: &config.gates,
        configuration: &config.admission_configuration,
        provisioner: &provisioner,
        deciders: Some(deciders),
    };
    let own = admission::plugins::all(&config.admission_plugins, &needs);
    let all = [own.map_err(Error::Admission)?, more].concat();
    let files = AdmissionFiles {
        current: Mutex::new(config.admission_configuration.clone()),
        selection: config.admission_plugins.clone(),
        gates: config.gates.clone(),
        world: world.clone(),
        metrics: metrics.clone(),
        webhooks: deciders.webhooks.clone(),
        policies: deciders.policies.clone(),
        provisioner,
    };
    Ok((Chain::new(all).measured(metrics), files))
}

fn issuer(
    config: &Config,
    keys: &[Arc<ServiceAccountKey>],
    world: &World,
) -> Result<TokenIssuer, Error> {
    TokenIssuer::new(
        keys.first().cloned().ok_or(Error::NoKey)?,
        config.issuer(),
        config.audiences.clone(),
        world.clock.clone(),
        world.random.clone(),
    )
    .map_err(Error::Tokens)
}

/// Those of the keys that sign, then others.
fn verifying_keys(config: &Config, keys: &[Arc<ServiceAccountKey>]) -> Vec<VerifyingKey> {
    let own = keys.iter().map(|it| it.public().clone());
    let mut all: Vec<VerifyingKey> = own.collect();
    for key in &config.verifying_keys {
        if !all.iter().any(|it| it.id() == key.id()) {
            all.push(key.clone());
        }
    }
    all
}

fn authenticator(
    config: &Config,
    keys: &[VerifyingKey],
    world: &World,
    lookup: &Arc<dyn Lookup>,
    deleted_nodes: &DeletedNodes,
) -> Authenticator {
    Authenticator::new(authn::Parts {
        service_account_keys: keys.to_vec(),
        issuers: config.issuers.clone(),
        audiences: config.audiences.clone(),
        has_bootstrap_tokens: config.has_bootstrap_tokens,
        clock: world.clock.clone(),
        lookup: lookup.clone(),
        deleted_nodes: deleted_nodes.known().clone(),
    })
}

/// And what they are told to say of themselves.
fn deciding_webhooks(
    config: &Config,
    caller: &Caller,
    (world, metrics): (&World, &MetricsRegistry),
) -> Result<(Arc<Webhooks>, mpsc::Receiver<Blocked>), Error> {
    let (notices, blocked) = webhooks::notices();
    let told = &config.admission_configuration;
    let webhooks = Webhooks::new(caller.clone(), world, metrics, Arc::new(notices), told);
    Ok((Arc::new(webhooks.map_err(Error::Admission)?), blocked))
}

fn policies(
    registry: &Arc<Registry>,
    cache: &Arc<Cache>,
    metrics: &MetricsRegistry,
) -> Arc<Policies> {
    let parameters = kinds::ParametersFromCache::new(registry.clone(), Arc::downgrade(cache));
    Arc::new(Policies::new(Arc::new(parameters), metrics))
}

/// Reads the store, and goes on with what changes in it.
async fn load(cache: &Arc<Cache>, tasks: &Tasks) -> Result<(), Error> {
    let feed = cache.load().await.map_err(Error::Load)?;
    let runner = cache.clone();
    // Components may have something to give back when they end, and need the present for that.
    tasks.child_last("cache").spawn("feed", |shutdown| runner.run(feed, shutdown));
    Ok(())
}

pub struct Server {
    pub(crate) core: Arc<Core>,
    pub(crate) tasks: Tasks,
}

impl Server {
    /// Loads the store, writes what every cluster starts with, and starts the background tasks.
    pub async fn start(config: Config, parts: Parts) -> Result<Arc<Self>, Error> {
        Self::start_with(config, parts, Vec::new()).await
    }

    /// With admission plugins that run after the built-in ones.
    pub async fn start_with(
        config: Config,
        parts: Parts,
        more: Vec<Arc<dyn Plugin>>,
    ) -> Result<Arc<Self>, Error> {
        let Parts { store, world, tasks, readiness, service_account_keys: keys, metrics } = parts;
        readiness.register(CHECK);
        let verifying = verifying_keys(&config, &keys);
        let kinds = enabled::kinds(&config.runtime_config, &config.gates);
        let kinds = kinds.map_err(Error::RuntimeConfig)?;
        let registry = Arc::new(Registry::new(kinds));
        let cache = Arc::new(Cache::new(store, registry.clone(), config.encoding));
        let rbac = Arc::new(Rbac::new());
        let (legacy_tokens, deleted_nodes) = (LegacyTokens::default(), Arc::default());
        let services = Arc::new(webhooks::Services::new(&cache));
        let caller = Caller::new(&tasks, &world.random, services, &metrics);
        let (webhooks, blocked) = deciding_webhooks(&config, &caller, (&world, &metrics))?;
        let policies = policies(&registry, &cache, &metrics);
        let hooks = Arc::new(HookSet::new(kinds::all(kinds::Needs {
            config: &config,
            world: &world,
            registry: &registry,
            cache: Arc::downgrade(&cache),
            rbac: &rbac,
            issuer: issuer(&config, &keys, &world)?,
            legacy_tokens: legacy_tokens.clone(),
            deleted_nodes: &deleted_nodes,
            webhooks: &webhooks,
            policies: &policies,
            conversions: Conversions::new(caller, &world.random, &metrics),
            metrics: &metrics,
        })));
        let identity = config.front_proxy.identity.clone();
        let aggregated = Arc::new(Aggregated::new(identity, &metrics));
        let aggregation = Aggregation::shared(&aggregated, &registry, (&world, &metrics));
        cache.set_observers(vec![hooks.clone(), aggregation.clone()]);
        load(&cache, &tasks).await?;

        let lookup: Arc<dyn Lookup> = cache.clone();
        let authenticator = authenticator(&config, &verifying, &world, &lookup, &deleted_nodes);
        let nodes = NodeAuthorizer::new(lookup.clone(), &config.gates);
        let authorizer = Arc::new(Authorizer::new(rbac, nodes));
        let namespaces = Arc::new(Namespaces::default());
        let deciders = Deciders { webhooks: &webhooks, policies: &policies };
        let others = (namespaces.clone() as Arc<dyn Provisioner>, deciders);
        let (admission, admission_files) = plugins(&config, (&world, &metrics), others, more)?;
        let core = Arc::new(Core {
            authenticator,
            admission,
            admission_files,
            authorizer,
            flow: Flow::new(&world.random),
            heavy: Heavy::new(),
            recent: Recent::default(),
            documents: Documents::new(registry.clone(), aggregated.clone(), &metrics),
            aggregated,
            aggregator: aggregation.clone(),
            metrics: Metrics::new(metrics),
            tasks,
            hooks,
            keys: verifying,
            legacy_tokens,
            deleted_nodes,
            readiness,
            registry,
            cache,
            world,
            config,
        });
        namespaces.are_in(&core);
        let server = Self::open(core, blocked).await?;
        aggregation.spawn(&server.core);
        server.core.readiness.mark_ready(CHECK);
        Ok(server)
    }

    /// Writes what every cluster starts with, and starts what goes on by itself.
    async fn open(core: Arc<Core>, blocked: mpsc::Receiver<Blocked>) -> Result<Arc<Self>, Error> {
        bootstrap::run(&core).await.map_err(Error::Bootstrap)?;
        let lease = kubernetes_service::join(&core).await.map_err(Error::Bootstrap)?;
        let tasks = core.tasks.clone();
        let server = Arc::new(Self { core, tasks });
        server.spawn_tasks(lease, blocked);
        Ok(server)
    }

    fn spawn_tasks(&self, lease: Option<MasterLease>, blocked: mpsc::Receiver<Blocked>) {
        let core = self.core.clone();
        self.tasks.spawn("webhook-notices", |shutdown| webhooks::run(core, blocked, shutdown));
        self.core.hooks.spawn(&self.core);
        identity::spawn(&self.core, &self.tasks);
        let core = self.core.clone();
        self.tasks.spawn("compaction", |shutdown| compaction::run(core, shutdown));
        if self.core.admission_files.is_any() {
            let core = self.core.clone();
            let follow = |shutdown| admission_follow::run(core, shutdown);
            self.tasks.spawn("admission-files", follow);
        }
        let cache = self.core.cache.clone();
        self.tasks.spawn("watches", |shutdown| async move {
            shutdown.cancelled().await;
            cache.end_watches();
        });
        if let Some(lease) = lease {
            let core = self.core.clone();
            self.tasks.spawn("kubernetes-service", |shutdown| {
                kubernetes_service::run(core, lease, shutdown)
            });
        }
    }

    /// A way in for a component of this process. It has no more rights than its user.
    pub fn client(self: &Arc<Self>, user: User, field_manager: &str) -> Client {
        let transport = InProcess::new(self.core.clone(), Component::new(user), field_manager);
        Client::new(Arc::new(transport), field_manager)
    }

    /// The body of a watch as a client would get it, for measurements.
    #[doc(hidden)]
    pub async fn watch_body(
        &self,
        user: User,
        resource: GroupVersionResource,
        list: ListOptions,
    ) -> Result<impl http_body::Body<Data = Bytes> + Send + Unpin + use<>, ApiError> {
        crate::http::watch::body(&self.core, user, resource, list).await
    }

    /// What is served, for tests that serve what no definition can say.
    #[doc(hidden)]
    pub fn registry(&self) -> &Arc<Registry> {
        &self.core.registry
    }

    /// Serves HTTPS until shutdown.
    pub fn serve(self: &Arc<Self>, listener: TcpListener, tls: Arc<rustls::ServerConfig>) {
        crate::http::serve(&self.core, &self.tasks, listener, tls);
    }
}
