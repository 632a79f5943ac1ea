//! Evictions against disruption budgets, as clients see them.

use std::sync::Arc;

use api::core::{Pod, ServiceAccount};
use api::policy::{Eviction, PodDisruptionBudget};
use apimachinery::ApiError;
use apiserver::Config;
use client::PatchKind;
use futures_util::future::join_all;
use kvstore::memory::Memory;
use serde_json::{Value, json};
use stdx::World;

use crate::harness::{self, Harness};

const VIOLATED: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

fn decode<T: api::Resource>(value: &Value) -> T {
    T::decode(value.to_string().as_bytes()).expect("an object")
}

async fn start(memory: &Arc<Memory>) -> Harness {
    let config = Config::default();
    let started = harness::try_start_over(World::simulated(1), memory.clone(), config).await;
    started.expect("the server starts")
}

async fn start_one() -> Harness {
    let server = start(&Arc::new(Memory::new())).await;
    let account = json!({"metadata": {"name": "default", "namespace": "default"}});
    server.client.api::<ServiceAccount>().create(decode(&account)).await.expect("created");
    server
}

/// A pod on a node, whose containers run.
async fn run(server: &Harness, name: &str, phase: &str, is_ready: bool) {
    let pod = json!({
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
    });
    let pods = server.client.api::<Pod>();
    pods.create(decode(&pod)).await.expect("created");
    let ready = if is_ready { "True" } else { "False" };
    let status = json!({"status": {
        "phase": phase, "conditions": [{"type": "Ready", "status": ready}],
    }});
    let patched = pods.patch_status("default", name, PatchKind::Merge, status.to_string().into());
    patched.await.expect("patched");
}

/// A budget of all pods, as the controller leaves it.
async fn budget(server: &Harness, name: &str, spec: Value, status: Value) {
    let meta = json!({"name": name, "namespace": "default"});
    let budgets = server.client.api::<PodDisruptionBudget>();
    budgets.create(decode(&json!({"metadata": meta, "spec": spec}))).await.expect("created");
    set_status(server, name, status).await;
}

async fn set_status(server: &Harness, name: &str, status: Value) {
    let body = json!({"status": status}).to_string();
    let budgets = server.client.api::<PodDisruptionBudget>();
    let patched = budgets.patch_status("default", name, PatchKind::Merge, body.into()).await;
    patched.expect("patched");
}

fn web() -> Value {
    json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}})
}

fn allows(n: i32) -> Value {
    json!({
        "observedGeneration": 1, "disruptionsAllowed": n, "currentHealthy": n + 1,
        "desiredHealthy": 1, "expectedPods": n + 1,
    })
}

async fn evict_with(server: &Harness, name: &str, options: Value) -> Result<(), ApiError> {
    let meta = json!({"name": name, "namespace": "default"});
    let eviction: Eviction = decode(&json!({"metadata": meta, "deleteOptions": options}));
    server.client.api::<Pod>().create_subresource("default", name, "eviction", eviction).await
}

async fn evict(server: &Harness, name: &str) -> String {
    say(evict_with(server, name, Value::Null).await)
}

fn say(answer: Result<(), ApiError>) -> String {
    answer.map_or_else(|err| format!("{} {err}", err.code()), |()| "evicted".to_owned())
}

/// Whether the pod is being deleted, and the reason of its DisruptionTarget.
async fn fate(server: &Harness, name: &str) -> String {
    let Ok(pod) = server.client.api::<Pod>().get("default", name).await else {
        return "gone".to_owned();
    };
    let is_deleting = pod.metadata.deletion_timestamp.is_some();
    let target = api::core::pod::conditions::get(&pod, "DisruptionTarget");
    let target = target.and_then(|it| it.reason.clone()).unwrap_or_default();
    format!("{} {target}", if is_deleting { "leaving" } else { "there" }).trim().to_owned()
}

