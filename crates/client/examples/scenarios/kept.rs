//! What stays when one manager takes over from another. Pure.

use serde_json::{Map, Value};

/// What must be the same of all objects when another manager has taken over: which there are, and what
/// they ask for. Events and statuses are left out: they say who works.
pub(crate) fn kept(seen: &Value) -> Value {
    let lists = seen.as_object().into_iter().flatten().filter(|(what, _)| *what != "v1 events");
    let kept = lists.map(|(what, items)| {
        let items = items.as_array().into_iter().flatten();
        let kept = items.map(|it| (it["metadata"]["name"].to_string(), kept_of(it)));
        (what.clone(), kept.collect::<Map<_, _>>().into())
    });
    kept.collect::<Map<_, _>>().into()
}

fn kept_of(object: &Value) -> Value {
    let fields = object.as_object().into_iter().flatten();
    let mut kept: Map<String, Value> = fields
        .filter(|(name, _)| *name != "status")
        .map(|(name, it)| (name.clone(), it.clone()))
        .collect();
    if let Some(Value::Object(metadata)) = kept.get_mut("metadata") {
        metadata.retain(|name, _| !matches!(name.as_str(), "managedFields" | "resourceVersion"));
    }
    kept.into()
}
