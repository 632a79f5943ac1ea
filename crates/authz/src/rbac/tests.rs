//! Objects and a request in, decision out; and the index against a scan of every binding.

use std::collections::BTreeMap;

use api::{Meta, Stored};
use apimachinery::{GroupResource, ObjectKey, User};
use k8s_openapi::api::rbac::v1::PolicyRule;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{GROUP, Rbac};
use crate::attributes::Attributes;
use crate::rule;

pub(crate) fn upsert(rbac: &Rbac, resource: &str, value: &Value) {
    let text = |field: &str| value["metadata"][field].as_str().unwrap_or_default().to_owned();
    let key = ObjectKey::new(text("namespace"), text("name"));
    let stored =
        Stored::new(Meta { key, ..Meta::default() }, value.to_string().into_bytes().into());
    rbac.upsert(&GroupResource::new(GROUP, resource), &stored);
}

fn role(namespace: &str, name: &str, rules: &Value) -> Value {
    json!({"metadata": {"namespace": namespace, "name": name}, "rules": rules})
}

fn binding(namespace: &str, name: &str, role: (&str, &str), subjects: &Value) -> Value {
    json!({
        "metadata": {"namespace": namespace, "name": name},
        "roleRef": {"apiGroup": GROUP, "kind": role.0, "name": role.1},
        "subjects": subjects,
    })
}

fn cluster() -> Rbac {
    let rbac = Rbac::new();
    let rule = |verbs: &Value| json!([{"apiGroups": [""], "resources": ["pods"], "verbs": verbs}]);
    upsert(&rbac, "clusterroles", &role("", "reader", &rule(&json!(["get", "list"]))));
    upsert(&rbac, "roles", &role("a", "writer", &rule(&json!(["create"]))));
    let group = json!([{"kind": "Group", "name": "devs"}]);
    upsert(&rbac, "clusterrolebindings", &binding("", "read", ("ClusterRole", "reader"), &group));
    let account = json!([{"kind": "ServiceAccount", "name": "robot", "namespace": "a"}]);
    upsert(&rbac, "rolebindings", &binding("a", "write", ("Role", "writer"), &account));
    let carol = json!([{"kind": "User", "name": "carol"}]);
    upsert(&rbac, "rolebindings", &binding("a", "read", ("ClusterRole", "reader"), &carol));
    upsert(&rbac, "clusterrolebindings", &binding("", "lost", ("ClusterRole", "none"), &carol));
    rbac
}

fn check(user: &str, groups: &[&str], (verb, namespace): (&str, &str), expected: &str) {
    let attributes = Attributes::resource(verb, "", "pods").within(namespace, "");
    let decision = cluster().decide(&User::new(user, groups), &attributes);
    let said = if decision.is_allowed() { "yes" } else { "no" };
    assert_eq!(format!("{said} {}", decision.reason()), expected, "{user} {verb} {namespace}");
}

#[test]
fn a_binding_gives_its_role_in_its_namespace_to_those_it_names() {
    let by_read =
        r#"yes RBAC: allowed by ClusterRoleBinding "read" of ClusterRole "reader" to Group "devs""#;
    check("dave", &["devs"], ("get", "a"), by_read);
    check("dave", &["devs"], ("list", ""), by_read);
    check("dave", &["devs"], ("create", "a"), "no ");
    check("eve", &[], ("get", "a"), "no ");
    let robot = "system:serviceaccount:a:robot";
    let by_write = r#"yes RBAC: allowed by RoleBinding "write/a" of Role "writer" to ServiceAccount "robot/a""#;
    check(robot, &[], ("create", "a"), by_write);
    check(robot, &[], ("create", "b"), "no ");
    let by_role =
        r#"yes RBAC: allowed by RoleBinding "read/a" of ClusterRole "reader" to User "carol""#;
    check("carol", &[], ("get", "a"), by_role);
    let lost = r#"no RBAC: clusterrole.rbac.authorization.k8s.io "none" not found"#;
    check("carol", &[], ("get", "b"), lost);
    check("carol", &[], ("get", ""), lost);
}

