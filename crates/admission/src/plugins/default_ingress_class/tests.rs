//! Ingress and classes in, the class that it gets out.

use api::networking::Ingress;
use apimachinery::User;
use serde_json::{Value, json};

use super::DefaultIngressClass;
use crate::attributes::Operation;
use crate::plugins::fixture::{Case, Objects, decode};

fn class(name: &str, default: &str, created: &str) -> Value {
    json!({"metadata": {
        "name": name, "creationTimestamp": created,
        "annotations": {"ingressclass.kubernetes.io/is-default-class": default},
    }})
}

fn given(classes: &[Value], ingress: Value) -> Value {
    let add = |all: Objects, it: &Value| all.with("ingressclasses", it);
    let objects = classes.iter().fold(Objects::default(), add);
    let user = User::new("alice", &[]);
    let case = Case::of(Operation::Create, "networking.k8s.io/ingresses", &user);
    let ingress: Ingress = decode(&ingress);
    let made = case.run(DefaultIngressClass, objects, (Some(&ingress), None)).unwrap();
    made["spec"]["ingressClassName"].clone()
}

const OLD: &str = "2024-01-02T03:04:05Z";
const NEW: &str = "2024-01-02T03:04:06Z";

#[test]
fn an_ingress_without_a_class_gets_the_newest_default() {
    let plain = || json!({"spec": {}});
    assert_eq!(given(&[], plain()), Value::Null);
    assert_eq!(given(&[class("a", "false", OLD)], plain()), Value::Null);
    assert_eq!(given(&[class("a", "true", OLD), class("b", "false", NEW)], plain()), "a");
    assert_eq!(given(&[class("a", "true", OLD), class("b", "true", NEW)], plain()), "b");
    assert_eq!(given(&[class("b", "true", OLD), class("a", "true", OLD)], plain()), "a");
}

#[test]
fn an_ingress_that_names_a_class_keeps_it() {
    let classes = [class("a", "true", OLD)];
    assert_eq!(given(&classes, json!({"spec": {"ingressClassName": "own"}})), "own");
    let annotations = json!({"kubernetes.io/ingress.class": "own"});
    let annotated = json!({"metadata": {"annotations": annotations}, "spec": {}});
    assert_eq!(given(&classes, annotated), Value::Null);
}
