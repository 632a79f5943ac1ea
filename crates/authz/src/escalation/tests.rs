//! Who writes what over what in, refusal out.

use std::sync::Arc;

use api::rbac::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use api::{ApiObject, Lookup, Resource, Stored};
use apimachinery::{GroupResource, ObjectKey, User};
use serde_json::{Value, json};

use super::Write;
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

/// alice may read pods; bob may do nothing but bind the role that does; carol may write every role
/// called `r`; the root may do everything that RBAC can give.
fn authorizer() -> Authorizer {
    let rbac = Rbac::new();
    let set = |resource: &str, value: &Value| {
        let name = value["metadata"]["name"].as_str().unwrap();
        let meta = api::Meta { key: ObjectKey::cluster(name), ..api::Meta::default() };
        let stored = Stored::new(meta, value.to_string().into_bytes().into());
        rbac.upsert(&GroupResource::new(GROUP, resource), &stored);
    };
    let named = |verb: &str, name: &str| {
        json!({"apiGroups": [GROUP], "resources": ["clusterroles", "roles"],
            "resourceNames": [name], "verbs": [verb]})
    };
    let everything = json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]});
    let paths = json!({"nonResourceURLs": ["*"], "verbs": ["*"]});
    let given = [
        ("alice", json!([pods("get")])),
        ("bob", json!([named("bind", "alice")])),
        ("carol", json!([named("escalate", "r")])),
        ("root", json!([everything, paths])),
    ];
    for (name, rules) in given {
        set("clusterroles", &json!({"metadata": {"name": name}, "rules": rules}));
        set(
            "clusterrolebindings",
            &json!({"metadata": {"name": name}, "roleRef": {"kind": "ClusterRole", "name": name},
                "subjects": [{"kind": "User", "name": name}]}),
        );
    }
    Authorizer::new(
        Arc::new(rbac),
        NodeAuthorizer::new(Arc::new(Nothing), &features::Gates::default()),
    )
}

fn pods(verb: &str) -> Value {
    json!({"apiGroups": [""], "resources": ["pods"], "verbs": [verb]})
}

/// `name` is that of the path, empty in a POST.
fn check<T: Resource>(
    (user, name): (&str, &str),
    object: &Value,
    old: Option<&Value>,
    expected: &str,
) {
    let decode = |value: &Value| T::decode(value.to_string().as_bytes()).unwrap();
    let (new, old) = (decode(object), old.map(decode));
    let write = Write {
        user: &User::new(user, &[]),
        resource: &GroupResource::new(GROUP, T::FACTS.plural),
        namespace: object["metadata"]["namespace"].as_str().unwrap_or_default(),
        name,
        object: &new,
        old: old.as_ref().map(|it| it as &dyn ApiObject),
    };
    let outcome = super::validate(&authorizer(), &write);
    let said = outcome.map_or_else(|err| err.message().to_owned(), |()| "ok".to_owned());
    assert!(said.contains(expected), "{user} {object}: {said} has no {expected}");
}

fn role(rules: &Value) -> Value {
    json!({"metadata": {"name": "r"}, "rules": rules})
}

fn with(object: &Value, pointer: &str, value: Value) -> Value {
    let mut object = object.clone();
    object[pointer] = value;
    object
}

const NOT_HELD: &str = "is attempting to grant RBAC permissions not currently held:\n";

#[test]
fn only_what_is_held_is_granted() {
    let refusal = "clusterroles.rbac.authorization.k8s.io \"r\" is forbidden: \
                   user \"alice\" (groups=[]) is attempting to grant RBAC permissions not currently held:\n\
                   {APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"create\"]}";
    check::<ClusterRole>(("alice", ""), &role(&json!([pods("get")])), None, "ok");
    check::<ClusterRole>(("alice", ""), &role(&json!([pods("create")])), None, refusal);
    let within = json!({"metadata": {"name": "r", "namespace": "ns"}, "rules": [pods("create")]});
    check::<Role>(("alice", ""), &within, None, NOT_HELD);
    check::<Role>(("root", ""), &within, None, "ok");
}

#[test]
fn who_may_escalate_needs_nothing_but_the_name_of_the_path() {
    let new = role(&json!([pods("create")]));
    check::<ClusterRole>(("carol", "r"), &new, None, "ok");
    // A POST names nothing, so that a right to one name does not reach it.
    check::<ClusterRole>(("carol", ""), &new, None, NOT_HELD);
    let aggregated = with(&new, "aggregationRule", json!({"clusterRoleSelectors": [{}]}));
    check::<ClusterRole>(("carol", "r"), &aggregated, None, "ok");
}