async fn left(server: &Harness, name: &str) -> String {
    let budget = server.client.api::<PodDisruptionBudget>().get("default", name).await;
    let status = budget.expect("there").status.clone().unwrap_or_default();
    let pods: Vec<String> = status.disrupted_pods.unwrap_or_default().into_keys().collect();
    format!("{} {}", status.disruptions_allowed.unwrap_or(0), pods.join(" ")).trim().to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_budget_holds_an_eviction_back_until_it_allows_it() {
    let server = start_one().await;
    run(&server, "a", "Running", true).await;
    run(&server, "b", "Running", true).await;
    budget(&server, "web", web(), allows(0)).await;
    let refused = evict_with(&server, "a", Value::Null).await.expect_err("nothing is allowed");
    assert_eq!((refused.code(), refused.message()), (429, VIOLATED));
    let causes = refused.details().and_then(|it| it.causes.clone()).expect("a cause");
    assert_eq!(causes[0].reason.as_deref(), Some("DisruptionBudget"));
    // A client that is told to wait would wait for nothing.
    assert_eq!(refused.retry_after_seconds(), None);
    assert_eq!(fate(&server, "a").await, "there");

    set_status(&server, "web", allows(1)).await;
    assert_eq!(evict(&server, "a").await, "evicted");
    assert_eq!(fate(&server, "a").await, "leaving EvictionByEvictionAPI");
    assert_eq!(left(&server, "web").await, "0 a");
    assert_eq!(evict(&server, "b").await, format!("429 {VIOLATED}"));
    assert_eq!(fate(&server, "b").await, "there");
    // What is on its way out already is no disruption any more.
    assert_eq!(evict(&server, "a").await, "evicted");
    assert_eq!(left(&server, "web").await, "0 a");
}

#[tokio::test(start_paused = true)]
async fn a_budget_of_a_generation_that_nobody_looked_at_holds_everything_back() {
    let server = start_one().await;
    run(&server, "a", "Running", true).await;
    budget(&server, "web", web(), json!({"disruptionsAllowed": 1})).await;
    let refused = evict_with(&server, "a", Value::Null).await.expect_err("it is not observed");
    assert_eq!((refused.code(), refused.retry_after_seconds()), (429, Some(10)));
    assert_eq!(fate(&server, "a").await, "there");
}

#[tokio::test(start_paused = true)]
async fn evictions_at_once_through_several_servers_never_spend_more_than_a_budget_has() {
    const ALLOWED: usize = 5;
    let memory = Arc::new(Memory::new());
    let (one, two) = (start(&memory).await, start(&memory).await);
    let account = json!({"metadata": {"name": "default", "namespace": "default"}});
    one.client.api::<ServiceAccount>().create(decode(&account)).await.expect("created");
    let names: Vec<String> = (0..12).map(|it| format!("p{it}")).collect();
    for name in &names {
        run(&one, name, "Running", true).await;
    }
    let n_allowed = i32::try_from(ALLOWED).expect("a small number");
    budget(&one, "web", web(), allows(n_allowed)).await;

    let servers = [&one, &two];
    let evictions = names.iter().enumerate().map(|(n, name)| evict(servers[n % 2], name));
    let mut answers = join_all(evictions).await;
    answers.sort();
    let n_evicted = answers.iter().filter(|it| *it == "evicted").count();
    let n_refused = answers.iter().filter(|it| **it == format!("429 {VIOLATED}")).count();
    assert_eq!((n_evicted, n_refused), (ALLOWED, names.len() - ALLOWED), "{answers:?}");
    let mut leaving = Vec::new();
    for name in &names {
        if fate(&two, name).await.starts_with("leaving") {
            leaving.push(name.clone());
        }
    }
    leaving.sort();
    assert_eq!(left(&two, "web").await, format!("0 {}", leaving.join(" ")));
    assert_eq!(leaving.len(), ALLOWED);
}

#[tokio::test(start_paused = true)]
async fn only_the_one_budget_that_selects_the_pod_counts() {
    let server = start_one().await;
    for name in ["a", "b", "c"] {
        run(&server, name, "Running", true).await;
    }
    // No selector selects nothing; an empty one selects everything.
    budget(&server, "none", json!({"minAvailable": 9}), allows(0)).await;
    let other = json!({"minAvailable": 9, "selector": {"matchLabels": {"app": "other"}}});
    budget(&server, "other", other, allows(0)).await;
    assert_eq!(evict(&server, "a").await, "evicted");
    budget(&server, "all", json!({"minAvailable": 9, "selector": {}}), allows(0)).await;
    assert_eq!(evict(&server, "b").await, format!("429 {VIOLATED}"));
    budget(&server, "web", web(), allows(1)).await;
    assert_eq!(
        evict(&server, "b").await,
        "500 This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    );
    assert_eq!(fate(&server, "b").await, "there");
    assert_eq!(evict(&server, "gone").await, "404 pods \"gone\" not found");
}

#[tokio::test(start_paused = true)]
async fn pods_that_do_not_run_go_whatever_budgets_say() {
    let server = start_one().await;
    budget(&server, "web", web(), allows(0)).await;
    for (name, phase) in [("a", "Pending"), ("b", "Succeeded"), ("c", "Failed")] {
        run(&server, name, phase, false).await;
        assert_eq!(evict(&server, name).await, "evicted", "{phase}");
    }
    assert_eq!(left(&server, "web").await, "0");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_not_ready_goes_without_spending_anything() {
    let server = start_one().await;
    for name in ["a", "b"] {
        run(&server, name, "Running", false).await;
    }
    let sick = json!({
        "observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 2,
        "expectedPods": 3,
    });
    budget(&server, "web", web(), sick.clone()).await;
    assert_eq!(evict(&server, "a").await, format!("429 {VIOLATED}"));
    set_status(&server, "web", json!({"currentHealthy": 2})).await;
    assert_eq!(evict(&server, "a").await, "evicted");
    set_status(&server, "web", sick).await;
    assert_eq!(evict(&server, "b").await, format!("429 {VIOLATED}"));
    let always = json!({"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}}).to_string();
    let budgets = server.client.api::<PodDisruptionBudget>();
    budgets.patch("default", "web", PatchKind::Merge, always.into()).await.expect("patched");
    assert_eq!(evict(&server, "b").await, "evicted");
    assert_eq!(left(&server, "web").await, "0");
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_asks_and_changes_nothing() {
    let server = start_one().await;
    run(&server, "a", "Running", true).await;
    budget(&server, "web", web(), allows(1)).await;
    let dry = json!({"dryRun": ["All"]});
    assert_eq!(say(evict_with(&server, "a", dry.clone()).await), "evicted");
    assert_eq!(
        (fate(&server, "a").await, left(&server, "web").await),
        ("there".into(), "1".into())
    );
    set_status(&server, "web", allows(0)).await;
    assert_eq!(say(evict_with(&server, "a", dry).await), format!("429 {VIOLATED}"));
}

#[tokio::test(start_paused = true)]
async fn preconditions_are_of_the_pod_that_is_evicted() {
    let server = start_one().await;
    run(&server, "a", "Running", true).await;
    let pod = server.client.api::<Pod>().get("default", "a").await.expect("there");
    let uid = pod.metadata.uid.clone().unwrap_or_default();
    let version = pod.metadata.resource_version.clone().unwrap_or_default();
    let options = |key: &str, value: &str| json!({"preconditions": {key: value}});
    let said = say(evict_with(&server, "a", options("uid", "other")).await);
    assert_eq!(
        said,
        format!(
            "409 Operation cannot be fulfilled on Pod \"a\": the UID in the precondition (other) does not match the UID in record ({uid}). The object might have been deleted and then recreated"
        )
    );
    let said = say(evict_with(&server, "a", options("resourceVersion", "1")).await);
    assert_eq!(
        said,
        format!(
            "409 Operation cannot be fulfilled on Pod \"a\": the ResourceVersion in the precondition (1) does not match the ResourceVersion in record ({version}). The object might have been modified"
        )
    );
    assert_eq!(fate(&server, "a").await, "there");
    // The mark that the eviction itself leaves is no change by somebody else.
    let said = say(evict_with(&server, "a", options("resourceVersion", &version)).await);
    assert_eq!(
        (said.as_str(), fate(&server, "a").await.as_str()),
        ("evicted", "leaving EvictionByEvictionAPI")
    );
}
