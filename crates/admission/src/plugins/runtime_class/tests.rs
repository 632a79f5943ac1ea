//! Pod spec and class in, pod spec or refusal out.

use api::core::Pod;
use apimachinery::User;
use serde_json::{Value, json};

use super::RuntimeClasses;
use crate::attributes::Operation;
use crate::plugins::fixture::{Case, Objects, create_pod, decode, pod};

fn class(fields: Value) -> Objects {
    let mut class = json!({"metadata": {"name": "sandboxed"}, "handler": "sandboxed"});
    class.as_object_mut().unwrap().extend(fields.as_object().cloned().unwrap_or_default());
    Objects::default().with("runtimeclasses", &class)
}

fn spec(fields: Value) -> Value {
    let mut spec = json!({"containers": [], "runtimeClassName": "sandboxed"});
    spec.as_object_mut().unwrap().extend(fields.as_object().cloned().unwrap_or_default());
    spec
}

fn made(class_fields: Value, fields: Value) -> Value {
    create_pod(RuntimeClasses, class(class_fields), &spec(fields)).unwrap()
}

fn refused(objects: Objects, spec: Value) -> String {
    create_pod(RuntimeClasses, objects, &spec).unwrap_err().message().to_owned()
}

fn cpu(amount: &str) -> Value {
    json!({"cpu": amount})
}

#[test]
fn a_class_is_there() {
    assert!(create_pod(RuntimeClasses, Objects::default(), &json!({"containers": []})).is_ok());
    assert_eq!(
        refused(Objects::default(), spec(json!({}))),
        "pods \"web\" is forbidden: pod rejected: RuntimeClass \"sandboxed\" not found"
    );
}

#[test]
fn a_pod_costs_what_its_class_costs() {
    let costly = || json!({"overhead": {"podFixed": cpu("100m")}});
    assert_eq!(made(costly(), json!({}))["overhead"], cpu("100m"));
    // The same amount in another form.
    assert_eq!(made(costly(), json!({"overhead": cpu("0.1")}))["overhead"], cpu("100m"));
    let other = "pods \"web\" is forbidden: pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";
    assert_eq!(refused(class(costly()), spec(json!({"overhead": cpu("1")}))), other);
    let alone = "pods \"web\" is forbidden: pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
    assert_eq!(refused(class(json!({})), spec(json!({"overhead": cpu("1")}))), alone);
    let bare = json!({"containers": [], "overhead": cpu("1")});
    assert_eq!(refused(Objects::default(), bare), alone);
}

#[test]
fn what_somebody_else_made_of_the_overhead_is_refused() {
    let user = User::new("alice", &[]);
    let case = Case::of(Operation::Create, "/pods", &user);
    let costly = class(json!({"overhead": {"podFixed": cpu("100m")}}));
    let object: Pod = decode(&pod(&spec(json!({}))));
    let refusal = case.validate(&RuntimeClasses, costly, &object).unwrap_err();
    assert!(refusal.message().ends_with("doesn't match RuntimeClass's defined Overhead"));
}

#[test]
fn a_pod_runs_where_its_class_is() {
    let placed = json!({"scheduling": {
        "nodeSelector": {"runtime": "sandboxed"},
        "tolerations": [{"key": "runtime", "operator": "Exists", "effect": "NoSchedule"}],
    }});
    let made = |fields: Value| made(placed.clone(), fields);
    let both = json!({"runtime": "sandboxed", "zone": "a"});
    assert_eq!(made(json!({"nodeSelector": {"zone": "a"}}))["nodeSelector"], both);
    assert_eq!(made(json!({}))["tolerations"], placed["scheduling"]["tolerations"]);
    // One that the class's includes is no more.
    let own = json!([
        {"key": "runtime", "operator": "Equal", "value": "a", "effect": "NoSchedule"},
        {"key": "zone", "operator": "Exists"},
    ]);
    assert_eq!(
        made(json!({"tolerations": own}))["tolerations"],
        json!([own[1], placed["scheduling"]["tolerations"][0]])
    );
    assert_eq!(
        refused(class(placed.clone()), spec(json!({"nodeSelector": {"runtime": "bare"}}))),
        "pods \"web\" is forbidden: conflict: runtimeClass.scheduling.nodeSelector[runtime] = sandboxed; pod.spec.nodeSelector[runtime] = bare"
    );
}

#[test]
fn a_toleration_includes_others_for_as_long_as_it_lasts() {
    let timed = |seconds: Value| json!({"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds});
    let merged = |own: Value, of_class: Value| {
        let placed = json!({"scheduling": {"tolerations": of_class}});
        made(placed, json!({"tolerations": own}))["tolerations"].clone()
    };
    let (short, long) = (timed(json!(5)), timed(json!(9)));
    assert_eq!(merged(json!([short]), json!([long])), json!([long]));
    assert_eq!(merged(json!([long]), json!([short])), json!([long]));
    let all = json!({"operator": "Exists"});
    assert_eq!(merged(json!([short]), json!([all])), json!([all]));
    assert_eq!(merged(json!([short]), json!([short])), json!([short]));
}
