//! The builder of controllers against a real API server: whose keys are woken by what, when work
//! starts, and what it waits for.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeSet;
use std::fmt::{self, Display};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::object::key_of;
use apimachinery::{ApiError, ObjectKey};
use bytes::Bytes;
use client::{Client, Discovered, Reply, Request, Transport, WatchStream};
use futures_util::StreamExt as _;
use futures_util::future::{self, BoxFuture};
use informer::Factory;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use lifecycle::Tasks;
use reconcile::{Change, Controller, Key, Next, OwnWrites, PATIENCE, Reconciler, itself};
use serde_json::{Value, json};
use testkit::{Cluster, Options};
use tokio::sync::mpsc;

fn run<T>(simulation: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(simulation)
}

/// A control plane without nodes, and informers of its administrator.
struct Site {
    cluster: Cluster,
    tasks: Tasks,
    factory: Arc<Factory>,
}

impl Site {
    async fn new() -> Self {
        let cluster = Cluster::start(Options { seed: 1, nodes: 0 }).await.unwrap();
        let tasks = Tasks::new();
        let factory = Factory::new(cluster.admin.clone(), cluster.world.clone(), &tasks);
        Self { cluster, tasks, factory }
    }

    /// The same, but informers hear of secrets late.
    async fn with_late_secrets() -> Self {
        let site = Self::new().await;
        let late = Slowness::Late(Duration::from_millis(50));
        let client = slow(&site.cluster.admin, "secrets", late);
        let factory = Factory::new(client, site.cluster.world.clone(), &site.tasks);
        Self { factory, ..site }
    }

    fn controller<K: Key>(&self) -> Controller<K> {
        Controller::new("test", &self.tasks, &self.factory)
    }

    async fn config_map(&self, name: &str, rest: Value) -> Arc<ConfigMap> {
        let mut metadata = json!({"name": name, "namespace": "default"});
        metadata.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        let config_map = serde_json::from_value(json!({"metadata": metadata})).unwrap();
        self.cluster.admin.api().create(config_map).await.unwrap().object().unwrap()
    }

    async fn secret(&self, name: &str) -> Arc<Secret> {
        let metadata = json!({"name": name, "namespace": "default"});
        let secret = serde_json::from_value(json!({"metadata": metadata})).unwrap();
        self.cluster.admin.api().create(secret).await.unwrap().object().unwrap()
    }

    async fn stop(self) {
        self.tasks.shutdown(Duration::from_secs(1)).await.unwrap();
        self.cluster.stop().await.unwrap();
    }
}

/// Tells which keys it was called with.
struct Told<K>(mpsc::UnboundedSender<K>);

impl<K: Key> Reconciler for Told<K> {
    type Key = K;
    type Error = ApiError;

    async fn reconcile(&self, key: &K) -> Result<Next, ApiError> {
        let _ = self.0.send(key.clone());
        Ok(Next::Settled)
    }
}

/// What is told once everything has come to rest.
async fn settled<K: Key>(told: &mut mpsc::UnboundedReceiver<K>) -> BTreeSet<String> {
    tokio::time::sleep(Duration::from_secs(1)).await;
    std::iter::from_fn(|| told.try_recv().ok()).map(|it| it.to_string()).collect()
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|it| (*it).to_owned()).collect()
}

/// A set of objects on one of its places: a key of two parts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Work {
    Place { set: String, place: String },
    Whole(String),
}

impl Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Place { set, place } => write!(f, "{set} on {place}"),
            Self::Whole(set) => write!(f, "{set}"),
        }
    }
}

