//! What a Deployment waits for, in words. Pure.

use std::sync::Arc;

use api::apps::replica_set::ReplicaSet;
use k8s_openapi::api::apps::v1::DeploymentStatus;

use super::plan::{Observed, available, wanted};
use super::rolling;
use super::status::{failure_of, is_complete};
use crate::explanations::{Explanation, list};
use crate::owners;

/// Absent when it has all that it wants, or is left alone. Says nothing that the counts of its
/// ReplicaSets do not, which its status sums up: no more is written for it.
pub(super) fn explain(observed: &Observed, status: &DeploymentStatus) -> Option<Explanation> {
    let deployment = &observed.deployment;
    if owners::is_deleting(&deployment.metadata)
        || observed.is_paused()
        || is_complete(deployment, status)
    {
        return None;
    }
    if let Some(current) = &observed.current {
        let name = owners::name(&current.metadata);
        if let Some(failure) = failure_of(current) {
            let why = failure.message.as_deref().unwrap_or_default();
            return Some(("PodsNotCreated", format!("ReplicaSet {name:?} lacks pods: {why}")));
        }
        let wanted = wanted(deployment);
        let lacking = wanted.saturating_sub(available(current));
        if lacking > 0 {
            let message = format!(
                "waiting for {lacking} of {wanted} pods of ReplicaSet {name:?} to be available"
            );
            return Some(("PodsNotAvailable", message));
        }
    }
    old_pods(&observed.old)
}

fn old_pods(old: &[Arc<ReplicaSet>]) -> Option<Explanation> {
    let size = |it: &ReplicaSet| it.status.as_ref().map_or(0, |it| it.replicas);
    let left: Vec<_> = old.iter().filter(|it| size(it) > 0).collect();
    let count = rolling::sum(left.iter().map(|it| size(it)));
    let mut names: Vec<String> =
        left.iter().map(|it| owners::name(&it.metadata).to_owned()).collect();
    names.sort();
    let message = format!("waiting for {count} pods of old ReplicaSets to go: {}", list(&names));
    (count > 0).then_some(("OldPodsRemain", message))
}
