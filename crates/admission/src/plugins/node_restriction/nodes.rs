//! Nodes: a node writes its own, but not what decides which pods come to it, nor what it belongs
//! to.

use std::collections::{BTreeMap, BTreeSet};

use api::core::Node;

use super::{Verdict, unexpected_type};
use crate::attributes::Operation;
use crate::context::Context;

/// Labels of this domain are for administrators, to keep workloads apart by.
const DOMAIN_RESTRICTED: &str = "node-restriction.kubernetes.io";
/// Of the labels in Kubernetes' own domains, those that a kubelet may set.
const LABELS_ALLOWED: &[&str] = &[
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];
const DOMAINS_ALLOWED: &[&str] = &["kubelet.kubernetes.io", "node.kubernetes.io"];
const DOMAINS_OWN: &[&str] = &["kubernetes.io", "k8s.io"];

pub(super) fn validate(node: &str, context: &Context<'_>) -> Verdict {
    let no = |why: String| Err(context.forbidden(&why));
    let requested = context.name();
    if requested != node {
        return no(format!("node {node:?} is not allowed to modify node {requested:?}"));
    }
    let expected = || unexpected_type(context);
    match context.request.operation {
        Operation::Create => {
            let new = context.object_as::<Node>().ok_or_else(expected)?;
            if new.spec.as_ref().is_some_and(|it| it.config_source.is_some()) {
                return no(format!(
                    "node {node:?} is not allowed to create pods with a non-nil configSource"
                ));
            }
            let labels = forbidden_labels(new, &Node::default());
            if !labels.is_empty() {
                return no(format!(
                    "node {node:?} is not allowed to set the following labels: {labels}"
                ));
            }
            Ok(())
        }
        Operation::Update => {
            let new = context.object_as::<Node>().ok_or_else(expected)?;
            let old = context.old_as::<Node>().ok_or_else(expected)?;
            match changed(node, new, old) {
                Some(why) => no(why),
                None => Ok(()),
            }
        }
        Operation::Delete | Operation::Connect => Ok(()),
    }
}

/// What the node changed that it may not.
fn changed(node: &str, new: &Node, old: &Node) -> Option<String> {
    let (spec, before) =
        (new.spec.clone().unwrap_or_default(), old.spec.clone().unwrap_or_default());
    // Kubelets that do not know the field leave it out.
    if spec.config_source.is_some() && spec.config_source != before.config_source {
        return Some(format!(
            "node {node:?} is not allowed to update configSource to a new non-nil configSource"
        ));
    }
    if spec.taints.unwrap_or_default() != before.taints.unwrap_or_default() {
        return Some(format!("node {node:?} is not allowed to modify taints"));
    }
    // Who owns it can have it deleted, and a node that comes back comes without its taints.
    if new.metadata.owner_references.clone().unwrap_or_default()
        != old.metadata.owner_references.clone().unwrap_or_default()
    {
        return Some(format!("node {node:?} is not allowed to modify ownerReferences"));
    }
    let labels = forbidden_labels(new, old);
    (!labels.is_empty()).then(|| format!("is not allowed to modify labels: {labels}"))
}

/// Labels that were added, changed or removed, and are not the node's to touch.
fn forbidden_labels(new: &Node, old: &Node) -> String {
    let none = BTreeMap::new();
    let (new, old) = (
        new.metadata.labels.as_ref().unwrap_or(&none),
        old.metadata.labels.as_ref().unwrap_or(&none),
    );
    let keys: BTreeSet<&String> = new.keys().chain(old.keys()).collect();
    let forbidden = keys.into_iter().filter(|it| new.get(*it) != old.get(*it) && is_forbidden(it));
    forbidden.map(String::as_str).collect::<Vec<_>>().join(", ")
}

fn is_forbidden(label: &str) -> bool {
    let domain = label.split_once('/').map_or("", |(domain, _)| domain);
    let is_in = |parents: &[&str]| {
        parents.iter().any(|parent| {
            domain.strip_suffix(parent).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        })
    };
    is_in(&[DOMAIN_RESTRICTED])
        || (is_in(DOMAINS_OWN) && !LABELS_ALLOWED.contains(&label) && !is_in(DOMAINS_ALLOWED))
}