#[test]
fn what_is_removed_grants_nothing() {
    let rbac = cluster();
    let attributes = Attributes::resource("get", "", "pods");
    let dave = User::new("dave", &["devs"]);
    assert!(rbac.decide(&dave, &attributes).is_allowed());
    rbac.remove(&GroupResource::new(GROUP, "clusterrolebindings"), &ObjectKey::cluster("read"));
    assert!(!rbac.decide(&dave, &attributes).is_allowed());
}

fn allows(rule: &Value, attributes: &Attributes, expected: bool) {
    let rule: PolicyRule = serde_json::from_value(rule.clone()).unwrap();
    assert_eq!(rule::allows(&rule, attributes), expected, "{rule:?} {attributes:?}");
}

#[test]
fn stars_names_subresources_and_paths_match_as_written() {
    let resource =
        |list: &[&str]| json!({"apiGroups": ["apps"], "resources": list, "verbs": ["get"]});
    let get = |of: &str| Attributes::resource("get", "apps", of);
    allows(&resource(&["deployments"]), &get("deployments"), true);
    allows(&resource(&["deployments"]), &get("deployments/scale"), false);
    allows(&resource(&["deployments/scale"]), &get("deployments/scale"), true);
    allows(&resource(&["*/scale"]), &get("deployments/scale"), true);
    allows(&resource(&["*/scale"]), &get("deployments"), false);
    allows(&resource(&["*"]), &get("deployments/scale"), true);
    let mut named = resource(&["deployments"]);
    named["resourceNames"] = json!(["web"]);
    allows(&named, &get("deployments").within("ns", "web"), true);
    allows(&named, &get("deployments").within("ns", "db"), false);
    allows(&named, &get("deployments"), false);
    let paths = |list: &[&str]| json!({"nonResourceURLs": list, "verbs": ["get"]});
    allows(&paths(&["/healthz"]), &Attributes::path("get", "/healthz"), true);
    allows(&paths(&["/healthz"]), &Attributes::path("get", "/healthz/ping"), false);
    allows(&paths(&["/healthz/*"]), &Attributes::path("get", "/healthz/ping"), true);
    allows(&paths(&["*"]), &Attributes::path("get", "/x"), true);
    allows(&paths(&["*"]), &Attributes::path("put", "/x"), false);
    allows(&paths(&["*"]), &get("deployments"), false);
}

/// One change to the cluster, from small sets of names so that they meet.
#[derive(Clone, Debug)]
enum Change {
    SetRole { namespace: usize, name: usize, verb: usize },
    RemoveRole { namespace: usize, name: usize },
    Bind { namespace: usize, name: usize, role: (bool, usize), subjects: Vec<(usize, usize)> },
    Unbind { namespace: usize, name: usize },
}

const NAMESPACES: [&str; 3] = ["", "a", "b"];
const VERBS: [&str; 3] = ["get", "create", "*"];
const SUBJECTS: [&str; 3] = ["User", "Group", "ServiceAccount"];

fn change() -> impl Strategy<Value = Change> {
    let at = || (0..3usize, 0..3usize);
    let subjects = proptest::collection::vec((0..3usize, 0..3usize), 0..3);
    prop_oneof![
        (at(), 0..3usize).prop_map(|((namespace, name), verb)| Change::SetRole {
            namespace,
            name,
            verb
        }),
        at().prop_map(|(namespace, name)| Change::RemoveRole { namespace, name }),
        (at(), (any::<bool>(), 0..3usize), subjects).prop_map(
            |((namespace, name), role, subjects)| {
                Change::Bind { namespace, name, role, subjects }
            }
        ),
        at().prop_map(|(namespace, name)| Change::Unbind { namespace, name }),
    ]
}

type Keyed = BTreeMap<(String, String), Value>;

