//! Nobody grants what they do not have: the check on writes of roles and bindings.
//!
//! The verbs `escalate` (on roles) and `bind` (on the role a binding names) lift it.

use api::ApiObject;
use api::rbac::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use apimachinery::{ApiError, GroupResource, User};
use k8s_openapi::api::rbac::v1::{PolicyRule, RoleRef};

use crate::attributes::Attributes;
use crate::authorizer::{Authorizer, GROUP_MASTERS, everything};
use crate::cover;
use crate::rbac::{GROUP, Rbac};

const TOO_MANY: &str = "its rules have too many combinations to be compared with those currently held: \
                        write them as several roles";
const AGGREGATION: &str = "must have cluster-admin privileges to use the aggregationRule";

/// A write of some object, as the check sees it.
pub struct Write<'a> {
    pub user: &'a User,
    pub resource: &'a GroupResource,
    pub namespace: &'a str,
    /// The name in the path: a POST has none.
    pub name: &'a str,
    pub object: &'a dyn ApiObject,
    /// The stored object on updates.
    pub old: Option<&'a dyn ApiObject>,
}

/// Refuses a role or binding that would grant more than the writer has. Other resources pass, and
/// so do updates by which the garbage collector lets an object go. Everything else is looked at
/// anew, also where rules and role stay: a label may bring the rules into another role, a subject
/// to other people.
pub fn validate(authorizer: &Authorizer, write: &Write<'_>) -> Result<(), ApiError> {
    let Write { user, resource, object, old, .. } = write;
    if resource.group != GROUP || user.is_in(GROUP_MASTERS) {
        return Ok(());
    }
    if old.is_some_and(|old| is_release(*object, old)) {
        return Ok(());
    }
    if let Some(role) = object.downcast_ref::<Role>() {
        return validate_role(authorizer, write, role.rules.as_deref(), IsAggregated(false));
    }
    if let Some(role) = object.downcast_ref::<ClusterRole>() {
        let old = old.and_then(|it| it.downcast_ref::<ClusterRole>());
        let is_aggregated = has_aggregation(role) || old.is_some_and(has_aggregation);
        return validate_role(
            authorizer,
            write,
            role.rules.as_deref(),
            IsAggregated(is_aggregated),
        );
    }
    let binding = object.downcast_ref::<RoleBinding>().map(|it| &it.role_ref);
    let binding =
        binding.or_else(|| object.downcast_ref::<ClusterRoleBinding>().map(|it| &it.role_ref));
    binding.map_or(Ok(()), |role| validate_binding(authorizer, write, role))
}

/// Whether only owners and finalizers change, and the record of who wrote what.
fn is_release(object: &dyn ApiObject, old: &dyn ApiObject) -> bool {
    let mut copy = object.clone_box();
    let (meta, before) = (copy.meta_mut(), old.meta());
    meta.owner_references.clone_from(&before.owner_references);
    meta.finalizers.clone_from(&before.finalizers);
    meta.managed_fields.clone_from(&before.managed_fields);
    meta.resource_version.clone_from(&before.resource_version);
    copy.encode() == old.encode()
}

fn has_aggregation(role: &ClusterRole) -> bool {
    let selectors =
        role.aggregation_rule.as_ref().and_then(|it| it.cluster_role_selectors.as_ref());
    selectors.is_some_and(|it| !it.is_empty())
}

struct IsAggregated(bool);

fn validate_role(
    authorizer: &Authorizer,
    write: &Write<'_>,
    rules: Option<&[PolicyRule]>,
    IsAggregated(is_aggregated): IsAggregated,
) -> Result<(), ApiError> {
    let escalate = Attributes::resource("escalate", GROUP, &write.resource.resource)
        .within(write.namespace, write.name);
    if authorizer.decide(write.user, &escalate).is_allowed() {
        return Ok(());
    }
    validate_held(authorizer, write, rules.unwrap_or_default())?;
    // It takes in the rules of roles that others will write: only who holds everything may let it,
    // or stop it.
    if is_aggregated && validate_held(authorizer, write, &everything()).is_err() {
        return Err(ApiError::forbidden(write.resource, name_of(write), AGGREGATION));
    }
    Ok(())
}

fn validate_binding(
    authorizer: &Authorizer,
    write: &Write<'_>,
    role: &RoleRef,
) -> Result<(), ApiError> {
    let roles = if role.kind == "Role" { "roles" } else { "clusterroles" };
    let bind = Attributes::resource("bind", GROUP, roles).within(write.namespace, &role.name);
    if authorizer.decide(write.user, &bind).is_allowed() {
        return Ok(());
    }
    validate_held(authorizer, write, &rules_of(authorizer.rbac(), role, write.namespace)?)
}

fn name_of<'a>(write: &'a Write<'_>) -> &'a str {
    write.object.meta().name.as_deref().unwrap_or_default()
}

fn validate_held(
    authorizer: &Authorizer,
    write: &Write<'_>,
    wanted: &[PolicyRule],
) -> Result<(), ApiError> {
    let held = authorizer.rules_for(write.user, write.namespace).rules;
    let why = match cover::missing(&held, wanted) {
        Ok(None) => return Ok(()),
        Ok(Some(missing)) => refusal(write.user, &missing),
        Err(cover::TooMany) => TOO_MANY.to_owned(),
    };
    Err(ApiError::forbidden(write.resource, name_of(write), &why))
}

fn rules_of(rbac: &Rbac, role: &RoleRef, namespace: &str) -> Result<Vec<PolicyRule>, ApiError> {
    rbac.rules_of_role(role, namespace).ok_or_else(|| {
        let singular = GroupResource::new(GROUP, role.kind.to_ascii_lowercase());
        ApiError::not_found(&singular, &role.name)
    })
}

fn refusal(user: &User, missing: &cover::Missing) -> String {
    let groups: Vec<String> = user.groups.iter().map(|it| format!("{it:?}")).collect();
    let more = if missing.has_more { "\n..." } else { "" };
    format!(
        "user {:?} (groups=[{}]) is attempting to grant RBAC permissions not currently held:\n{}{more}",
        user.name,
        groups.join(" "),
        missing.lines.join("\n")
    )
}

#[cfg(test)]
mod tests;
