//! Operation on a resource in a namespace in, refusal out.

use apimachinery::User;
use serde_json::json;

use super::NamespaceLifecycle;
use crate::attributes::Operation;
use crate::plugins::fixture::{Case, Objects};

fn check(operation: Operation, resource: &str, namespace: &str, name: &str, expected: &str) {
    let namespace_of =
        |name: &str, phase: &str| json!({"metadata": {"name": name}, "status": {"phase": phase}});
    let objects = Objects::default()
        .with("namespaces", &namespace_of("live", "Active"))
        .with("namespaces", &namespace_of("dying", "Terminating"));
    let user = User::new("alice", &[]);
    let case = Case { operation, resource, namespace, name, user: &user };
    let outcome = case.run(NamespaceLifecycle, objects, (None, None));
    let said =
        outcome.map_or_else(|err| format!("{} {}", err.code(), err.message()), |_| "ok".to_owned());
    assert_eq!(said, expected, "{operation:?} {resource} {namespace}/{name}");
}

#[test]
fn content_needs_a_namespace_that_lives() {
    use Operation::{Create, Delete, Update};
    check(Create, "/pods", "live", "web", "ok");
    check(Create, "/pods", "gone", "web", r#"404 namespaces "gone" not found"#);
    check(Update, "/pods", "gone", "web", r#"404 namespaces "gone" not found"#);
    check(Delete, "/pods", "gone", "web", "ok");
    let why = "is forbidden: unable to create new content in namespace dying because it is being terminated";
    check(Create, "/pods", "dying", "web", &format!(r#"403 pods "web" {why}"#));
    check(
        Create,
        "apps/deployments",
        "dying",
        "web",
        &format!(r#"403 deployments.apps "web" {why}"#),
    );
    check(Update, "/pods", "dying", "web", "ok");
    check(Create, "authorization.k8s.io/localsubjectaccessreviews", "gone", "", "ok");
    check(Create, "/nodes", "", "node-1", "ok");
}

#[test]
fn the_first_namespaces_cannot_be_deleted() {
    for name in ["default", "kube-system", "kube-public"] {
        let expected =
            format!("403 namespaces {name:?} is forbidden: this namespace may not be deleted");
        check(Operation::Delete, "/namespaces", name, name, &expected);
    }
    check(Operation::Delete, "/namespaces", "live", "live", "ok");
    check(Operation::Create, "/namespaces", "new", "new", "ok");
}

#[test]
fn a_terminating_namespace_is_named_as_the_cause() {
    let objects = Objects::default().with(
        "namespaces",
        &json!({"metadata": {"name": "x"}, "status": {"phase": "Terminating"}}),
    );
    let user = User::new("alice", &[]);
    let case = Case {
        operation: Operation::Create,
        resource: "/pods",
        namespace: "x",
        name: "web",
        user: &user,
    };
    let err = case.run(NamespaceLifecycle, objects, (None, None)).unwrap_err();
    let cause = err.details().unwrap().causes.as_ref().unwrap()[0].clone();
    assert_eq!(cause.reason.as_deref(), Some("NamespaceTerminating"));
}
