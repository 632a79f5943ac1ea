//! The version that upstream's API server stores definitions in; it is not served. What the
//! versions of the custom resource have in common stands once, beside them, and an absent
//! `preserveUnknownFields` is true.

use serde_json::{Map, Value, json};

pub(super) const API_VERSION: &str = "apiextensions.k8s.io/v1beta1";

/// What stands beside the versions, and what it is called inside one.
const SHARED: &[(&str, &str)] = &[
    ("additionalPrinterColumns", "additionalPrinterColumns"),
    ("selectableFields", "selectableFields"),
    ("subresources", "subresources"),
    ("validation", "schema"),
];

pub(super) fn to_v1(json: &[u8]) -> Result<Vec<u8>, serde_json::Error> {
    let mut definition: Map<String, Value> = serde_json::from_slice(json)?;
    definition.insert("apiVersion".to_owned(), json!("apiextensions.k8s.io/v1"));
    if let Some(Value::Object(spec)) = definition.get_mut("spec") {
        let versions = take_versions(spec);
        spec.insert("versions".to_owned(), versions.into());
        spec.entry("preserveUnknownFields").or_insert(json!(true));
        if let Some(Value::Object(conversion)) = spec.get_mut("conversion") {
            nest_webhook(conversion);
        }
    }
    serde_json::to_vec(&definition)
}

fn take_versions(spec: &mut Map<String, Value>) -> Vec<Value> {
    let only = spec.remove("version");
    let mut versions = match spec.remove("versions") {
        Some(Value::Array(versions)) => versions,
        _ => Vec::new(),
    };
    if let Some(name) = only.filter(|_| versions.is_empty()) {
        versions.push(json!({ "name": name, "served": true, "storage": true }));
    }
    for (outside, inside) in SHARED {
        let Some(shared) = spec.remove(*outside) else { continue };
        for version in versions.iter_mut().filter_map(Value::as_object_mut) {
            version.insert((*inside).to_owned(), shared.clone());
        }
    }
    for version in &mut versions {
        let columns = version.get_mut("additionalPrinterColumns").and_then(Value::as_array_mut);
        for column in columns.into_iter().flatten().filter_map(Value::as_object_mut) {
            if let Some(path) = column.remove("JSONPath") {
                column.insert("jsonPath".to_owned(), path);
            }
        }
    }
    versions
}

fn nest_webhook(conversion: &mut Map<String, Value>) {
    let mut webhook = Map::new();
    for (outside, inside) in [
        ("webhookClientConfig", "clientConfig"),
        ("conversionReviewVersions", "conversionReviewVersions"),
    ] {
        if let Some(value) = conversion.remove(outside) {
            webhook.insert(inside.to_owned(), value);
        }
    }
    if !webhook.is_empty() {
        conversion.insert("webhook".to_owned(), webhook.into());
    }
}
