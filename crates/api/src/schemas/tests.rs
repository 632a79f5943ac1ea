//! What the build made of the types: merge rules, formats, links.

use apimachinery::schema::{ListType, Type};

use super::*;

/// Follows fields from a definition; `[]` goes into the items of a list.
fn at(definition: &str, path: &str) -> SchemaRef {
    path.split('.').filter(|it| !it.is_empty()).fold(schema(definition), |it, step| {
        let it = it.resolve();
        match step {
            "[]" => it.items.clone().unwrap(),
            field => it.properties.get(field).unwrap_or_else(|| panic!("no {field}")).clone(),
        }
    })
}

#[test]
fn every_served_kind_has_a_linked_schema() {
    for kind in crate::kinds() {
        let schema = kind.schema();
        assert!(schema.properties.contains_key("metadata"), "{}", kind.names().kind);
        let labels = at(&kind.definition(), "metadata.labels");
        assert_eq!(labels.kind, Type::Object, "{}", kind.names().kind);
    }
}

#[test]
fn lists_know_how_they_merge() {
    let check = |definition: &str, path: &str, expected: &[&str]| {
        let keys = match &at(definition, path).list_type {
            ListType::Map { keys } => keys.clone(),
            ListType::Set => vec!["<set>".to_owned()],
            ListType::Atomic => Vec::new(),
        };
        assert_eq!(keys, expected, "{definition} {path}");
    };
    let pod = "io.k8s.api.core.v1.Pod";
    check(pod, "spec.containers", &["name"]);
    check(pod, "spec.containers.[].ports", &["containerPort", "protocol"]);
    check(pod, "spec.containers.[].command", &[]);
    check("io.k8s.api.apps.v1.Deployment", "spec.template.spec.containers", &["name"]);
    check("io.k8s.api.core.v1.Service", "spec.ports", &["port", "protocol"]);
    check(pod, "metadata.finalizers", &["<set>"]);
}

#[test]
fn patch_rules_are_beside_references() {
    let strategy = at("io.k8s.api.apps.v1.Deployment", "spec.strategy");
    assert!(strategy.patch.is_retain_keys);
    assert!(strategy.resolve().properties.contains_key("rollingUpdate"));
    let containers = at("io.k8s.api.core.v1.Pod", "spec.containers");
    assert!(containers.patch.is_merge);
    assert_eq!(containers.patch.merge_key.as_deref(), Some("name"));
    let selector = at("io.k8s.api.core.v1.Service", "spec.selector");
    assert!(selector.is_atomic);
}

#[test]
fn formats_and_open_values_survive() {
    let check = |definition: &str, path: &str, kind: Type, format: &str| {
        let schema = at(definition, path).resolve();
        assert_eq!((schema.kind, schema.format.as_str()), (kind, format), "{definition} {path}");
    };
    let pod = "io.k8s.api.core.v1.Pod";
    check("io.k8s.api.apps.v1.Deployment", "spec.replicas", Type::Integer, "int32");
    check(pod, "metadata.generation", Type::Integer, "int64");
    check(pod, "metadata.creationTimestamp", Type::String, "date-time");
    check(
        "io.k8s.api.core.v1.Service",
        "spec.ports.[].targetPort",
        Type::IntOrString,
        "int-or-string",
    );
    assert!(at(pod, "metadata.managedFields.[].fieldsV1").resolve().preserve_unknown);
    let crd = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition";
    let schema = at(crd, "spec.versions.[].schema.openAPIV3Schema");
    assert!(std::sync::Arc::ptr_eq(
        &schema.resolve(),
        &at("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps", "not")
            .resolve()
    ));
    check(crd, "spec.versions.[].schema.openAPIV3Schema.default", Type::Any, "");
}

#[test]
fn metadata_may_be_absent() {
    assert!(!schema("io.k8s.api.core.v1.ConfigMap").required.contains(&"metadata".to_owned()));
}

#[test]
fn fields_that_are_named_like_keywords_are_fields() {
    let schemas = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";
    let check = |field: &str, expected: Type| {
        assert_eq!(at(schemas, field).kind, expected, "{field}");
    };
    check("$ref", Type::String);
    check("description", Type::String);
    check("allOf", Type::Array);
    check("oneOf", Type::Array);
    check("nullable", Type::Boolean);
}