/// Applies a change to the index and to plain maps of objects.
fn apply(rbac: &Rbac, roles: &mut Keyed, bindings: &mut Keyed, change: &Change) {
    let key = |ns: usize, name: usize| (NAMESPACES[ns].to_owned(), format!("o{name}"));
    let plural =
        |kind: &str, ns: usize| if ns == 0 { format!("cluster{kind}") } else { kind.to_owned() };
    match change {
        Change::SetRole { namespace, name, verb } => {
            let key = key(*namespace, *name);
            let rules =
                json!([{"apiGroups": [""], "resources": ["pods"], "verbs": [VERBS[*verb]]}]);
            let value = role(&key.0, &key.1, &rules);
            upsert(rbac, &plural("roles", *namespace), &value);
            roles.insert(key, value);
        }
        Change::Bind { namespace, name, role, subjects } => {
            let key = key(*namespace, *name);
            let kind = if role.0 && *namespace > 0 { "Role" } else { "ClusterRole" };
            let subjects: Vec<Value> = subjects
                .iter()
                .map(|(kind, name)| json!({"kind": SUBJECTS[*kind], "name": format!("s{name}"), "namespace": "a"}))
                .collect();
            let value = binding(&key.0, &key.1, (kind, &format!("o{}", role.1)), &json!(subjects));
            upsert(rbac, &plural("rolebindings", *namespace), &value);
            bindings.insert(key, value);
        }
        Change::RemoveRole { namespace, name } => {
            let key = key(*namespace, *name);
            let resource = GroupResource::new(GROUP, plural("roles", *namespace));
            rbac.remove(&resource, &ObjectKey::new(key.0.as_str(), key.1.as_str()));
            roles.remove(&key);
        }
        Change::Unbind { namespace, name } => {
            let key = key(*namespace, *name);
            let resource = GroupResource::new(GROUP, plural("rolebindings", *namespace));
            rbac.remove(&resource, &ObjectKey::new(key.0.as_str(), key.1.as_str()));
            bindings.remove(&key);
        }
    }
}

fn names(subject: &Value, user: &User) -> bool {
    let name = subject["name"].as_str().unwrap();
    match subject["kind"].as_str().unwrap() {
        "User" => user.name == name,
        "Group" => user.is_in(name),
        _ => user.name == format!("system:serviceaccount:a:{name}"),
    }
}

fn scan(roles: &Keyed, bindings: &Keyed, user: &User, attributes: &Attributes) -> bool {
    bindings.iter().any(|((namespace, _), binding)| {
        let holds = namespace.is_empty() || *namespace == attributes.namespace;
        let named = binding["subjects"].as_array().unwrap().iter().any(|it| names(it, user));
        let is_role = binding["roleRef"]["kind"] == "Role";
        let home = if is_role { namespace.clone() } else { String::new() };
        let role = roles.get(&(home, binding["roleRef"]["name"].as_str().unwrap().to_owned()));
        let rules: Vec<PolicyRule> =
            role.map(|it| serde_json::from_value(it["rules"].clone()).unwrap()).unwrap_or_default();
        holds && named && rules.iter().any(|it| rule::allows(it, attributes))
    })
}

proptest! {
    #[test]
    fn the_index_decides_as_a_scan_of_every_binding_does(changes in proptest::collection::vec(change(), 0..40)) {
        let (rbac, mut roles, mut bindings) = (Rbac::new(), Keyed::new(), Keyed::new());
        for it in &changes {
            apply(&rbac, &mut roles, &mut bindings, it);
        }
        let users = [
            User::new("s0", &["s1"]),
            User::new("s2", &[]),
            User::new("system:serviceaccount:a:s0", &["s2", "s0"]),
        ];
        for user in &users {
            for (namespace, verb) in NAMESPACES.iter().flat_map(|ns| ["get", "create"].map(|it| (ns, it))) {
                let attributes = Attributes::resource(verb, "", "pods").within(namespace, "");
                let expected = scan(&roles, &bindings, user, &attributes);
                prop_assert_eq!(rbac.decide(user, &attributes).is_allowed(), expected);
            }
        }
    }
}
