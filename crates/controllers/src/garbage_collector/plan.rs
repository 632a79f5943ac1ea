//! What becomes of an object, given what is known about its owners and dependents. Pure.

use apimachinery::GroupVersionResource;
use apimachinery::ObjectKey;
use client::Propagation;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::graph::Node;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// It exists, and stays or goes by itself.
    Solid,
    Absent,
    /// It exists only until its dependents are gone.
    WaitsForDependents,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Drop these owners, by uid, from the object.
    DropOwners(Vec<String>),
    Delete(Propagation),
    RemoveFinalizer(&'static str),
    /// Take this owner away from a dependent.
    Orphan {
        resource: GroupVersionResource,
        dependent: ObjectKey,
        uid: String,
    },
}

/// An object that is not being deleted, or only waits for others: judged by its owners.
pub(crate) fn plan_dependent(
    owners: &[(OwnerReference, Owner)],
    finalizers: &[String],
    has_dependents: bool,
) -> Option<Action> {
    let of = |state: Owner| owners.iter().filter(move |(_, it)| *it == state);
    if owners.is_empty() {
        return None;
    }
    if of(Owner::Solid).next().is_some() {
        let lost: Vec<String> = owners
            .iter()
            .filter(|(_, it)| *it != Owner::Solid)
            .map(|(reference, _)| reference.uid.clone())
            .collect();
        return (!lost.is_empty()).then_some(Action::DropOwners(lost));
    }
    let has = |finalizer: &str| finalizers.iter().any(|it| it == finalizer);
    let is_awaited = of(Owner::WaitsForDependents).next().is_some();
    let propagation = if is_awaited && has_dependents {
        Propagation::Foreground
    } else if has(super::graph::ORPHAN) {
        Propagation::Orphan
    } else if has(super::graph::FOREGROUND) {
        Propagation::Foreground
    } else {
        Propagation::Background
    };
    Some(Action::Delete(propagation))
}

/// An object that waits for its dependents: it may go when none of them blocks it.
pub(crate) fn plan_foreground(uid: &str, dependents: &[&Node]) -> Option<Action> {
    let blocks = |it: &&&Node| {
        it.owners.iter().any(|it| it.uid == uid && it.block_owner_deletion == Some(true))
    };
    match dependents.iter().find(blocks) {
        Some(_) => None,
        None => Some(Action::RemoveFinalizer(super::graph::FOREGROUND)),
    }
}

/// An object that leaves its dependents behind.
pub(crate) fn plan_orphaning(dependents: &[&Node]) -> Vec<Action> {
    let mut actions: Vec<Action> = dependents
        .iter()
        .map(|it| Action::Orphan {
            resource: it.resource.clone(),
            dependent: it.key.clone(),
            uid: it.uid.clone(),
        })
        .collect();
    actions.push(Action::RemoveFinalizer(super::graph::ORPHAN));
    actions
}
