//! A Deployment with a budget, of which everybody is to go all the time.

use std::sync::atomic::{AtomicUsize, Ordering};

use client::Client;
use futures_util::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::{Eviction, PodDisruptionBudget};
use serde_json::json;

use crate::objects::{create, deploy, is_healthy, list, template, unless_available};

/// All but one of them are to be available.
const GUARDED: i32 = 5;

/// Of all seeds: those who went and those who stayed.
static EVICTED: AtomicUsize = AtomicUsize::new(0);
static REFUSED: AtomicUsize = AtomicUsize::new(0);

pub(crate) fn asked() -> (usize, usize) {
    (EVICTED.load(Ordering::Relaxed), REFUSED.load(Ordering::Relaxed))
}

pub(crate) async fn make(admin: &Client, script: &str) {
    let budget = json!({
        "metadata": {"name": "guarded", "namespace": "default"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "guarded"}}},
    });
    create::<PodDisruptionBudget>(admin, &budget).await;
    deploy(admin, "default", "guarded", GUARDED, template("guarded", script, "Always")).await;
}

/// All who are healthy are to go at once. The budget is asked when it has seen what there is; how
/// many may go is then for us to count, whatever it says of that.
pub(crate) async fn evict(admin: &Client, seed: u64) {
    let healthy: Vec<Pod> =
        list::<Pod>(admin, "default").await.into_iter().filter(is_healthy).collect();
    let budget = admin.api::<PodDisruptionBudget>().get("default", "guarded").await.unwrap();
    let status = budget.status.clone().unwrap_or_default();
    if status.current_healthy != i32::try_from(healthy.len()).ok() {
        return;
    }
    let evictions = healthy.iter().map(|pod| {
        let name = pod.metadata.name.clone().unwrap();
        let metadata = json!({"name": name, "namespace": "default"});
        let eviction: Eviction = serde_json::from_value(json!({"metadata": metadata})).unwrap();
        let api = admin.api::<Pod>();
        async move { api.create_subresource("default", &name, "eviction", eviction).await }
    });
    let gone = join_all(evictions).await.iter().filter(|it| it.is_ok()).count();
    let kept = usize::try_from(GUARDED - 1).unwrap();
    let allowed = healthy.len().saturating_sub(kept);
    assert!(gone <= allowed, "seed {seed}: {gone} of {} went, {kept} have to stay", healthy.len());
    EVICTED.fetch_add(gone, Ordering::Relaxed);
    REFUSED.fetch_add(healthy.len() - gone, Ordering::Relaxed);
}

pub(crate) async fn missing(admin: &Client) -> Vec<String> {
    unless_available(admin, "default", "guarded", GUARDED).await.into_iter().collect()
}
