//! Answers without what is each server's own. Pure.

use serde_json::{Map, Value};

/// Set by each server for itself, wherever an object is.
const OWN: [&str; 5] =
    ["creationTimestamp", "deletionTimestamp", "resourceVersion", "uid", "storageVersionHash"];

/// Without ids, times and versions, and without managers of fields.
pub(crate) fn plain(value: &Value) -> Value {
    without(value, &|name| {
        OWN.contains(&name) || matches!(name, "managedFields" | "time" | "lastTransitionTime")
    })
}

/// What a comparison sees: managers of fields of the object itself stay.
pub(crate) fn comparable(value: &Value) -> Value {
    let managers = value["metadata"]["managedFields"].clone();
    let mut value = plain(value);
    if !managers.is_null() {
        value["metadata"]["managedFields"] = without(&managers, &|name| name == "time");
    }
    value
}

fn without(value: &Value, is_own: &dyn Fn(&str) -> bool) -> Value {
    match value {
        Value::Array(items) => items.iter().map(|it| without(it, is_own)).collect(),
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(name, it)| !is_own(name) || it.is_object());
            let kept = kept.map(|(name, it)| {
                let it = if name == "cells" { cells(it) } else { without(it, is_own) };
                (name.clone(), it)
            });
            kept.collect::<Map<_, _>>().into()
        }
        other => other.clone(),
    }
}

/// `7s`, `3d4h`, `6y322d`
fn is_age(text: &str) -> bool {
    let is_part = |it: &str| !it.is_empty() && it.bytes().all(|it| it.is_ascii_digit());
    let mut parts = text.split_inclusive(|it: char| !it.is_ascii_digit());
    !text.is_empty()
        && parts.all(|it| it.strip_suffix(['s', 'm', 'h', 'd', 'y']).is_some_and(is_part))
}

/// Times and ages are none that two servers, or two days, have in common.
fn cells(cells: &Value) -> Value {
    let cell = |it: &Value| match it {
        Value::String(text) if is_age(text) => "<age>".into(),
        Value::String(text) if text.len() == 20 && text.ends_with('Z') => "<time>".into(),
        other => other.clone(),
    };
    cells.as_array().into_iter().flatten().map(cell).collect()
}