#[test]
fn one_queue_takes_keys_of_two_parts_from_two_kinds_and_later_ones() {
    run(async {
        let site = Site::new().await;
        let (sender, mut told) = mpsc::unbounded_channel();
        site.controller()
            .watches(|it: &ConfigMap| {
                let labels = it.metadata.labels.clone().unwrap_or_default();
                let place = labels.get("place")?.clone();
                Some(Work::Place { set: it.metadata.name.clone()?, place })
            })
            .follows(|change: Change<'_, Secret>, queue| {
                if let Change::Deleted(it) = change {
                    let set = it.metadata.name.clone().unwrap();
                    queue.add_after(Work::Whole(set), Duration::from_secs(60));
                }
            })
            .workers(3)
            .run(Told(sender));
        site.factory.start();
        site.config_map("web", json!({"labels": {"place": "n1"}})).await;
        site.config_map("db", json!({})).await;
        site.secret("web").await;
        assert_eq!(settled(&mut told).await, set(&["web on n1"]));
        let body = Bytes::from(r#"{"metadata": {"labels": {"place": "n2"}}}"#);
        let config_maps = site.cluster.admin.api::<ConfigMap>();
        config_maps.patch("default", "web", client::PatchKind::Merge, body).await.unwrap();
        assert_eq!(settled(&mut told).await, set(&["web on n1", "web on n2"]), "before and after");
        let secrets = site.cluster.admin.api::<Secret>();
        secrets.delete("default", "web", client::DeleteOptions::default()).await.unwrap();
        assert_eq!(settled(&mut told).await, set(&[]));
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(settled(&mut told).await, set(&["web"]));
        site.stop().await;
    });
}

#[test]
fn an_owned_object_wakes_the_owner_that_its_reference_means() {
    run(async {
        let site = Site::new().await;
        let owner = site.secret("owner").await;
        let reference = |kind: &str, uid: &str| {
            json!({"ownerReferences": [{
                "apiVersion": "v1", "kind": kind, "name": "owner", "uid": uid, "controller": true,
            }]})
        };
        let uid = owner.metadata.uid.clone().unwrap();
        let (sender, mut told) = mpsc::unbounded_channel::<ObjectKey>();
        site.controller().owns::<Secret, ConfigMap>().run(Told(sender));
        site.factory.start();
        settled(&mut told).await;
        site.config_map("free", json!({})).await;
        site.config_map("of-a-former-owner", reference("Secret", "another")).await;
        site.config_map("of-another-kind", reference("ServiceAccount", &uid)).await;
        assert_eq!(settled(&mut told).await, set(&[]));
        site.config_map("owned", reference("Secret", &uid)).await;
        assert_eq!(settled(&mut told).await, set(&["default/owner"]));
        site.stop().await;
    });
}

/// How a server is slow about one resource.
#[derive(Clone, Copy)]
enum Slowness {
    /// Lists and watches never answer.
    Silent,
    /// Every event of a watch comes this much later.
    Late(Duration),
}

struct Slow {
    inner: Arc<dyn Transport>,
    resource: &'static str,
    slowness: Slowness,
}

impl Transport for Slow {
    fn call(&self, request: Request) -> BoxFuture<'_, Result<Reply, ApiError>> {
        match self.slowness {
            Slowness::Silent if request.resource.resource == self.resource => {
                Box::pin(future::pending())
            }
            _ => self.inner.call(request),
        }
    }

    fn watch(&self, request: Request) -> BoxFuture<'_, Result<WatchStream, ApiError>> {
        if request.resource.resource != self.resource {
            return self.inner.watch(request);
        }
        match self.slowness {
            Slowness::Silent => Box::pin(future::pending()),
            Slowness::Late(delay) => Box::pin(async move {
                let events = self.inner.watch(request).await?;
                let late = events.then(move |it| async move {
                    tokio::time::sleep(delay).await;
                    it
                });
                Ok(late.boxed())
            }),
        }
    }

    fn get_path(&self, path: String) -> BoxFuture<'_, Result<Bytes, ApiError>> {
        self.inner.get_path(path)
    }

    fn discover(&self) -> BoxFuture<'_, Result<Vec<Discovered>, ApiError>> {
        self.inner.discover()
    }
}

fn slow(client: &Client, resource: &'static str, slowness: Slowness) -> Client {
    client.map_transport(|inner| Arc::new(Slow { inner, resource, slowness }))
}

