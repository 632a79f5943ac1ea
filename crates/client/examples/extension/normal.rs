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

/// `12s`, `6y322d`.
fn is_age(text: &str) -> bool {
    let unit_ends = |it: char| "ydhms".contains(it);
    let mut parts = text.split_inclusive(unit_ends).peekable();
    parts.peek().is_some()
        && parts.all(|it| {
            let number = it.strip_suffix(unit_ends);
            number.is_some_and(|it| !it.is_empty() && it.bytes().all(|it| it.is_ascii_digit()))
        })
}

/// Times and ages are none that two servers have in common, nor one server tomorrow.
fn cells(cells: &Value) -> Value {
    let cell = |it: &Value| match it {
        Value::String(text) if is_age(text) => "<age>".into(),
        Value::String(text) if text.len() == 20 && text.ends_with('Z') => "<time>".into(),
        other => other.clone(),
    };
    cells.as_array().into_iter().flatten().map(cell).collect()
}
