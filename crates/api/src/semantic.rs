//! Equality as clients mean it: an absent field equals an empty one.

use serde::Serialize;
use serde_json::Value;

use crate::codec;

pub(crate) fn equal<T: PartialEq + Serialize>(left: &T, right: &T) -> bool {
    left == right || pruned(left) == pruned(right)
}

/// Top-level fields that differ, sorted.
pub(crate) fn changed_fields<T: Serialize>(left: &T, right: &T) -> Vec<String> {
    let (Value::Object(left), Value::Object(right)) = (pruned(left), pruned(right)) else {
        return Vec::new();
    };
    let mut fields: Vec<String> = left
        .keys()
        .chain(right.keys())
        .filter(|it| left.get(*it) != right.get(*it))
        .cloned()
        .collect();
    fields.sort();
    fields.dedup();
    fields
}

fn pruned<T: Serialize>(value: &T) -> Value {
    let mut value = codec::tree(value);
    prune(&mut value);
    value
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
    }
}

fn prune(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(prune),
        Value::Object(fields) => {
            fields.values_mut().for_each(prune);
            fields.retain(|_, it| !is_empty(it));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
