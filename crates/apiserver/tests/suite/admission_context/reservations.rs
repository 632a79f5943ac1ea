//! What a plugin reserves, as a quota will: kept with the write, and given back whatever keeps the
//! write from happening.

use std::future::{pending, ready};
use std::sync::{Arc, OnceLock};

use admission::{Attributes, Context, Operation, Phase, Plugin, Reservation, Validating};
use api::Resource as _;
use api::core::ConfigMap;
use apiserver::Config;
use client::{Client, PatchKind};
use futures_util::FutureExt as _;
use kvstore::Error;
use kvstore::memory::Memory;
use serde_json::{Value, json};
use stdx::World;

use super::{Log, MAPS, named};
use crate::harness::remote::Remote;
use crate::harness::wire::{ADMIN, Site};
use crate::harness::{self, Harness};

/// Takes something for each ConfigMap that is written or deleted.
struct Quota(Log);

struct Taken {
    log: Log,
    is_kept: bool,
}

impl Reservation for Taken {
    fn keep(&mut self) {
        self.is_kept = true;
        self.log.push("kept");
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if !self.is_kept {
            self.log.push("back");
        }
    }
}

fn is_about_maps(phase: Phase, request: &Attributes<'_>) -> bool {
    // What the server writes by itself at its start is not counted.
    phase == Phase::Validate && request.is("", "configmaps", "") && request.namespace == "default"
}

impl Plugin for Quota {
    fn name(&self) -> &'static str {
        "Quota"
    }

    fn handles(&self, phase: Phase, request: &Attributes<'_>) -> bool {
        is_about_maps(phase, request)
    }

    fn validate<'a>(&'a self, _: &'a Context<'_>) -> Validating<'a> {
        self.0.push("taken");
        let taken: Box<dyn Reservation> = Box::new(Taken { log: self.0.clone(), is_kept: false });
        Box::pin(ready(Ok(Some(taken))))
    }
}

/// Comes after the quota, and does what `data.then` says.
struct Later(Arc<OnceLock<Client>>);

impl Plugin for Later {
    fn name(&self) -> &'static str {
        "Later"
    }

    fn handles(&self, phase: Phase, request: &Attributes<'_>) -> bool {
        is_about_maps(phase, request) && request.operation != Operation::Delete
    }

    fn validate<'a>(&'a self, context: &'a Context<'_>) -> Validating<'a> {
        let data = context.object_as::<ConfigMap>().and_then(|it| it.data.as_ref());
        let then = data.and_then(|it| it.get("then")).map(String::as_str);
        let old = context.old_as::<ConfigMap>().and_then(|it| it.data.as_ref());
        match then {
            Some("refuse") => Box::pin(ready(Err(context.forbidden("no")))),
            Some("panic") => panic!("a plugin panics"),
            Some("wait") => Box::pin(pending()),
            // Somebody else is faster, once.
            Some("race") if old.is_none_or(|it| !it.contains_key("race")) => {
                let name = context.name().to_owned();
                Box::pin(async move {
                    let client = self.0.get().expect("a client");
                    let patch = json!({"data": {"race": "won"}});
                    patched(client, &name, &patch).await;
                    Ok(None)
                })
            }
            _ => Box::pin(ready(Ok(None))),
        }
    }
}

async fn patched(client: &Client, name: &str, patch: &Value) {
    let api = client.api::<ConfigMap>();
    let patch = patch.to_string().into_bytes().into();
    api.patch("default", name, PatchKind::Merge, patch).await.expect("patched");
}

struct Bench {
    log: Log,
    remote: Arc<Remote>,
    client: Client,
    _harness: Harness,
}

fn plugins(log: &Log, client: &Arc<OnceLock<Client>>) -> Vec<Arc<dyn Plugin>> {
    vec![Arc::new(Quota(log.clone())), Arc::new(Later(client.clone()))]
}

impl Bench {
    async fn start() -> Self {
        let (log, own) = (Log::default(), Arc::new(OnceLock::new()));
        let remote = Remote::new(Arc::new(Memory::new()));
        let (world, config) = (World::simulated(1), Config::default());
        let plugins = plugins(&log, &own);
        let harness = harness::try_start_with(world, remote.clone(), config, plugins).await;
        let harness = harness.expect("the server starts");
        let client = harness.client.clone();
        let _ = own.set(client.clone());
        log.take();
        Self { log, remote, client, _harness: harness }
    }

