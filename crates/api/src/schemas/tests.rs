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

/// Walks every schema once; a definition is named by the last part of its path.
fn for_each_schema(
    at: &SchemaRef,
    path: &str,
    seen: &mut std::collections::BTreeSet<String>,
    visit: &mut impl FnMut(&SchemaRef, &str),
) {
    visit(at, path);
    let schema = at.resolve();
    if !schema.definition.is_empty() && !seen.insert(schema.definition.clone()) {
        return;
    }
    let path = if schema.definition.is_empty() { path } else { schema.definition.as_str() };
    for (name, field) in &schema.properties {
        for_each_schema(field, &format!("{path}.{name}"), seen, visit);
    }
    for member in schema.items.iter().chain(&schema.additional) {
        for_each_schema(member, &format!("{path}[]"), seen, visit);
    }
}

#[test]
fn every_key_of_a_list_item_has_a_default_for_those_who_leave_it_out() {
    let (mut n_keys, mut missing) = (0, Vec::new());
    let mut seen = std::collections::BTreeSet::new();
    for kind in crate::kinds() {
        for_each_schema(&kind.schema(), "", &mut seen, &mut |schema, path| {
            let ListType::Map { keys } = &schema.list_type else { return };
            let item = schema.items.as_ref().unwrap().resolve();
            for key in keys {
                n_keys += 1;
                if item.properties[key].default.is_none() {
                    missing.push(format!("{path} {key}"));
                }
            }
        });
    }
    assert!(n_keys > 30, "{n_keys}");
    // A secret without a name is no secret, a condition without a type none, and a server without
    // an id no server: whoever applies one is told so. A device that is not shared is known by its
    // other keys.
    let expected = [
        "io.k8s.api.apiserverinternal.v1alpha1.StorageVersionStatus.storageVersions apiServerID",
        "io.k8s.api.core.v1.ServiceAccount.secrets name",
        "io.k8s.api.flowcontrol.v1.FlowSchemaStatus.conditions type",
        "io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationStatus.conditions type",
        "io.k8s.api.resource.v1.ResourceClaimStatus.devices shareID",
        "io.k8s.api.resource.v1beta1.ResourceClaimStatus.devices shareID",
        "io.k8s.api.resource.v1beta2.ResourceClaimStatus.devices shareID",
    ];
    assert_eq!(missing, expected);
}

#[test]
fn fields_know_what_they_are_when_left_out() {
    let check = |definition: &str, path: &str, expected: Value| {
        assert_eq!(at(definition, path).default, Some(expected), "{definition} {path}");
    };
    let pod = "io.k8s.api.core.v1.Pod";
    check(pod, "spec.containers.[].ports.[].protocol", "TCP".into());
    check("io.k8s.api.core.v1.Service", "spec.ports.[].protocol", "TCP".into());
    check("io.k8s.api.core.v1.ReplicationController", "spec.replicas", 1.into());
    check(pod, "spec.containers.[].resources", serde_json::json!({}));
    check(pod, "spec.containers.[]", serde_json::json!({}));
    check(pod, "spec.containers.[].args.[]", "".into());
    for open in ["spec.dnsPolicy", "spec.containers.[].image", "spec.activeDeadlineSeconds"] {
        assert_eq!(at(pod, open).default, None, "{open}");
    }
    let limits = at(pod, "spec.containers.[].resources.limits");
    assert_eq!(limits.additional.as_ref().unwrap().default, None);
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
