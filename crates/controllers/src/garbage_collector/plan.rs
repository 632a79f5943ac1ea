//! What becomes of an object, given what is known about its owners and dependents. Pure.

use api::Meta;
use apimachinery::{GroupVersion, GroupVersionResource, ObjectKey, Scope};
use client::Propagation;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::graph::{FOREGROUND, Graph, Node, ORPHAN};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// It exists, and stays or goes by itself.
    Solid,
    Absent,
    /// It exists only until its dependents are gone.
    WaitsForDependents,
}

/// What becomes of an object because of its owners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Drop these owners, by uid, from the object.
    DropOwners(Vec<String>),
    Delete(Propagation),
    /// No owner is to wait for it any more; then look again.
    Unblock,
}

/// What an object's dependents do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dependents {
    None,
    Stay,
    /// One of them exists only until its own dependents are gone: they may own each other in a
    /// circle, in which each would wait for the next.
    Wait,
}

impl Dependents {
    pub(crate) fn of(graph: &Graph, uid: &str) -> Self {
        let dependents = graph.dependents(uid);
        match dependents.iter().any(|it| it.is_foreground) {
            true => Self::Wait,
            false if dependents.is_empty() => Self::None,
            false => Self::Stay,
        }
    }
}

/// What an object that is being deleted does for its dependents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    RemoveFinalizer(&'static str),
    /// Take this owner away from a dependent.
    Orphan {
        resource: GroupVersionResource,
        dependent: ObjectKey,
        uid: String,
    },
}

/// Owners live in the same namespace, or in none.
fn is_in_reach(dependent: &Node, owner: &Node) -> bool {
    owner.key.namespace.is_empty() || owner.key.namespace == dependent.key.namespace
}

/// What the graph knows of an owner; absent when the server must be asked, since the graph may be
/// behind.
pub(crate) fn known(graph: &Graph, node: &Node, reference: &OwnerReference) -> Option<Owner> {
    let owner = graph.get(&reference.uid).filter(|it| is_in_reach(node, it))?;
    // Whoever names it wrongly may mean another one, or none.
    let group = GroupVersion::parse(&reference.api_version).map(|it| it.group);
    if owner.key.name != reference.name || group.as_deref() != Some(&owner.resource.group) {
        return None;
    }
    Some(if owner.is_foreground { Owner::WaitsForDependents } else { Owner::Solid })
}

/// The owners that are in another namespace: a mistake that somebody should hear of.
pub(crate) fn out_of_reach<'a>(graph: &Graph, node: &'a Node) -> Vec<&'a OwnerReference> {
    let is_elsewhere =
        |it: &&OwnerReference| graph.get(&it.uid).is_some_and(|owner| !is_in_reach(node, owner));
    node.owners.iter().filter(is_elsewhere).collect()
}

/// What is said of one.
pub(crate) fn invalid_namespace_text(dependent: &ObjectKey, owner: &OwnerReference) -> String {
    let OwnerReference { api_version, kind, name, uid, .. } = owner;
    let namespace = &dependent.namespace;
    format!(
        "ownerRef [{api_version}/{kind}, namespace: {namespace}, name: {name}, uid: {uid}] \
         does not exist in namespace {namespace:?}"
    )
}

/// The owners that are not known to exist and to stay. When there are none the object stays, and
/// the server is not asked.
pub(crate) fn doubtful<'a>(graph: &Graph, node: &'a Node) -> Vec<&'a OwnerReference> {
    let is_solid = |it: &&OwnerReference| known(graph, node, it) == Some(Owner::Solid);
    node.owners.iter().filter(|it| !is_solid(it)).collect()
}

/// The namespace in which to look for an owner. Absent for a namespaced owner of a cluster-scoped
/// object: a mistake that cannot be looked up, so nothing is deleted because of it.
pub(crate) fn namespace_of_owner(scope: Scope, dependent: &ObjectKey) -> Option<&str> {
    match scope {
        Scope::Cluster => Some(""),
        Scope::Namespaced => Some(dependent.namespace.as_str()).filter(|it| !it.is_empty()),
    }
}

/// What the server's answer says of an owner; another object of its name is not it.
pub(crate) fn found(
    resource: &GroupVersionResource,
    reference: &OwnerReference,
    live: Option<&Meta>,
) -> Owner {
    match live.filter(|it| it.uid == reference.uid) {
        None => Owner::Absent,
        Some(live) if Node::new(resource, live).is_foreground => Owner::WaitsForDependents,
        Some(_) => Owner::Solid,
    }
}

/// An object that is not being deleted, or only waits for others: judged by its owners.
pub(crate) fn plan_dependent(
    owners: &[(OwnerReference, Owner)],
    finalizers: &[String],
    dependents: Dependents,
) -> Option<Fate> {
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
        return (!lost.is_empty()).then_some(Fate::DropOwners(lost));
    }
    let has = |finalizer: &str| finalizers.iter().any(|it| it == finalizer);
    let is_awaited = of(Owner::WaitsForDependents).next().is_some();
    let blocks = owners.iter().any(|(it, _)| it.block_owner_deletion == Some(true));
    if is_awaited && blocks && dependents == Dependents::Wait {
        return Some(Fate::Unblock);
    }
    let propagation = if is_awaited && dependents != Dependents::None {
        Propagation::Foreground
    } else if has(ORPHAN) {
        Propagation::Orphan
    } else if has(FOREGROUND) {
        Propagation::Foreground
    } else {
        Propagation::Background
    };
    Some(Fate::Delete(propagation))
}

/// An object that is being deleted, and does something for its dependents before it goes.
pub(crate) fn plan_owner(graph: &Graph, node: &Node) -> Vec<Action> {
    let dependents = graph.dependents(&node.uid);
    if node.is_orphaning {
        return plan_orphaning(&dependents);
    }
    if node.is_foreground { plan_foreground(&node.uid, &dependents) } else { Vec::new() }
}

/// An object that waits for its dependents: it may go when none of them blocks it.
fn plan_foreground(uid: &str, dependents: &[&Node]) -> Vec<Action> {
    let blocks = |it: &&Node| {
        it.owners.iter().any(|it| it.uid == uid && it.block_owner_deletion == Some(true))
    };
    match dependents.iter().any(blocks) {
        true => Vec::new(),
        false => vec![Action::RemoveFinalizer(FOREGROUND)],
    }
}

/// An object that leaves its dependents behind.
fn plan_orphaning(dependents: &[&Node]) -> Vec<Action> {
    let mut actions: Vec<Action> = dependents
        .iter()
        .map(|it| Action::Orphan {
            resource: it.resource.clone(),
            dependent: it.key.clone(),
            uid: it.uid.clone(),
        })
        .collect();
    actions.push(Action::RemoveFinalizer(ORPHAN));
    actions
}
