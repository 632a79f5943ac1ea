//! What must hold in a cluster that has come to rest, whatever happened before.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::{Context as _, Result};
use api::Resource;
use client::{Client, ListOptions};
use k8s_openapi::api::apps::v1::{
    ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet,
};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::history::History;

const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// What is broken, one line each; empty when all is well.
pub async fn violations(admin: &Client) -> Result<Vec<String>> {
    let pods = all::<Pod>(admin).await?;
    let replica_sets = all::<ReplicaSet>(admin).await?;
    let mut found = orphans(&replica_sets, &uids(&all::<Deployment>(admin).await?));
    let jobs = all::<Job>(admin).await?;
    let mut sets = uids(&all::<StatefulSet>(admin).await?);
    sets.extend(uids(&all::<DaemonSet>(admin).await?));
    found.extend(orphans(&all::<ControllerRevision>(admin).await?, &sets));
    sets.extend(uids(&replica_sets).into_iter().chain(uids(&jobs)));
    found.extend(orphans(&pods, &sets));
    found.extend(wrong_jobs(&jobs, &pods));
    found.extend(shared_addresses(&pods));
    let (services, slices) = (all::<Service>(admin).await?, all::<EndpointSlice>(admin).await?);
    found.extend(wrong_endpoints(&services, &slices, &pods));
    Ok(found)
}

async fn all<T: Resource>(admin: &Client) -> Result<Vec<Arc<T>>> {
    let list = admin.api::<T>().list("", ListOptions::default()).await;
    let items = list.with_context(|| format!("listing {}", T::FACTS.plural))?.items;
    items.iter().map(|it| it.shared::<T>().context("decoding")).collect()
}

fn uids<T: Resource>(objects: &[Arc<T>]) -> BTreeSet<String> {
    objects.iter().filter_map(|it| it.metadata().uid.clone()).collect()
}

fn name(meta: &ObjectMeta) -> &str {
    meta.name.as_deref().unwrap_or_default()
}

/// Objects with a controller that does not exist.
fn orphans<T: Resource>(objects: &[Arc<T>], living: &BTreeSet<String>) -> Vec<String> {
    let mut found = Vec::new();
    for object in objects {
        let owners = object.metadata().owner_references.as_deref().unwrap_or_default();
        if !owners.iter().any(|it| living.contains(&it.uid)) {
            let kind = T::FACTS.kind;
            found.push(format!("{kind} {} has no living owner", name(object.metadata())));
        }
    }
    found
}

/// A Job that is over has counted everybody and holds nobody.
fn wrong_jobs(jobs: &[Arc<Job>], pods: &[Arc<Pod>]) -> Vec<String> {
    let mut found = Vec::new();
    for job in jobs {
        let status = job.status.clone().unwrap_or_default();
        let uncounted = status.uncounted_terminated_pods.clone().unwrap_or_default();
        let n_uncounted = uncounted.succeeded.iter().chain(&uncounted.failed).flatten().count();
        let (active, terminating) = (status.active.unwrap_or(0), status.terminating.unwrap_or(0));
        let is_over = api::batch::job::conditions::is_finished(&status);
        if is_over && (n_uncounted > 0 || active > 0 || terminating > 0) {
            let name = name(&job.metadata);
            found.push(format!("Job {name} is over with {active} active, {terminating} terminating, {n_uncounted} uncounted"));
        }
        let is_held = |pod: &&Arc<Pod>| {
            let owners = pod.metadata.owner_references.as_deref().unwrap_or_default();
            owners.iter().any(|it| Some(&it.uid) == job.metadata.uid.as_ref())
                && pod.metadata.finalizers.as_ref().is_some_and(|it| !it.is_empty())
        };
        for pod in pods.iter().filter(is_held).filter(|_| is_over) {
            found.push(format!("Pod {} is held by a Job that is over", name(&pod.metadata)));
        }
    }
    found
}

