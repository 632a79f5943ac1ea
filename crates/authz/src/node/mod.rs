//! The Node authorizer: a node may touch its own Node, its own Lease, its pods, and what those pods
//! refer to.
//!
//! It sees only the name in the path. What is in an object that a node writes, the admission plugin
//! NodeRestriction looks at: each allows some things because the other refuses them. `tests.rs` has
//! both as one table.

mod objects;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::Lookup;
use apimachinery::User;
use features::Gates;
use k8s_openapi::api::rbac::v1::PolicyRule;

use crate::attributes::Attributes;
use crate::authorizer::Decision;
use crate::bootstrap;
use crate::rule;
use objects::{Object, Pods};

const GROUP_NODES: &str = "system:nodes";
const USER_PREFIX: &str = "system:node:";
const NAMESPACE_LEASES: &str = "kube-node-lease";

pub struct NodeAuthorizer {
    pods: Pods,
    /// Of the bootstrap role `system:node`; they hold for what is the same for all nodes.
    rules: Vec<PolicyRule>,
}

/// `Err` says why not; mostly nothing is said.
type Verdict = Result<(), String>;

fn no(why: &str) -> Verdict {
    Err(why.to_owned())
}

impl NodeAuthorizer {
    pub fn new(lookup: Arc<dyn Lookup>, gates: &Gates) -> Self {
        let roles = bootstrap::objects(gates).cluster_roles.into_iter();
        let rules = roles
            .filter(|it| it.metadata.name.as_deref() == Some("system:node"))
            .flat_map(|it| it.rules.unwrap_or_default())
            .collect();
        Self { pods: Pods::new(lookup), rules }
    }

    /// The node that `user` is the identity of; empty if it is that of no node in particular.
    pub fn node_of(user: &User) -> Option<&str> {
        user.name.strip_prefix(USER_PREFIX).filter(|_| user.is_in(GROUP_NODES))
    }

    pub fn decide(&self, user: &User, attributes: &Attributes) -> Decision {
        let verdict = match Self::node_of(user) {
            None => no(""),
            Some("") => Err(format!("unknown node for user {:?}", user.name)),
            Some(node) => self.judge(node, attributes),
        };
        match verdict {
            Ok(()) => Decision::Allow { reason: String::new() },
            Err(reason) => Decision::NoOpinion { reason },
        }
    }

    fn judge(&self, node: &str, attributes: &Attributes) -> Verdict {
        let resource = (attributes.group.as_str(), attributes.resource.as_str());
        match resource {
            _ if !attributes.is_resource => self.uniform(attributes),
            ("", "nodes") => own_node(node, attributes),
            ("", "pods") => self.own_pod(node, attributes),
            ("", "secrets") => self.read(node, attributes, Object::Secret),
            ("", "configmaps") => self.read(node, attributes, Object::ConfigMap),
            ("", "serviceaccounts") => self.own_account(node, attributes),
            ("", "persistentvolumeclaims") if attributes.subresource == "status" => {
                match attributes.verb.as_str() {
                    "update" | "patch" => self.related(node, attributes, Object::Claim),
                    _ => no("can only get/update/patch this type"),
                }
            }
            ("", "persistentvolumeclaims") => self.get(node, attributes, Object::Claim),
            ("", "persistentvolumes") => self.get(node, attributes, Object::Volume),
            ("storage.k8s.io", "volumeattachments") => {
                self.get(node, attributes, Object::Attachment)
            }
            ("resource.k8s.io", "resourceclaims") => {
                self.get(node, attributes, Object::ResourceClaim)
            }
            ("coordination.k8s.io", "leases") => own_lease(node, attributes),
            ("storage.k8s.io", "csinodes") => own_csi_node(node, attributes),
            ("resource.k8s.io", "resourceslices") => self.own_slice(node, attributes),
            ("certificates.k8s.io", "podcertificaterequests") => {
                self.own_certificate_request(node, attributes)
            }
            _ => self.uniform(attributes),
        }
    }

    /// What every node may do.
    fn uniform(&self, attributes: &Attributes) -> Verdict {
        if self.rules.iter().any(|it| rule::allows(it, attributes)) { Ok(()) } else { no("") }
    }

    fn related(&self, node: &str, attributes: &Attributes, object: Object) -> Verdict {
        let Attributes { namespace, name, .. } = attributes;
        if name.is_empty() {
            return no("No Object name found");
        }
        if self.pods.relate(node, object, namespace, name) {
            return Ok(());
        }
        Err(format!("no relationship found between node '{node}' and this object"))
    }

    fn get(&self, node: &str, attributes: &Attributes, object: Object) -> Verdict {
        if attributes.verb != "get" {
            return no("can only get individual resources of this type");
        }
        if !attributes.subresource.is_empty() {
            return no("cannot get subresource");
        }
        self.related(node, attributes, object)
    }

