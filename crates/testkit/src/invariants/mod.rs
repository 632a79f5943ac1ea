//! What must hold in a cluster that has come to rest, whatever happened before; and what must have
//! held at every moment until then.

mod endpoints;
mod jobs;
mod moments;
mod owners;

use std::sync::Arc;

use anyhow::{Context as _, Result};
use api::Resource;
use client::{Client, ListOptions};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

pub use jobs::miscounted_jobs;
pub use moments::{
    deletions, objects_beyond, pods_beyond, remains, replicas_outside, shared_identities,
};

/// What is broken, one line each; empty when all is well.
pub async fn violations(admin: &Client) -> Result<Vec<String>> {
    let pods = all::<Pod>(admin).await?;
    let mut found = owners::violations(admin, &pods).await?;
    found.extend(jobs::violations(admin, &pods).await?);
    found.extend(endpoints::violations(admin, &pods).await?);
    Ok(found)
}

async fn all<T: Resource>(admin: &Client) -> Result<Vec<Arc<T>>> {
    let list = admin.api::<T>().list("", ListOptions::default()).await;
    let items = list.with_context(|| format!("listing {}", T::FACTS.plural))?.items;
    items.iter().map(|it| it.shared::<T>().context("decoding")).collect()
}

fn name(meta: &ObjectMeta) -> &str {
    meta.name.as_deref().unwrap_or_default()
}

/// Empty: it has not got it.
fn label<'a>(meta: &'a ObjectMeta, key: &str) -> &'a str {
    let value = meta.labels.as_ref().and_then(|it| it.get(key));
    value.map(String::as_str).unwrap_or_default()
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|it| it.phase.as_deref()).unwrap_or_default()
}

fn has_ended(pod: &Pod) -> bool {
    matches!(phase(pod), "Failed" | "Succeeded")
}
