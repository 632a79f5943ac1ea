//! What must have held at every moment, by all that was ever stored.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};
use api::Resource as _;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;

use super::has_ended;
use crate::history::History;

/// The moments at which a namespace had more pods that had not ended than it may.
pub fn pods_beyond(history: &History, namespace: &str, most: usize) -> Result<Vec<String>> {
    let mut running = BTreeSet::new();
    let mut found = Vec::new();
    for (key, value) in history.changes(&format!("/pods/{namespace}/")) {
        let pod = value.map(Pod::decode).transpose().context("decoding")?;
        let phase = pod.as_ref().and_then(|it| it.status.as_ref()?.phase.as_deref());
        match pod.is_some() && !matches!(phase, Some("Failed" | "Succeeded")) {
            true => running.insert(key.to_string()),
            false => running.remove(key.as_ref()),
        };
        if running.len() > most {
            found.push(format!("{} pods with {key}, {most} are allowed", running.len()));
        }
    }
    Ok(found)
}

/// The moments at which two pods of a StatefulSet had one identity, neither of which had ended; and
/// pods that went while their containers ran: who comes after them may meet them. That a node is
/// asked to stop them is not seen from here: see `Fleet::doubles`.
pub fn shared_identities(history: &History, namespace: &str) -> Result<Vec<String>> {
    let mut alive: BTreeMap<String, Pod> = BTreeMap::new();
    let mut found = Vec::new();
    for (key, value) in history.changes(&format!("/pods/{namespace}/")) {
        let pod = value.map(Pod::decode).transpose().context("decoding")?;
        let before = alive.remove(key.as_ref());
        if let Some(before) = before.filter(|_| pod.is_none())
            && before.metadata.deletion_timestamp.is_none()
            && before.spec.as_ref().is_some_and(|it| it.node_name.is_some())
        {
            found.push(format!("{key} went while its containers ran"));
        }
        let Some(pod) = pod.filter(|it| identity(it).is_some() && !has_ended(it)) else { continue };
        let same = alive.iter().filter(|(_, it)| identity(it) == identity(&pod));
        found.extend(same.map(|(other, _)| format!("{key} is who {other} is")));
        alive.insert(key.into_owned(), pod);
    }
    Ok(found)
}

/// The StatefulSet of a pod, and which of its pods it is.
fn identity(pod: &Pod) -> Option<(&str, &str)> {
    let owners = pod.metadata.owner_references.as_deref().unwrap_or_default();
    let owner = owners.iter().find(|it| it.kind == "StatefulSet")?;
    let index = pod.metadata.labels.as_ref()?.get("apps.kubernetes.io/pod-index")?;
    Some((&owner.uid, index))
}

/// The moments at which a namespace had more objects of a resource than it may.
pub fn objects_beyond(history: &History, within: &str, most: usize) -> Vec<String> {
    let mut there = BTreeSet::new();
    let mut found = Vec::new();
    for (key, value) in history.changes(within) {
        match value {
            Some(_) => there.insert(key.to_string()),
            None => there.remove(key.as_ref()),
        };
        if there.len() > most {
            found.push(format!("{} objects with {key}, {most} are allowed", there.len()));
        }
    }
    found
}

/// The moments at which a Deployment wanted fewer or more pods than it may, by its key's end.
pub fn replicas_outside(
    history: &History,
    deployment: &str,
    allowed: std::ops::RangeInclusive<i32>,
) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for (key, value) in history.changes(deployment) {
        let Some(bytes) = value else { continue };
        let deployment = Deployment::decode(bytes).context("decoding")?;
        let replicas = deployment.spec.and_then(|it| it.replicas).unwrap_or(1);
        if !allowed.contains(&replicas) {
            found.push(format!("{key} wants {replicas} pods, {allowed:?} are allowed"));
        }
    }
    Ok(found)
}

/// What was removed under keys with this text.
pub fn deletions(history: &History, within: &str) -> Vec<String> {
    let removed = history.changes(within).filter(|(_, value)| value.is_none());
    removed.map(|(key, _)| format!("{key} was removed")).collect()
}

/// What is left of a namespace that is gone, or should be.
pub fn remains(history: &History, namespace: &str) -> Vec<String> {
    let (within, itself) = (format!("/{namespace}/"), format!("/namespaces/{namespace}"));
    let mut left = BTreeSet::new();
    for (key, value) in history.changes(&format!("/{namespace}")) {
        if !key.contains(&within) && !key.ends_with(&itself) {
            continue;
        }
        match value {
            Some(_) => left.insert(key.into_owned()),
            None => left.remove(key.as_ref()),
        };
    }
    left.into_iter().map(|it| format!("{it} is left")).collect()
}