#[test]
fn aggregation_takes_everything() {
    let refusal = "must have cluster-admin privileges to use the aggregationRule";
    let selector = |value: &str| json!({"clusterRoleSelectors": [{"matchLabels": {"a": value}}]});
    let plain = role(&json!([pods("get")]));
    let one = with(&plain, "aggregationRule", selector("one"));
    let two = with(&plain, "aggregationRule", selector("two"));
    check::<ClusterRole>(("alice", ""), &one, None, refusal);
    check::<ClusterRole>(("root", ""), &one, None, "ok");
    // Whether it is set, changed, taken away or left while something else changes.
    check::<ClusterRole>(("alice", "r"), &one, Some(&plain), refusal);
    check::<ClusterRole>(("alice", "r"), &two, Some(&one), refusal);
    check::<ClusterRole>(("alice", "r"), &plain, Some(&one), refusal);
    let mut labelled = one.clone();
    labelled["metadata"]["labels"] = json!({"x": "y"});
    check::<ClusterRole>(("alice", "r"), &labelled, Some(&one), refusal);
    check::<ClusterRole>(("root", "r"), &two, Some(&one), "ok");
    check::<ClusterRole>(("alice", "r"), &one, Some(&one), "ok");
}

#[test]
fn rules_that_stay_are_asked_for_again_when_anything_else_changes() {
    let strong = role(&json!([pods("delete")]));
    let changes = [
        ("labels", json!({"rbac.authorization.k8s.io/aggregate-to-view": "true"})),
        ("annotations", json!({"a": "b"})),
    ];
    for (field, value) in changes {
        let mut changed = strong.clone();
        changed["metadata"][field] = value;
        check::<ClusterRole>(("alice", "r"), &changed, Some(&strong), NOT_HELD);
        check::<ClusterRole>(("carol", "r"), &changed, Some(&strong), "ok");
    }
    // What garbage collection needs, and no more.
    let mut released = strong.clone();
    released["metadata"]["finalizers"] = json!(["a.b/c"]);
    released["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}]);
    released["metadata"]["managedFields"] = json!([{"manager": "m"}]);
    check::<ClusterRole>(("alice", "r"), &released, Some(&strong), "ok");
    check::<ClusterRole>(("alice", "r"), &strong, Some(&released), "ok");
}

#[test]
fn a_binding_needs_the_rules_or_the_verb_bind() {
    let binding = |role: &str, subject: &str| {
        json!({"metadata": {"name": "b", "namespace": "ns"},
            "roleRef": {"kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "User", "name": subject}]})
    };
    check::<RoleBinding>(("alice", ""), &binding("alice", "x"), None, "ok");
    check::<RoleBinding>(("alice", ""), &binding("bob", "x"), None, NOT_HELD);
    check::<RoleBinding>(("bob", ""), &binding("alice", "x"), None, "ok");
    check::<RoleBinding>(("bob", ""), &binding("none", "x"), None, "\"none\" not found");
    // New subjects get what the role gives.
    let (old, new) = (binding("root", "x"), binding("root", "alice"));
    check::<RoleBinding>(("alice", "b"), &new, Some(&old), NOT_HELD);
    check::<RoleBinding>(("root", "b"), &new, Some(&old), "ok");
    check::<RoleBinding>(("alice", "b"), &old, Some(&old), "ok");
    let wide = |role: &str| json!({"metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": role}});
    check::<ClusterRoleBinding>(("alice", ""), &wide("root"), None, NOT_HELD);
    check::<ClusterRoleBinding>(("bob", ""), &wide("alice"), None, "ok");
}

#[test]
fn rules_that_cannot_be_compared_in_time_are_refused() {
    let many =
        |letter: &str, n: usize| (0..n).map(|it| format!("{letter}{it}")).collect::<Vec<_>>();
    // As many texts as fit into a body: each is looked at once for each rule that is held.
    let rule = json!({"apiGroups": [""], "resources": many("r", 100_000), "verbs": ["get"]});
    check::<ClusterRole>(("alice", ""), &role(&json!([rule])), None, "too many combinations");
}
