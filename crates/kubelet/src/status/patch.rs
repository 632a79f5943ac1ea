//! A status to the patch that makes the API show it.

use api::Resource as _;
use bytes::Bytes;
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use serde_json::{Map, Value, json};

/// A strategic merge patch with what differs. The uid keeps it from a pod of the same name that
/// came later.
pub(crate) fn patch(uid: &str, old: Option<&PodStatus>, new: &PodStatus) -> Bytes {
    let (old, new) = (fields(old.cloned().unwrap_or_default()), fields(new.clone()));
    let mut changes = Map::new();
    for (name, value) in &new {
        if old.get(name) != Some(value) {
            let mut changed = replacement(name, value);
            if name == "conditions" {
                remove_conditions(old.get(name), &mut changed);
            }
            changes.insert(name.clone(), changed);
        }
    }
    for name in old.keys().filter(|it| !new.contains_key(*it)) {
        changes.insert(name.clone(), Value::Null);
    }
    Bytes::from(json!({ "metadata": { "uid": uid }, "status": changes }).to_string())
}

/// Lists that the server would merge with what it has must say where they replace.
fn replacement(name: &str, value: &Value) -> Value {
    match (name, value) {
        ("podIPs" | "hostIPs", Value::Array(items)) => {
            let items = items.iter().cloned().chain([json!({ "$patch": "replace" })]);
            Value::Array(items.collect())
        }
        ("conditions", Value::Array(items)) => {
            Value::Array(items.iter().cloned().map(whole_condition).collect())
        }
        _ => value.clone(),
    }
}

/// Conditions that are gone must be said, too.
fn remove_conditions(old: Option<&Value>, changed: &mut Value) {
    let Value::Array(changed) = changed else { return };
    for gone in old.and_then(Value::as_array).into_iter().flatten() {
        let kind = &gone["type"];
        if !changed.iter().any(|it| it["type"] == *kind) {
            changed.push(json!({ "type": kind, "$patch": "delete" }));
        }
    }
}

/// Conditions are merged by type, field by field: what is empty now must be said.
fn whole_condition(mut condition: Value) -> Value {
    if let Value::Object(fields) = &mut condition {
        for name in ["reason", "message", "observedGeneration"] {
            fields.entry(name).or_insert(Value::Null);
        }
    }
    condition
}

/// Through the kind's own encoder, so that no second one is compiled.
fn fields(status: PodStatus) -> Map<String, Value> {
    let bytes = Pod { status: Some(status), ..Pod::default() }.encode();
    match serde_json::from_slice::<Value>(&bytes) {
        Ok(Value::Object(mut pod)) => match pod.remove("status") {
            Some(Value::Object(status)) => status,
            _ => Map::new(),
        },
        _ => Map::new(),
    }
}