/// Jobs of a namespace that count other pods than ended: what each says, beside what was stored of
/// its pods over time. A pod ends, or begins to, while it is tracked.
pub async fn miscounted_jobs(
    admin: &Client,
    history: &History,
    namespace: &str,
) -> Result<Vec<String>> {
    let mut ends: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for bytes in history.values(&format!("/pods/{namespace}/")) {
        let pod = Pod::decode(bytes).context("decoding")?;
        let phase = pod.status.as_ref().and_then(|it| it.phase.as_deref()).unwrap_or_default();
        let is_tracked = pod.metadata.finalizers.as_ref().is_some_and(|it| !it.is_empty());
        let is_over = matches!(phase, "Failed" | "Succeeded");
        if is_tracked && (is_over || pod.metadata.deletion_timestamp.is_some()) {
            let owner = pod.metadata.owner_references.into_iter().flatten().next();
            let owner = owner.map(|it| it.name).unwrap_or_default();
            ends.entry(owner).or_default().extend(pod.metadata.uid);
        }
    }
    let mut found = Vec::new();
    for job in all::<Job>(admin).await? {
        if job.metadata.namespace.as_deref() != Some(namespace) {
            continue;
        }
        let (name, status) = (name(&job.metadata), job.status.clone().unwrap_or_default());
        let counted = status.succeeded.unwrap_or(0) + status.failed.unwrap_or(0);
        let ended = ends.get(name).map_or(0, BTreeSet::len);
        let mode = job.spec.as_ref().and_then(|it| it.completion_mode.as_deref());
        // A second pod of an index that succeeds, made since nobody heard of the first one, has
        // nothing to add.
        let counted = usize::try_from(counted).unwrap_or_default();
        let is_right = counted == ended || (mode == Some("Indexed") && counted < ended);
        if !is_right {
            found.push(format!("Job {name} counts {counted} pods of {ended} that ended"));
        }
    }
    Ok(found)
}

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

fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|it| it.phase.as_deref());
    matches!(phase, Some("Failed" | "Succeeded"))
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

fn address(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.pod_ip.as_deref()
}

fn shared_addresses(pods: &[Arc<Pod>]) -> Vec<String> {
    let mut holders: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for pod in pods {
        if let Some(address) = address(pod) {
            holders.entry(address).or_default().push(name(&pod.metadata));
        }
    }
    let is_shared = |(address, pods): (&str, Vec<&str>)| {
        (pods.len() > 1).then(|| format!("{address} is the address of {pods:?}"))
    };
    holders.into_iter().filter_map(is_shared).collect()
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|it| it.conditions.as_deref());
    conditions.unwrap_or_default().iter().any(|it| it.type_ == "Ready" && it.status == "True")
}

/// The endpoints of each Service with a selector are exactly its ready pods, each once.
fn wrong_endpoints(
    services: &[Arc<Service>],
    slices: &[Arc<EndpointSlice>],
    pods: &[Arc<Pod>],
) -> Vec<String> {
    let mut found = Vec::new();
    for service in services {
        let selector = service.spec.as_ref().and_then(|it| it.selector.as_ref());
        let Some(selector) = selector.filter(|it| !it.is_empty()) else { continue };
        let is_selected = |pod: &Pod| {
            let labels = pod.metadata.labels.as_ref();
            pod.metadata.namespace == service.metadata.namespace
                && selector
                    .iter()
                    .all(|(key, value)| labels.and_then(|it| it.get(key)) == Some(value))
        };
        let ready = pods.iter().filter(|it| is_selected(it) && is_ready(it));
        let mut expected: Vec<String> = ready
            .map(|it| format!("{} at {}", name(&it.metadata), address(it).unwrap_or("")))
            .collect();
        let mut shown = endpoints(service, slices);
        expected.sort();
        shown.sort();
        if shown != expected {
            let service = name(&service.metadata);
            found.push(format!(
                "Service {service} has the endpoints {shown:?}, its pods are {expected:?}"
            ));
        }
    }
    found
}

fn endpoints(service: &Service, slices: &[Arc<EndpointSlice>]) -> Vec<String> {
    let is_of = |slice: &EndpointSlice| {
        let labels = slice.metadata.labels.as_ref();
        slice.metadata.namespace == service.metadata.namespace
            && labels.and_then(|it| it.get(SERVICE_NAME)) == service.metadata.name.as_ref()
    };
    let endpoints =
        slices.iter().filter(|it| is_of(it)).flat_map(|it| it.endpoints.iter().flatten());
    let is_ready = |ready: Option<bool>| if ready == Some(true) { "" } else { " not ready" };
    endpoints
        .map(|it| {
            let pod = it.target_ref.as_ref().and_then(|it| it.name.as_deref()).unwrap_or("nobody");
            let ready = is_ready(it.conditions.as_ref().and_then(|it| it.ready));
            format!("{pod} at {}{ready}", it.addresses.join(","))
        })
        .collect()
}
