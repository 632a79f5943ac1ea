//! Pods in, policies or refusals out; and the schema, of which no image may be forgotten.

use api::core::Pod;
use apimachinery::User;
use apimachinery::schema::Type;
use k8s_openapi::api::core::v1::PodSpec;
use serde_json::{Value, json};

use super::{AlwaysPullImages, policies, visit};
use crate::attributes::Operation;
use crate::plugins::fixture::{Case, Objects, create_pod, decode, pod};
use crate::plugins::pod_fields;

#[test]
fn every_image_is_pulled() {
    let container = |name: &str| json!({"name": name, "image": name, "imagePullPolicy": "Never"});
    let spec = json!({
        "containers": [container("a")],
        "initContainers": [container("b")],
        "ephemeralContainers": [container("c")],
        "volumes": [
            {"name": "v", "image": {"reference": "d", "pullPolicy": "IfNotPresent"}},
            {"name": "w", "emptyDir": {}},
        ],
    });
    let made = create_pod(AlwaysPullImages, Objects::default(), &spec).unwrap();
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        assert_eq!(made[list][0]["imagePullPolicy"], "Always", "{list}");
    }
    assert_eq!(made["volumes"][0]["image"]["pullPolicy"], "Always");
    assert_eq!(made["volumes"][1], json!({"name": "w", "emptyDir": {}}));
}

#[test]
fn updates_count_when_there_is_an_image_more() {
    let user = User::new("alice", &[]);
    let case = Case::of(Operation::Update, "/pods", &user);
    let of = |image: &str| -> Pod {
        let container = json!({"name": "a", "image": image, "imagePullPolicy": "Never"});
        decode(&pod(&json!({"containers": [container]})))
    };
    let policy = |new: &Pod, old: &Pod| {
        let made = case.run(AlwaysPullImages, Objects::default(), (Some(new), Some(old))).unwrap();
        made["spec"]["containers"][0]["imagePullPolicy"].clone()
    };
    assert_eq!(policy(&of("a"), &of("a")), "Never");
    assert_eq!(policy(&of("b"), &of("a")), "Always");
}

#[test]
fn who_changes_it_afterwards_is_refused() {
    let user = User::new("alice", &[]);
    let case = Case::of(Operation::Create, "/pods", &user);
    let container = json!({"name": "a", "image": "a", "imagePullPolicy": "Never"});
    let object: Pod = decode(&pod(&json!({"containers": [container]})));
    let refusal = case.validate(&AlwaysPullImages, Objects::default(), &object).unwrap_err();
    assert_eq!(
        refusal.message(),
        "pods \"web\" is forbidden: spec.containers[0].imagePullPolicy: Unsupported value: \"Never\": supported values: \"Always\""
    );
}

#[test]
fn no_policy_of_the_schema_is_forgotten() {
    let fields = pod_fields::all(|path, schema| {
        schema.kind == Type::String && path.to_lowercase().ends_with("pullpolicy")
    });
    assert!(fields.len() >= 4, "{fields:?}");
    for field in &fields {
        let value = pod_fields::with(field, json!("Never"));
        let mut spec: PodSpec = serde_json::from_value(value).unwrap();
        let found = policies(&spec);
        let [(path, policy)] = found.as_slice() else { panic!("{field}") };
        assert_eq!(policy.as_deref(), Some("Never"), "{field}");
        assert_eq!(path.to_string().replace("[0]", ".[]"), format!("spec.{field}"));
        visit(&mut spec, |policy| *policy = Some("Always".to_owned()));
        let visited = serde_json::to_value(&spec).unwrap();
        let pointer = format!("/{}", field.replace("[]", "0").replace('.', "/"));
        assert_eq!(visited.pointer(&pointer), Some(&Value::from("Always")), "{field}");
    }
}
