//! The server: what it is made of, how it starts, and the ways in.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use admission::{Chain, Rights};
use api::{ApiObject, Kind, Lookup, Resource};
use apimachinery::{ApiError, GroupResource, GroupVersionResource, ObjectKey, User};
use authn::pki::ServiceAccountKey;
use authn::tokens::TokenIssuer;
use authn::{Authenticated, Authenticator, Component, Impersonation, Target};
use authz::{Attributes, Authorizer, NodeAuthorizer, Rbac, escalation};
use client::Client;
use features::{Gates, RuntimeConfig};
use kvstore::Store;
use lifecycle::{Readiness, Tasks};
use stdx::World;
use telemetry::Registry as MetricsRegistry;
use tokio::net::TcpListener;

use crate::cache::{Cache, Change, Observer};
use crate::compaction::{self, Compaction};
use crate::custom_resources::Definitions;
use crate::enabled;
use crate::encoding::Encoding;
use crate::events::Expiry;
use crate::heavy::Heavy;
use crate::http::documents::Documents;
use crate::http::flow::Flow;
use crate::in_process::InProcess;
use crate::kubelets::Kubelets;
use crate::kubernetes_service::{self, MasterLease};
use crate::metrics::Metrics;
use crate::pipeline::Request;
use crate::registry::Registry;
use crate::services::{ServiceCidr, Services};

/// The name of the readiness check of this crate.
const CHECK: &str = "apiserver";

#[derive(Clone, Debug)]
pub struct Config {
    pub service_cidr: ServiceCidr,
    pub node_port_range: RangeInclusive<u16>,
    /// Where clients reach this server; the `kubernetes` Service points to it.
    pub advertise: SocketAddr,
    pub issuer: String,
    pub audiences: Vec<String>,
    pub event_ttl: Duration,
    /// How long clients can count on what was: older continue tokens and exact lists are Expired. Zero: as long as the
    /// store remembers.
    pub compaction_interval: Duration,
    pub compaction: Compaction,
    /// What objects are written to the store as.
    pub encoding: Encoding,
    /// How this server shows itself to kubelets, and whom it trusts there. Without it there are no logs and no exec.
    pub kubelet_tls: Option<Arc<rustls::ClientConfig>>,
    pub gates: Gates,
    /// Which built-in versions and resources are served.
    pub runtime_config: RuntimeConfig,
}

impl Config {
    /// Whether other servers may write to the same store: then it is they who have to be told to forget, too.
    pub(crate) fn is_shared(&self) -> bool {
        self.compaction == Compaction::ByServer
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            service_cidr: ServiceCidr { base: [10, 96, 0, 0].into(), prefix: 16 },
            node_port_range: 30_000..=32_767,
            advertise: ([127, 0, 0, 1], 6443).into(),
            issuer: authn::tokens::ISSUER_DEFAULT.to_owned(),
            audiences: vec![authn::tokens::ISSUER_DEFAULT.to_owned()],
            event_ttl: Duration::from_secs(3_600),
            compaction_interval: Duration::from_secs(300),
            compaction: Compaction::ByStore,
            encoding: Encoding::Json,
            kubelet_tls: None,
            gates: Gates::default(),
            runtime_config: RuntimeConfig::default(),
        }
    }
}

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

/// What the pipeline works with.
pub struct Core {
    pub(crate) config: Config,
    pub(crate) world: World,
    pub(crate) registry: Arc<Registry>,
    pub(crate) cache: Arc<Cache>,
    pub(crate) authenticator: Authenticator,
    pub(crate) authorizer: Arc<Authorizer>,
    pub(crate) admission: Chain,
    pub(crate) services: Arc<Services>,
    pub(crate) tokens: TokenIssuer,
    pub(crate) keys: Vec<Arc<ServiceAccountKey>>,
    pub(crate) readiness: Readiness,
    pub(crate) flow: Flow,
    pub(crate) heavy: Heavy,
    pub(crate) documents: Documents,
    pub(crate) kubelets: Kubelets,
    pub(crate) metrics: Metrics,
    pub(crate) tasks: Tasks,
}

pub struct Server {
    pub(crate) core: Arc<Core>,
    pub(crate) tasks: Tasks,
}

