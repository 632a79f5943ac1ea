//! Whether a claim is used, and what becomes of its finalizer. Pure.

use std::sync::Arc;

use api::Identified as _;
use api::core::PersistentVolumeClaim;
use api::core::pod::PodView;

use crate::finalizers;

pub(super) const FINALIZER: &str = "kubernetes.io/pvc-protection";

#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// There is nothing to do.
    Rest,
    /// These pods use it.
    Keep(Vec<String>),
    /// Nobody uses it as far as the cache knows, which may be behind.
    AskServer,
    /// The claim with its finalizer, or without it.
    Write(Box<PersistentVolumeClaim>),
}

pub(super) fn is_unsettled(claim: &PersistentVolumeClaim) -> bool {
    let meta = &claim.metadata;
    finalizers::is_unprotected(meta, FINALIZER) || finalizers::is_kept(meta, FINALIZER)
}

/// `live`: all bound pods of the namespace, where the server was asked after the claim was seen.
pub(super) fn plan(
    claim: &PersistentVolumeClaim,
    cached: &[Arc<PodView>],
    live: Option<&[Arc<PodView>]>,
) -> Step {
    if finalizers::is_unprotected(&claim.metadata, FINALIZER) {
        return Step::Write(Box::new(finalizers::protected(claim, FINALIZER)));
    }
    if !finalizers::is_kept(&claim.metadata, FINALIZER) {
        return Step::Rest;
    }
    let users = |pods: &[Arc<PodView>]| -> Vec<String> {
        let mut users: Vec<String> =
            pods.iter().filter(|it| uses(it, claim)).map(|it| it.key().name).collect();
        users.sort();
        users
    };
    let known = users(cached);
    if !known.is_empty() {
        return Step::Keep(known);
    }
    let Some(live) = live else { return Step::AskServer };
    match users(live) {
        users if users.is_empty() => Step::Write(Box::new(finalizers::released(claim, FINALIZER))),
        users => Step::Keep(users),
    }
}

/// Whether a pod keeps a claim. One without a node does not: no kubelet starts a pod whose claim is
/// being deleted. One that has ended does: its volume may still be mounted. One that its node is
/// done with, or that was deleted by force, does not keep the claims that were made for it, which
/// it may itself be waiting for.
fn uses(pod: &PodView, claim: &PersistentVolumeClaim) -> bool {
    let Some(claims) = pod.volume_claims.as_deref().filter(|_| pod.node().is_some()) else {
        return false;
    };
    let name = claim.metadata.name.as_deref().unwrap_or_default();
    let has = |names: &[Box<str>]| names.iter().any(|it| &**it == name);
    let is_shut_down = pod.deletion.as_ref().is_some_and(|it| it.grace_seconds == 0);
    let is_its_own = || claim.controller().is_some_and(|it| it.uid == pod.uid());
    has(&claims.named) || (!is_shut_down && has(&claims.ephemeral) && is_its_own())
}