    fn happened(&self) -> String {
        self.log.take().join(" ")
    }
}

fn map(name: &str, then: &str) -> ConfigMap {
    let value = json!({"metadata": {"name": name, "namespace": "default"}, "data": {"then": then}});
    ConfigMap::decode(value.to_string().as_bytes()).expect("a ConfigMap")
}

#[tokio::test(start_paused = true)]
async fn what_is_stored_is_kept() {
    let bench = Bench::start().await;
    let api = bench.client.api::<ConfigMap>();
    api.create(map("a", "")).await.expect("created");
    assert_eq!(bench.happened(), "taken kept");
    patched(&bench.client, "a", &json!({"data": {"k": "v"}})).await;
    assert_eq!(bench.happened(), "taken kept");
    // Nothing changes, so that nothing is stored.
    patched(&bench.client, "a", &json!({"data": {"k": "v"}})).await;
    assert_eq!(bench.happened(), "taken back");
    api.delete("default", "a", Default::default()).await.expect("deleted");
    assert_eq!(bench.happened(), "taken kept");
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_is_given_back() {
    let bench = Bench::start().await;
    let api = bench.client.api::<ConfigMap>();
    assert_eq!(api.create(map("a", "refuse")).await.expect_err("refused").code(), 403);
    assert_eq!(bench.happened(), "taken back", "by a later plugin");
    api.create(map("a", "")).await.expect("created");
    bench.happened();
    assert_eq!(api.create(map("a", "")).await.expect_err("taken").code(), 409);
    assert_eq!(bench.happened(), "taken back", "by what is there");
    bench.remote.refuse(Some(Error::Unavailable { why: "cut off".to_owned() }));
    assert_eq!(api.create(map("b", "")).await.expect_err("refused").code(), 503);
    assert_eq!(bench.happened(), "taken back", "by the store");
    assert!(api.delete("default", "a", Default::default()).await.is_err());
    assert_eq!(bench.happened(), "taken back", "by the store");
}

#[tokio::test(start_paused = true)]
async fn who_was_too_slow_takes_anew() {
    let bench = Bench::start().await;
    bench.client.api::<ConfigMap>().create(map("a", "")).await.expect("created");
    bench.happened();
    patched(&bench.client, "a", &json!({"data": {"then": "race"}})).await;
    // One for the write that loses, one for the write that wins in between, one for the second try.
    assert_eq!(bench.happened(), "taken taken kept back taken kept");
}

#[tokio::test(start_paused = true)]
async fn who_is_not_waited_for_gives_back() {
    let bench = Bench::start().await;
    let api = bench.client.api::<ConfigMap>();
    assert!(api.create(map("a", "wait")).now_or_never().is_none());
    assert_eq!(bench.happened(), "taken back");
}

#[tokio::test]
async fn dry_runs_and_panics_keep_nothing() {
    let (log, client) = (Log::default(), Arc::new(OnceLock::new()));
    let site = Site::start_with(Arc::new(Memory::new()), plugins(&log, &client)).await;
    let mut connection = site.connect(ADMIN).await;
    log.take();
    let happened = || log.take().join(" ");
    let dry = |path: &str| format!("{path}?dryRun=All");
    assert_eq!(connection.call("POST", &dry(MAPS), &named("a")).await.0, 201);
    assert_eq!(happened(), "taken back");
    let panicking = json!({"metadata": {"name": "a"}, "data": {"then": "panic"}});
    assert_eq!(connection.call("POST", MAPS, &panicking).await.0, 500);
    assert_eq!(happened(), "taken back");
    assert_eq!(connection.call("POST", MAPS, &named("a")).await.0, 201);
    assert_eq!(happened(), "taken kept");
    let one = format!("{MAPS}/a");
    let change = json!({"data": {"k": "v"}});
    assert_eq!(connection.call("PATCH", &dry(&one), &change).await.0, 200);
    assert_eq!(happened(), "taken back");
    assert_eq!(connection.call("DELETE", &dry(&one), &Value::Null).await.0, 200);
    assert_eq!(happened(), "taken back");
}