    fn read(&self, node: &str, attributes: &Attributes, object: Object) -> Verdict {
        if !matches!(attributes.verb.as_str(), "get" | "list" | "watch") {
            return no("can only read resources of this type");
        }
        if !attributes.subresource.is_empty() {
            return no("cannot read subresource");
        }
        if attributes.namespace.is_empty() {
            return no("can only read namespaced object of this type");
        }
        self.related(node, attributes, object)
    }

    fn own_account(&self, node: &str, attributes: &Attributes) -> Verdict {
        let Attributes { verb, name, subresource, .. } = attributes;
        if verb == "get" && subresource.is_empty() {
            return self.read(node, attributes, Object::ServiceAccount);
        }
        if verb != "create" || name.is_empty() {
            return no("can only create tokens for individual service accounts");
        }
        if subresource != "token" {
            return no("can only create token subresource of serviceaccount");
        }
        self.related(node, attributes, Object::ServiceAccount)
    }

    /// Pods that a node creates, deletes, evicts or reports on are looked at by NodeRestriction.
    fn own_pod(&self, node: &str, attributes: &Attributes) -> Verdict {
        match (attributes.subresource.as_str(), attributes.verb.as_str()) {
            ("", "get") => self.get(node, attributes, Object::Pod),
            ("", "list" | "watch") if attributes.is_selected_by("spec.nodeName", node) => Ok(()),
            ("", "list" | "watch") if attributes.name.is_empty() => {
                no("can only list/watch pods with spec.nodeName field selector")
            }
            ("", "list" | "watch") => self.related(node, attributes, Object::Pod),
            ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => {
                Ok(())
            }
            _ => no(""),
        }
    }

    fn own_slice(&self, node: &str, attributes: &Attributes) -> Verdict {
        if !attributes.subresource.is_empty() {
            return no("cannot authorize ResourceSlice subresources");
        }
        match attributes.verb.as_str() {
            "create" => Ok(()),
            "get" | "update" | "patch" | "delete" => {
                self.related(node, attributes, Object::ResourceSlice)
            }
            "watch" | "list" | "deletecollection" => {
                if attributes.is_selected_by("spec.nodeName", node) {
                    return Ok(());
                }
                no(
                    "can only list/watch/deletecollection resourceslices with nodeName field selector",
                )
            }
            _ => no(
                "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, \
                     update, patch, delete, deletecollection",
            ),
        }
    }

    fn own_certificate_request(&self, node: &str, attributes: &Attributes) -> Verdict {
        if !attributes.subresource.is_empty() {
            return no("nodes may not access the status subresource of PodCertificateRequests");
        }
        match attributes.verb.as_str() {
            "create" => Ok(()),
            "get" => self.related(node, attributes, Object::CertificateRequest),
            "list" | "watch" => {
                if attributes.is_selected_by("spec.nodeName", node) {
                    return Ok(());
                }
                no("can only list/watch podcertificaterequests with nodeName field selector")
            }
            verb => Err(format!("nodes may not {verb} podcertificaterequests")),
        }
    }
}

/// The name of a node that is written is looked at by NodeRestriction.
fn own_node(node: &str, attributes: &Attributes) -> Verdict {
    match (attributes.subresource.as_str(), attributes.verb.as_str()) {
        ("", "create" | "update" | "patch") | ("status", "update" | "patch") => Ok(()),
        ("", "get" | "list" | "watch") => match attributes.name.as_str() {
            name if name == node => Ok(()),
            "" => Err(format!("node '{node}' cannot read all nodes, only its own Node object")),
            name => Err(format!("node '{node}' cannot read '{name}', only its own Node object")),
        },
        _ => no(""),
    }
}

fn own_lease(node: &str, attributes: &Attributes) -> Verdict {
    let Attributes { verb, namespace, name, .. } = attributes;
    if !matches!(verb.as_str(), "get" | "create" | "update" | "patch" | "delete") {
        return no("can only get, create, update, patch, or delete a node lease");
    }
    if namespace != NAMESPACE_LEASES {
        return Err(format!("can only access leases in the {NAMESPACE_LEASES:?} system namespace"));
    }
    if verb != "create" && name != node {
        return no("can only access node lease with the same name as the requesting node");
    }
    Ok(())
}

fn own_csi_node(node: &str, attributes: &Attributes) -> Verdict {
    let Attributes { verb, subresource, name, .. } = attributes;
    if !subresource.is_empty() {
        return no("cannot authorize CSINode subresources");
    }
    if !matches!(verb.as_str(), "get" | "create" | "update" | "patch" | "delete") {
        return no("can only get, create, update, patch, or delete a CSINode");
    }
    if verb != "create" && name != node {
        return no("can only access CSINode with the same name as the requesting node");
    }
    Ok(())
}
