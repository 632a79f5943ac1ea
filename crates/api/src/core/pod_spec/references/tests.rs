//! Every field of the schema that names a Secret or a ConfigMap, one at a time.

use std::collections::BTreeSet;

use apimachinery::schema::Type;
use k8s_openapi::api::core::v1::PodSpec;
use serde_json::{Value, json};

use super::{claims, config_maps, secrets};
use crate::core::pod_spec::fields;

/// A pod spec with one text set.
fn spec_with(path: &str, text: &str) -> PodSpec {
    serde_json::from_value(fields::with(path, json!(text))).unwrap()
}

/// The fields of a pod spec whose path has this word in it and ends with a name.
fn named_after(word: &str) -> BTreeSet<String> {
    fields::all("io.k8s.api.core.v1.PodSpec", |path, schema| {
        let last = path.rsplit('.').next().unwrap();
        schema.kind == Type::String
            && path.to_lowercase().contains(word)
            && (last == "name" || last == format!("{word}Name"))
    })
}

#[test]
fn no_field_that_names_a_secret_or_a_config_map_is_forgotten() {
    let fields = named_after("secret");
    assert!(fields.len() >= 17, "{fields:?}");
    for field in &fields {
        assert_eq!(secrets(&spec_with(field, "x")), ["x"], "{field}");
        assert!(config_maps(&spec_with(field, "x")).is_empty(), "{field}");
        assert!(secrets(&spec_with(field, "")).is_empty(), "{field}");
    }
    let fields = named_after("configmap");
    assert!(fields.len() >= 8, "{fields:?}");
    for field in &fields {
        assert_eq!(config_maps(&spec_with(field, "x")), ["x"], "{field}");
        assert!(secrets(&spec_with(field, "x")).is_empty(), "{field}");
    }
}

#[test]
fn claims_are_named_or_made_for_the_pod() {
    let volumes: Value = json!({"volumes": [
        {"name": "a", "persistentVolumeClaim": {"claimName": "kept"}},
        {"name": "b", "ephemeral": {"volumeClaimTemplate": {}}},
        {"name": "c", "emptyDir": {}},
    ]});
    let spec: PodSpec = serde_json::from_value(volumes).unwrap();
    assert_eq!(claims("web", &spec), ["kept", "web-b"]);
}