impl Server {
    /// Loads the store, writes what every cluster starts with, and starts the background tasks.
    pub async fn start(config: Config, parts: Parts) -> Result<Arc<Self>, Error> {
        let Parts { store, world, tasks, readiness, service_account_keys: keys, metrics } = parts;
        readiness.register(CHECK);
        let kinds = enabled::kinds(&config.runtime_config).map_err(Error::RuntimeConfig)?;
        let registry = Arc::new(Registry::new(kinds));
        let cache = Arc::new(Cache::new(store, registry.clone(), config.encoding));
        let rbac = Arc::new(Rbac::new());
        let services = Arc::new(Services::new(
            config.service_cidr,
            config.node_port_range.clone(),
            world.random.clone(),
        ));
        let definitions = Arc::new(Definitions::new(registry.clone(), Arc::downgrade(&cache)));
        let expiry = Arc::new(Expiry::new(config.event_ttl, world.clock.clone()));
        cache.set_observers(vec![
            Arc::new(RbacObserver(rbac.clone())),
            definitions.clone(),
            services.clone(),
            expiry.clone(),
        ]);
        let feed = cache.load().await.map_err(Error::Load)?;
        let runner = cache.clone();
        // Components may have something to give back when they end, and need the present for that.
        tasks.child_last("cache").spawn("feed", |shutdown| runner.run(feed, shutdown));

        let lookup: Arc<dyn Lookup> = cache.clone();
        let tokens = TokenIssuer::new(
            keys.first().cloned().ok_or(Error::NoKey)?,
            config.issuer.clone(),
            config.audiences.clone(),
            world.clock.clone(),
            world.random.clone(),
        )
        .map_err(Error::Tokens)?;
        let authorizer = Arc::new(Authorizer::new(rbac, NodeAuthorizer::new(lookup.clone())));
        let core = Arc::new(Core {
            authenticator: Authenticator::new(authn::Parts {
                service_account_keys: keys.clone(),
                issuer: config.issuer.clone(),
                audiences: config.audiences.clone(),
                clock: world.clock.clone(),
                lookup: lookup.clone(),
            }),
            admission: Chain::new(admission::plugins::all(
                &lookup,
                Arc::new(AskedRights(authorizer.clone())),
                &world.random,
            )),
            authorizer,
            flow: Flow::new(&world.random),
            heavy: Heavy::new(),
            documents: Documents::new(registry.clone()),
            kubelets: Kubelets::new(config.kubelet_tls.clone()),
            metrics: Metrics::new(metrics),
            tasks: tasks.clone(),
            tokens,
            keys,
            services,
            readiness: readiness.clone(),
            registry,
            cache,
            world,
            config,
        });
        crate::bootstrap::run(&core).await.map_err(Error::Bootstrap)?;
        let lease = kubernetes_service::join(&core).await.map_err(Error::Bootstrap)?;
        let server = Arc::new(Self { core, tasks });
        server.spawn_tasks(definitions, expiry, lease);
        readiness.mark_ready(CHECK);
        Ok(server)
    }

    fn spawn_tasks(
        self: &Arc<Self>,
        definitions: Arc<Definitions>,
        expiry: Arc<Expiry>,
        lease: Option<MasterLease>,
    ) {
        let core = self.core.clone();
        self.tasks.spawn("custom-resources", |shutdown| definitions.run(core, shutdown));
        let core = self.core.clone();
        self.tasks.spawn("events-expiry", |shutdown| expiry.run(core, shutdown));
        let core = self.core.clone();
        self.tasks.spawn("compaction", |shutdown| compaction::run(core, shutdown));
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

    /// Serves HTTPS until shutdown.
    pub fn serve(self: &Arc<Self>, listener: TcpListener, tls: Arc<rustls::ServerConfig>) {
        crate::http::serve(self, listener, tls);
    }
}

struct RbacObserver(Arc<Rbac>);

impl Observer for RbacObserver {
    fn observe(&self, resource: &GroupResource, change: &Change) {
        if resource.group != "rbac.authorization.k8s.io" {
            return;
        }
        match &change.object {
            Some(object) => self.0.upsert(resource, object),
            None => self.0.remove(resource, &change.latest().meta.key),
        }
    }
}

/// What admission plugins ask for is authorized like every request.
struct AskedRights(Arc<Authorizer>);

impl Rights for AskedRights {
    fn may(&self, user: &User, verb: &str, resource: &GroupResource, object: &ObjectKey) -> bool {
        let attributes = Attributes {
            verb: verb.to_owned(),
            group: resource.group.clone(),
            version: "v1".to_owned(),
            resource: resource.resource.clone(),
            namespace: object.namespace.clone(),
            name: object.name.clone(),
            is_resource: true,
            ..Attributes::default()
        };
        self.0.decide(user, &attributes).is_allowed()
    }
}

impl Core {
    /// Acting as somebody else: the real user needs a permission for every name it takes on.
    pub(crate) fn impersonate(
        &self,
        real: &Authenticated,
        target: &User,
    ) -> Result<Authenticated, ApiError> {
        let impersonation = Impersonation::new(Target {
            user: target.name.clone(),
            uid: target.uid.clone(),
            groups: target.groups.clone(),
            extra: target.extra.clone(),
        })?;
        for check in impersonation.checks() {
            let attributes = Attributes {
                verb: "impersonate".to_owned(),
                group: check.group.to_owned(),
                version: "v1".to_owned(),
                resource: check.resource.to_owned(),
                subresource: check.subresource.clone(),
                namespace: check.namespace.clone(),
                name: check.name.clone(),
                is_resource: true,
                ..Attributes::default()
            };
            self.authorizer.authorize(real.user(), attributes)?;
        }
        Ok(impersonation.confirm(real))
    }

    /// Nobody grants what they do not have.
    pub(crate) fn check_escalation(
        &self,
        request: &Request,
        object: &dyn ApiObject,
        old: Option<&dyn ApiObject>,
    ) -> Result<(), ApiError> {
        let write = escalation::Write {
            user: request.user(),
            resource: &request.kind.names().group_resource(),
            namespace: request.namespace(),
            name: request.name(),
            object,
            old,
        };
        escalation::check(&self.authorizer, &write)
    }

    /// The served form of a built-in kind.
    pub(crate) fn kind_of<T: Resource>(&self) -> Arc<dyn Kind> {
        let facts = T::FACTS;
        let resource = GroupVersionResource::new(facts.group, facts.version, facts.plural);
        self.registry.kinds().find(&resource).cloned().expect("built-in kinds are always served")
    }
}
