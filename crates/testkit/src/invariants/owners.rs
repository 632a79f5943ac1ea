//! Nothing is left of what is gone, and claims are where their sets' policies say.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::Result;
use api::Resource;
use client::Client;
use k8s_openapi::api::apps::v1::{
    ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet,
};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{
    Endpoints, PersistentVolumeClaim, Pod, ReplicationController, Service,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;

use super::{all, label, name};

/// Who writes slices; others may write some of their own.
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const SLICE_CONTROLLERS: [&str; 2] =
    ["endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"];

pub(super) async fn violations(admin: &Client, pods: &[Arc<Pod>]) -> Result<Vec<String>> {
    let deployments = uids(&all::<Deployment>(admin).await?);
    let (replica_sets, jobs) = (all::<ReplicaSet>(admin).await?, all::<Job>(admin).await?);
    let sets = all::<StatefulSet>(admin).await?;
    let of_revisions = both(uids(&sets), uids(&all::<DaemonSet>(admin).await?));
    let mut of_pods = both(uids(&replica_sets), uids(&jobs));
    of_pods.extend(uids(&all::<ReplicationController>(admin).await?));
    let of_pods = both(of_pods, of_revisions.clone());
    let mut found = orphans(&replica_sets, &deployments);
    found.extend(orphans(&all::<ControllerRevision>(admin).await?, &of_revisions));
    found.extend(orphans(pods, &of_pods));
    found.extend(abandoned(&jobs, &uids(&all::<CronJob>(admin).await?)));

    let claims = all::<PersistentVolumeClaim>(admin).await?;
    found.extend(abandoned(&claims, &both(uids(&sets), uids(pods))));
    found.extend(wrong_claims(&sets, &claims, pods));
    let of_slices =
        both(uids(&all::<Service>(admin).await?), uids(&all::<Endpoints>(admin).await?));
    let mut slices = all::<EndpointSlice>(admin).await?;
    slices.retain(|it| SLICE_CONTROLLERS.contains(&label(&it.metadata, MANAGED_BY)));
    found.extend(orphans(&slices, &of_slices));
    Ok(found)
}

fn uids<T: Resource>(objects: &[Arc<T>]) -> BTreeSet<String> {
    objects.iter().filter_map(|it| it.metadata().uid.clone()).collect()
}

fn both(mut one: BTreeSet<String>, other: BTreeSet<String>) -> BTreeSet<String> {
    one.extend(other);
    one
}

/// Objects that somebody must own, and nobody does who lives.
fn orphans<T: Resource>(objects: &[Arc<T>], living: &BTreeSet<String>) -> Vec<String> {
    let is_orphan = |object: &&Arc<T>| {
        let owners = object.metadata().owner_references.as_deref().unwrap_or_default();
        !owners.iter().any(|it| living.contains(&it.uid))
    };
    let kind = T::FACTS.kind;
    let orphans = objects.iter().filter(is_orphan);
    orphans.map(|it| format!("{kind} {} has no living owner", name(it.metadata()))).collect()
}

/// Objects that somebody owned, but may as well be on their own.
fn abandoned<T: Resource>(objects: &[Arc<T>], living: &BTreeSet<String>) -> Vec<String> {
    let is_owned = |object: &&Arc<T>| {
        object.metadata().owner_references.as_ref().is_some_and(|it| !it.is_empty())
    };
    let owned: Vec<Arc<T>> = objects.iter().filter(is_owned).cloned().collect();
    orphans(&owned, living)
}

/// Each pod of a set has its claims; those of pods that the set does not want any more are gone,
/// where its policy says so.
fn wrong_claims(
    sets: &[Arc<StatefulSet>],
    claims: &[Arc<PersistentVolumeClaim>],
    pods: &[Arc<Pod>],
) -> Vec<String> {
    let mut found = Vec::new();
    let in_namespace = |it: &PersistentVolumeClaim| it.metadata.namespace.clone();
    let there: BTreeMap<_, _> =
        claims.iter().map(|it| ((in_namespace(it), name(&it.metadata)), it)).collect();
    for set in sets {
        let Some(spec) = &set.spec else { continue };
        let namespace = &set.metadata.namespace;
        let first = spec.ordinals.as_ref().and_then(|it| it.start).unwrap_or(0);
        let end = first + spec.replicas.unwrap_or(1);
        let policy = spec.persistent_volume_claim_retention_policy.as_ref();
        let goes = policy.and_then(|it| it.when_scaled.as_deref()) == Some("Delete");
        for template in spec.volume_claim_templates.iter().flatten() {
            let prefix = format!("{}-{}-", name(&template.metadata), name(&set.metadata));
            let wanted = (first..end).map(|it| format!("{prefix}{it}"));
            let missing =
                wanted.filter(|it| !there.contains_key(&(namespace.clone(), it.as_str())));
            found.extend(missing.map(|it| format!("claim {it} is missing")));
            for claim in claims.iter().filter(|it| it.metadata.namespace == *namespace) {
                let name = name(&claim.metadata);
                let ordinal = name.strip_prefix(&prefix).and_then(|it| it.parse::<i32>().ok());
                let is_surplus = ordinal.is_some_and(|it| !(first..end).contains(&it));
                if is_surplus && goes && !is_used(name, namespace.as_deref(), pods) {
                    found.push(format!("claim {name} should be gone with its pod"));
                }
            }
        }
    }
    found
}

fn is_used(claim: &str, namespace: Option<&str>, pods: &[Arc<Pod>]) -> bool {
    let mut there = pods.iter().filter(|it| it.metadata.namespace.as_deref() == namespace);
    there.any(|pod| {
        let volumes = pod.spec.iter().flat_map(|it| it.volumes.iter().flatten());
        let mut claims = volumes.into_iter().filter_map(|it| it.persistent_volume_claim.as_ref());
        claims.any(|it| it.claim_name == claim)
    })
}
