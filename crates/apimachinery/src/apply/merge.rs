//! Merging an apply configuration into an object, and removing what a manager no longer applies.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::Error;
use super::field_set::{Node, children};
use super::shape::{NO_KEY, Place, Shape, value_element};
use crate::schema::SchemaRef;

/// `config` over `live`: parts that are owned one by one merge, leaves are replaced.
pub(super) fn merge(
    schema: &SchemaRef,
    live: Option<Value>,
    config: &Value,
) -> Result<Value, Error> {
    let place = Place::new(schema);
    match place.shape(config) {
        Shape::Leaf => Ok(match (config, live) {
            // An empty map or list adds nothing to parts that are merged one by one.
            (Value::Object(it), Some(live @ Value::Object(_)))
                if it.is_empty() && !matches!(place.shape(&live), Shape::Leaf) =>
            {
                live
            }
            (Value::Array(it), Some(live @ Value::Array(_)))
                if it.is_empty() && !matches!(place.shape(&live), Shape::Leaf) =>
            {
                live
            }
            _ => config.clone(),
        }),
        Shape::Struct(fields) | Shape::Map(fields) => {
            let mut merged = match live {
                Some(Value::Object(live)) => live,
                _ => Map::new(),
            };
            for (name, value) in fields {
                let old = merged.remove(name);
                // Nothing is said about the parts of what merges part by part.
                let below = Place::new(place.field(name));
                if value.is_null()
                    && let Some(old) =
                        old.as_ref().filter(|it| !matches!(below.shape(it), Shape::Leaf))
                {
                    merged.insert(name.clone(), old.clone());
                } else if value.is_null() {
                    // In a map it is a value; elsewhere it goes when the object is read.
                    merged.insert(name.clone(), Value::Null);
                } else {
                    merged.insert(name.clone(), merge(place.field(name), old, value)?);
                }
            }
            Ok(Value::Object(merged))
        }
        Shape::Keyed(items) => {
            if items.iter().any(|it| place.key_element(it) == NO_KEY) {
                return Err(Error::Malformed(format!(
                    "associative list with keys has an element that omits all key fields {:?} \
                     (and doesn't have default values for any key fields)",
                    place.keys()
                )));
            }
            merge_list(&place, list_of(live), items, |item| place.key_element(item))
        }
        Shape::Set(items) => merge_list(&place, list_of(live), items, value_element),
    }
}

fn list_of(live: Option<Value>) -> Vec<Value> {
    match live {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

/// The configuration's items in its order; items that only the live list has keep their place
/// between. Live `[a, b, c, d]` and config `[d, x, b]` give `[a, d, c, x, b]`.
fn merge_list(
    place: &Place<'_>,
    live: Vec<Value>,
    config: &[Value],
    element: impl Fn(&Value) -> String,
) -> Result<Value, Error> {
    let elements: Vec<String> = config.iter().map(&element).collect();
    let mut wanted = BTreeSet::new();
    for element in &elements {
        if !wanted.insert(element.as_str()) {
            let key = element.get(2..).unwrap_or_default();
            return Err(Error::Malformed(format!("duplicate entries for key {key}")));
        }
    }
    // What the configuration names is put aside; of items that repeat a key, the first.
    let mut named: BTreeMap<&str, Value> = BTreeMap::new();
    let mut rest = Vec::with_capacity(live.len());
    for item in live {
        match wanted.get(element(&item).as_str()) {
            Some(element) => {
                named.entry(element).or_insert(item);
                rest.push(None);
            }
            None => rest.push(Some(item)),
        }
    }
    let mut rest = rest.into_iter().peekable();
    let mut merged = Vec::with_capacity(rest.len() + config.len());
    for (item, element) in config.iter().zip(&elements) {
        while let Some(Some(only_live)) = rest.next_if(Option::is_some) {
            merged.push(only_live);
        }
        let old = named.remove(element.as_str());
        if old.is_some() {
            rest.next();
        }
        merged.push(merge(place.item(), old, item)?);
    }
    merged.extend(rest.flatten());
    Ok(Value::Array(merged))
}

/// Removes from `value` what is in `last` but neither in nor above anything in `keep`.
pub(super) fn prune(schema: &SchemaRef, value: &mut Value, last: &Node, keep: Option<&Node>) {
    let place = Place::new(schema);
    let kept = |element: &str| keep.and_then(|it| it.get(element)).and_then(Value::as_object);
    match value {
        Value::Object(fields) => {
            for (element, last) in children(last) {
                let Some(name) = element.strip_prefix("f:") else {
                    continue;
                };
                match kept(element) {
                    None => {
                        fields.remove(name);
                    }
                    Some(keep) => {
                        if let Some(value) = fields.get_mut(name) {
                            prune(place.field(name), value, last, Some(keep));
                        }
                    }
                }
            }
        }
        Value::Array(items) if place.is_list() => items.retain_mut(|item| {
            let element =
                if item.is_object() { place.key_element(item) } else { value_element(item) };
            let Some(last) = last.get(&element).and_then(Value::as_object) else {
                return true;
            };
            let Some(keep) = kept(&element) else {
                return false;
            };
            let identity = place.identity(item);
            prune(place.item(), item, last, Some(keep));
            if let Value::Object(item) = item {
                item.extend(identity);
            }
            true
        }),
        _ => {}
    }
}
