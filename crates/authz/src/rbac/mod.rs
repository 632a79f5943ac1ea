//! RBAC over an index by subject: a decision looks only at bindings that name the user or one of
//! its groups.

mod index;
#[cfg(test)]
mod tests;

use std::sync::{PoisonError, RwLock};

use api::rbac::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use api::{Resource, Stored};
use apimachinery::{GroupResource, ObjectKey, User};
use k8s_openapi::api::rbac::v1::{PolicyRule, RoleRef, Subject};

use crate::attributes::Attributes;
use crate::authorizer::Decision;
use crate::rule;
use index::{Binding, Index};

pub const GROUP: &str = "rbac.authorization.k8s.io";

/// Everything a user may do in one namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    pub rules: Vec<PolicyRule>,
    /// More may be allowed than the rules say.
    pub is_incomplete: bool,
    /// Why, for instance a binding to a role that does not exist; else empty.
    pub evaluation_error: String,
}

/// The compiled roles and bindings of the cluster. The API server feeds it from its caches.
#[derive(Default)]
pub struct Rbac {
    index: RwLock<Index>,
}

impl Rbac {
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes in a role or binding, new or changed; other resources are ignored.
    pub fn upsert(&self, resource: &GroupResource, object: &Stored) {
        if resource.group != GROUP {
            return;
        }
        let key = &object.meta.key;
        let bytes = &object.bytes;
        let taken = match resource.resource.as_str() {
            "roles" => Role::decode(bytes).map(|it| self.set_role(key, it.rules)),
            "clusterroles" => ClusterRole::decode(bytes).map(|it| self.set_role(key, it.rules)),
            "rolebindings" => {
                RoleBinding::decode(bytes).map(|it| self.set_binding(key, it.role_ref, it.subjects))
            }
            "clusterrolebindings" => ClusterRoleBinding::decode(bytes)
                .map(|it| self.set_binding(key, it.role_ref, it.subjects)),
            _ => return,
        };
        if let Err(err) = taken {
            // Nothing is granted by what cannot be read: the old state of the object goes too.
            tracing::error!(%resource, %key, %err, "cannot read a stored RBAC object");
            self.remove(resource, key);
        }
    }

    pub fn remove(&self, resource: &GroupResource, key: &ObjectKey) {
        if resource.group != GROUP {
            return;
        }
        let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        match resource.resource.as_str() {
            "roles" | "clusterroles" => index.remove_role(key),
            "rolebindings" | "clusterrolebindings" => index.remove_binding(key),
            _ => {}
        }
    }

    fn set_role(&self, key: &ObjectKey, rules: Option<Vec<PolicyRule>>) {
        let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        index.set_role(key, rules.unwrap_or_default());
    }

    fn set_binding(&self, key: &ObjectKey, role: RoleRef, subjects: Option<Vec<Subject>>) {
        let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        index.set_binding(key, Binding::new(key, &role, &subjects.unwrap_or_default()));
    }

    pub fn decide(&self, user: &User, attributes: &Attributes) -> Decision {
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        let mut missing = Vec::new();
        for (key, binding, subject) in index.bindings_of(user, &attributes.namespace) {
            match index.rules_of(binding) {
                Some(rules) if rules.iter().any(|it| rule::allows(it, attributes)) => {
                    return Decision::Allow { reason: binding.allowed_by(key, subject) };
                }
                Some(_) => {}
                None => missing.push(binding.missing_role()),
            }
        }
        Decision::NoOpinion { reason: render_missing(missing) }
    }

    /// The rules that bind `user` in `namespace`, cluster-wide ones first.
    pub fn rules_for(&self, user: &User, namespace: &str) -> Rules {
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        let (mut rules, mut missing) = (Vec::new(), Vec::new());
        for (_, binding, _) in index.bindings_of(user, namespace) {
            match index.rules_of(binding) {
                Some(it) => rules.extend_from_slice(it),
                None => missing.push(binding.missing_role()),
            }
        }
        let is_incomplete = !missing.is_empty();
        Rules { rules, is_incomplete, evaluation_error: render_missing(missing) }
    }

    /// The rules of the role that a binding in `namespace` (empty: cluster-wide) would grant.
    pub fn rules_of_role(&self, role: &RoleRef, namespace: &str) -> Option<Vec<PolicyRule>> {
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        let binding = Binding::new(&ObjectKey::new(namespace, ""), role, &[]);
        index.rules_of(&binding).map(<[PolicyRule]>::to_vec)
    }
}

fn render_missing(mut missing: Vec<String>) -> String {
    missing.dedup();
    match missing.as_slice() {
        [] => String::new(),
        [one] => format!("RBAC: {one}"),
        many => format!("RBAC: [{}]", many.join(", ")),
    }
}