#[test]
fn work_waits_for_the_kinds_that_it_reads_and_for_no_others() {
    run(async {
        let cluster = Cluster::start(Options { seed: 1, nodes: 0 }).await.unwrap();
        let tasks = Tasks::new();
        let client = slow(&cluster.admin, "serviceaccounts", Slowness::Silent);
        let factory = Factory::new(client, cluster.world.clone(), &tasks);
        let start = |name, reads_accounts: bool| {
            let (sender, told) = mpsc::unbounded_channel::<ObjectKey>();
            let mut controller = Controller::new(name, &tasks, &factory);
            if reads_accounts {
                let _accounts = controller.cache::<ServiceAccount>();
            }
            controller.watches(itself::<ConfigMap>).run(Told(sender));
            told
        };
        let (mut waiting, mut working) = (start("waiting", true), start("working", false));
        factory.start();
        assert!(!settled(&mut working).await.is_empty());
        assert_eq!(settled(&mut waiting).await, set(&[]));
        tasks.shutdown(Duration::from_secs(1)).await.unwrap();
        cluster.stop().await.unwrap();
    });
}

/// Creates one secret per config map, with a generated name: on a cache that is behind it would
/// create another.
struct Creator {
    client: Client,
    secrets: informer::Indexer<Secret>,
    writes: Arc<OwnWrites<Secret>>,
    waited: Arc<Mutex<usize>>,
}

impl Reconciler for Creator {
    type Key = ObjectKey;
    type Error = ApiError;

    async fn reconcile(&self, key: &ObjectKey) -> Result<Next, ApiError> {
        if let Some(wait) = self.writes.wait(key) {
            *self.waited.lock().unwrap() += 1;
            return Ok(Next::After(wait));
        }
        let is_ours =
            |it: &Secret| it.metadata.generate_name.as_ref() == Some(&format!("{}-", key.name));
        if self.secrets.list_namespace(&key.namespace).iter().any(|it| is_ours(it)) {
            return Ok(Next::Settled);
        }
        let metadata =
            json!({"generateName": format!("{}-", key.name), "namespace": key.namespace});
        let secret: Secret = serde_json::from_value(json!({"metadata": metadata})).unwrap();
        let created = self.client.api::<Secret>().create(secret).await?;
        self.writes.wrote(key, created.meta());
        // At once, when the watch has had no time.
        Ok(Next::After(Duration::ZERO))
    }
}

#[test]
fn own_writes_are_waited_for_until_the_cache_shows_them_or_they_are_gone() {
    run(async {
        let site = Site::with_late_secrets().await;
        let mut controller = site.controller();
        let (writes, waited) = (controller.own_writes(PATIENCE), Arc::<Mutex<usize>>::default());
        let reconciler = Creator {
            client: site.cluster.admin.clone(),
            secrets: controller.cache(),
            writes: writes.clone(),
            waited: waited.clone(),
        };
        controller
            .watches(|it: &ConfigMap| itself(it).filter(|it| it.name.starts_with("wants")))
            .watches(|it: &Secret| {
                let owner = it.metadata.generate_name.as_deref()?.strip_suffix('-')?;
                Some(ObjectKey::new("default", owner))
            })
            .run(reconciler);
        site.factory.start();
        let wanting = site.config_map("wants-one", json!({})).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let secrets = site.cluster.admin.api::<Secret>();
        let list = || async {
            secrets.list("default", client::ListOptions::default()).await.unwrap().items
        };
        let made = list().await;
        assert_eq!(made.len(), 1, "{:?}", made.iter().map(|it| &it.meta.key).collect::<Vec<_>>());
        assert!(*waited.lock().unwrap() > 0, "the cache was behind, and was waited for");
        let key = key_of(&wanting.metadata);
        assert_eq!(writes.wait(&key), None);
        // Deleted by others: it is made again at once, and not after the patience has ended.
        let name = made[0].meta.key.name.clone();
        secrets.delete("default", &name, client::DeleteOptions::default()).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let again = list().await;
        assert_eq!(again.len(), 1);
        assert_ne!(again[0].meta.key.name, name);
        site.stop().await;
    });
}
