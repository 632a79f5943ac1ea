//! Who depends on whom, from the metadata of every object. Pure.

use std::collections::{BTreeMap, BTreeSet};

use api::Meta;
use apimachinery::{GroupVersionResource, ObjectKey};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

pub(crate) const FOREGROUND: &str = "foregroundDeletion";
pub(crate) const ORPHAN: &str = "orphan";

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub resource: GroupVersionResource,
    pub key: ObjectKey,
    pub uid: String,
    pub owners: Vec<OwnerReference>,
    pub is_deleting: bool,
    pub is_foreground: bool,
    pub is_orphaning: bool,
}

impl Node {
    pub(crate) fn new(resource: &GroupVersionResource, meta: &Meta) -> Self {
        let has = |finalizer: &str| meta.finalizers.iter().any(|it| it == finalizer);
        Self {
            resource: resource.clone(),
            key: meta.key.clone(),
            uid: meta.uid.clone(),
            owners: meta.owner_references.clone(),
            is_deleting: meta.is_deleting,
            is_foreground: meta.is_deleting && has(FOREGROUND),
            is_orphaning: meta.is_deleting && has(ORPHAN),
        }
    }
}

/// `dependents` has an entry for every uid that some node of `nodes` names as its owner, whether
/// that owner exists or not.
#[derive(Default)]
pub(crate) struct Graph {
    nodes: BTreeMap<String, Node>,
    dependents: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    pub(crate) fn get(&self, uid: &str) -> Option<&Node> {
        self.nodes.get(uid)
    }

    pub(crate) fn dependents(&self, uid: &str) -> Vec<&Node> {
        let uids = self.dependents.get(uid).into_iter().flatten();
        uids.filter_map(|it| self.nodes.get(it)).collect()
    }

    /// Puts a node in, and says which uids deserve a look.
    pub(crate) fn upsert(&mut self, node: Node) -> BTreeSet<String> {
        let mut wake = BTreeSet::new();
        let before = self.nodes.get(&node.uid).cloned();
        if before.as_ref() == Some(&node) {
            return wake;
        }
        if let Some(before) = &before {
            self.unlink(before);
        }
        for owner in &node.owners {
            self.dependents.entry(owner.uid.clone()).or_default().insert(node.uid.clone());
        }
        let was_foreground = before.as_ref().is_some_and(|it| it.is_foreground);
        if node.is_foreground && !was_foreground {
            wake.extend(self.dependents.get(&node.uid).into_iter().flatten().cloned());
        }
        if !node.owners.is_empty() || node.is_foreground || node.is_orphaning {
            wake.insert(node.uid.clone());
        }
        // An owner that waits for dependents may have lost one of them.
        let former = before.iter().flat_map(|it| &it.owners).map(|it| it.uid.clone());
        wake.extend(former.filter(|it| self.nodes.get(it).is_some_and(|it| it.is_foreground)));
        self.nodes.insert(node.uid.clone(), node);
        wake
    }

    /// Takes a node out, and says which uids deserve a look: its dependents, which may have lost
    /// their last owner, and owners that wait for it.
    pub(crate) fn remove(&mut self, uid: &str) -> BTreeSet<String> {
        let Some(node) = self.nodes.remove(uid) else {
            return BTreeSet::new();
        };
        self.unlink(&node);
        let mut wake = self.dependents.get(uid).cloned().unwrap_or_default();
        wake.extend(
            node.owners
                .iter()
                .filter(|it| self.nodes.get(&it.uid).is_some_and(|it| it.is_foreground))
                .map(|it| it.uid.clone()),
        );
        wake
    }

    /// Forgets every object of a resource that is not served any more.
    pub(crate) fn remove_resource(&mut self, resource: &GroupVersionResource) -> BTreeSet<String> {
        let of_it = self.nodes.values().filter(|it| it.resource == *resource);
        let uids: Vec<String> = of_it.map(|it| it.uid.clone()).collect();
        uids.iter().flat_map(|it| self.remove(it)).collect()
    }

    fn unlink(&mut self, node: &Node) {
        for owner in &node.owners {
            if let Some(dependents) = self.dependents.get_mut(&owner.uid) {
                dependents.remove(&node.uid);
                if dependents.is_empty() {
                    self.dependents.remove(&owner.uid);
                }
            }
        }
    }
}
