//! Nobody grants what they do not have: the check on writes of roles and bindings.
//!
//! The verbs `escalate` (on roles) and `bind` (on the role a binding names) lift it.

use api::ApiObject;
use api::rbac::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use apimachinery::{ApiError, GroupResource, User};
use k8s_openapi::api::rbac::v1::{PolicyRule, RoleRef};

use crate::attributes::Attributes;
use crate::authorizer::{Authorizer, GROUP_MASTERS};
use crate::rbac::{GROUP, Rbac};
use crate::rule;

/// What of `wanted` no rule in `held` gives, in single-verb pieces. Empty: it may be granted.
pub fn missing(held: &[PolicyRule], wanted: &[PolicyRule]) -> Vec<PolicyRule> {
    let mut missing: Vec<PolicyRule> = Vec::new();
    for atom in wanted.iter().flat_map(rule::atoms) {
        if !rule::is_covered(&atom, held) && !missing.contains(&atom) {
            missing.push(atom);
        }
    }
    missing
}

/// A write of a role or a binding, as the check sees it.
enum Grant {
    Rules(Vec<PolicyRule>),
    Role(RoleRef),
}

/// Refuses a role or binding that would grant more than `user` has. Other resources pass. `old` is the stored object on
/// updates: a write that grants nothing new passes.
pub fn check(
    authorizer: &Authorizer,
    user: &User,
    resource: &GroupResource,
    object: &dyn ApiObject,
    old: Option<&dyn ApiObject>,
) -> Result<(), ApiError> {
    if resource.group != GROUP || user.is_in(GROUP_MASTERS) {
        return Ok(());
    }
    let Some(grant) = grant_of(object) else { return Ok(()) };
    let meta = object.meta();
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    let name = meta.name.as_deref().unwrap_or_default();
    let wanted = match grant {
        Grant::Rules(rules) => {
            let is_unchanged =
                matches!(old.and_then(grant_of), Some(Grant::Rules(stored)) if stored == rules);
            let escalate = Attributes::resource("escalate", GROUP, &resource.resource);
            if is_unchanged
                || authorizer.decide(user, &escalate.within(namespace, name)).is_allowed()
            {
                return Ok(());
            }
            rules
        }
        Grant::Role(role) => {
            let roles = if role.kind == "Role" { "roles" } else { "clusterroles" };
            let bind = Attributes::resource("bind", GROUP, roles).within(namespace, &role.name);
            if authorizer.decide(user, &bind).is_allowed() {
                return Ok(());
            }
            rules_of(authorizer.rbac(), &role, namespace)?
        }
    };
    let missing = missing(&authorizer.rules_for(user, namespace).rules, &wanted);
    if missing.is_empty() {
        return Ok(());
    }
    Err(ApiError::forbidden(resource, name, &refusal(user, &missing)))
}

fn grant_of(object: &dyn ApiObject) -> Option<Grant> {
    if let Some(it) = object.downcast_ref::<Role>() {
        return Some(Grant::Rules(it.rules.clone().unwrap_or_default()));
    }
    if let Some(it) = object.downcast_ref::<ClusterRole>() {
        return Some(Grant::Rules(it.rules.clone().unwrap_or_default()));
    }
    if let Some(it) = object.downcast_ref::<RoleBinding>() {
        return Some(Grant::Role(it.role_ref.clone()));
    }
    object.downcast_ref::<ClusterRoleBinding>().map(|it| Grant::Role(it.role_ref.clone()))
}

fn rules_of(rbac: &Rbac, role: &RoleRef, namespace: &str) -> Result<Vec<PolicyRule>, ApiError> {
    rbac.rules_of_role(role, namespace).ok_or_else(|| {
        let singular = GroupResource::new(GROUP, role.kind.to_ascii_lowercase());
        ApiError::not_found(&singular, &role.name)
    })
}

fn refusal(user: &User, missing: &[PolicyRule]) -> String {
    let groups: Vec<String> = user.groups.iter().map(|it| format!("{it:?}")).collect();
    let rules: Vec<String> = missing.iter().map(rule::render).collect();
    format!(
        "user {:?} (groups=[{}]) is attempting to grant RBAC permissions not currently held:\n{}",
        user.name,
        groups.join(" "),
        rules.join("\n")
    )
}
