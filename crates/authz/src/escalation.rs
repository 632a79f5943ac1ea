//! Nobody grants what they do not have: the check on writes of roles and bindings.
//!
//! The verbs `escalate` (on roles) and `bind` (on the role a binding names) lift it.

use api::ApiObject;
use api::rbac::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use apimachinery::{ApiError, GroupResource, User};
use k8s_openapi::api::rbac::v1::{PolicyRule, RoleRef};

use crate::attributes::Attributes;
use crate::authorizer::{Authorizer, GROUP_MASTERS, everything};
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
        let mut rules = it.rules.clone().unwrap_or_default();
        if it.aggregation_rule.is_some() {
            // It takes in the rules of roles that others will write: only who holds everything may let it.
            rules.extend(everything());
        }
        return Some(Grant::Rules(rules));
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use api::rbac::{ClusterRole, RoleBinding};
    use api::{ApiObject, Lookup, Resource, Stored};
    use apimachinery::{GroupResource, ObjectKey, User};
    use serde_json::{Value, json};

    use crate::rbac::{GROUP, Rbac};
    use crate::{Authorizer, NodeAuthorizer};

    struct Nothing;

    impl Lookup for Nothing {
        fn find(&self, _: &GroupResource, _: &ObjectKey) -> Option<Arc<Stored>> {
            None
        }

        fn list(&self, _: &GroupResource, _: Option<&str>) -> Vec<Arc<Stored>> {
            Vec::new()
        }
    }

    /// alice may read pods; bob may do nothing but bind the role that does.
    fn authorizer() -> Authorizer {
        let rbac = Rbac::new();
        let role = |name: &str, rule: &Value| json!({"metadata": {"name": name}, "rules": [rule]});
        let bind = |name: &str| {
            json!({"metadata": {"name": name}, "roleRef": {"kind": "ClusterRole", "name": name},
                "subjects": [{"kind": "User", "name": name}]})
        };
        let set = |resource: &str, value: &Value| {
            let name = value["metadata"]["name"].as_str().unwrap();
            let meta = api::Meta { key: ObjectKey::cluster(name), ..api::Meta::default() };
            let stored = Stored::new(meta, value.to_string().into_bytes().into());
            rbac.upsert(&GroupResource::new(GROUP, resource), &stored);
        };
        set("clusterroles", &role("alice", &pods("get")));
        let binding = json!({"apiGroups": [GROUP], "resources": ["clusterroles"],
            "resourceNames": ["alice"], "verbs": ["bind"]});
        set("clusterroles", &role("bob", &binding));
        set("clusterrolebindings", &bind("alice"));
        set("clusterrolebindings", &bind("bob"));
        Authorizer::new(Arc::new(rbac), NodeAuthorizer::new(Arc::new(Nothing)))
    }

    fn pods(verb: &str) -> Value {
        json!({"apiGroups": [""], "resources": ["pods"], "verbs": [verb]})
    }

    fn check<T: Resource>(user: &str, resource: &str, object: &Value, expected: &str) {
        let object = T::decode(object.to_string().as_bytes()).unwrap();
        let resource = GroupResource::new(GROUP, resource);
        let object: &dyn ApiObject = &object;
        let outcome = super::check(&authorizer(), &User::new(user, &[]), &resource, object, None);
        let said = outcome.map_or_else(|err| err.message().to_owned(), |()| "ok".to_owned());
        assert!(said.contains(expected), "{said} has no {expected}");
    }

    #[test]
    fn only_what_is_held_or_may_be_bound_is_granted() {
        let role = |rules: Value| json!({"metadata": {"name": "r"}, "rules": rules});
        check::<ClusterRole>("alice", "clusterroles", &role(json!([pods("get")])), "ok");
        let refusal = "user \"alice\" (groups=[]) is attempting to grant RBAC permissions not currently held:\n\
                       {APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"create\"]}";
        check::<ClusterRole>("alice", "clusterroles", &role(json!([pods("create")])), refusal);
        let mut aggregated = role(json!([]));
        aggregated["aggregationRule"] = json!({"clusterRoleSelectors": []});
        check::<ClusterRole>("alice", "clusterroles", &aggregated, "not currently held");
        let binding = |role: &str| json!({"metadata": {"name": "b", "namespace": "ns"}, "roleRef": {"kind": "ClusterRole", "name": role}});
        check::<RoleBinding>("alice", "rolebindings", &binding("alice"), "ok");
        check::<RoleBinding>("alice", "rolebindings", &binding("bob"), "not currently held");
        check::<RoleBinding>("bob", "rolebindings", &binding("alice"), "ok");
        check::<RoleBinding>("bob", "rolebindings", &binding("none"), "\"none\" not found");
    }
}
