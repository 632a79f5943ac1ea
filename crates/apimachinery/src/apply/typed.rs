//! Whether a value is what its schema says, as ownership needs to know it: fields that are there,
//! types, and list items that can be told apart. Words are those of upstream's merge library.

use std::collections::BTreeSet;

use serde_json::Value;

use super::shape::{NO_KEY, Place, value_element};
use crate::go::{syntax, text, type_name};
use crate::schema::{ListType, SchemaRef, Type};

/// Problems that are told.
const PROBLEMS_MAX: usize = 100;
/// Of a whole object, beside the fields of its schema: custom resources need not name them.
const OF_OBJECTS: &[&str] = &["apiVersion", "kind", "metadata"];

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Repeats {
    /// Of objects that are stored: there may be some from before the rule.
    Allowed,
    Refused,
}

/// What is wrong with a whole object, in one text.
pub(super) fn validate(schema: &SchemaRef, object: &Value, repeats: Repeats) -> Result<(), String> {
    let mut walk = Walk { repeats, path: String::new(), problems: Vec::new() };
    walk.value(schema, object);
    match walk.problems.as_slice() {
        [] => Ok(()),
        [only] => Err(only.clone()),
        all => Err(all.iter().fold("errors:".to_owned(), |text, it| format!("{text}\n  {it}"))),
    }
}

fn is_time(schema: &SchemaRef) -> bool {
    schema.format == "date-time" && !schema.definition.is_empty()
}

struct Walk {
    repeats: Repeats,
    path: String,
    problems: Vec<String>,
}

impl Walk {
    fn problem(&mut self, why: &str) {
        if self.problems.len() < PROBLEMS_MAX {
            let gap = if self.path.is_empty() { "" } else { ": " };
            self.problems.push(format!("{}{gap}{why}", self.path));
        }
    }

    fn below(&mut self, element: &str, look: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        self.path.push_str(element);
        look(self);
        self.path.truncate(length);
    }

    fn value(&mut self, schema: &SchemaRef, value: &Value) {
        let resolved = schema.resolve();
        match (resolved.kind, value) {
            (_, Value::Null) => {}
            _ if resolved.is_raw() => {}
            (_, Value::Number(_) | Value::Bool(_)) if resolved.is_quantity() => {}
            (Type::Object | Type::Any, Value::Object(_)) => self.fields(schema, &resolved, value),
            (Type::Array, Value::Array(items)) => self.items(schema, items),
            (Type::Any, _) | (Type::String, Value::String(_)) => {}
            // Times are any scalar there.
            (Type::String, Value::Number(_) | Value::Bool(_)) if is_time(&resolved) => {}
            (Type::Boolean, Value::Bool(_)) => {}
            (Type::Integer | Type::Number, Value::Number(_)) => {}
            (Type::IntOrString, Value::String(_) | Value::Number(_) | Value::Bool(_)) => {}
            (Type::Object, _) => self.problem(&format!("expected map, got &{{{}}}", text(value))),
            (Type::Array, _) => self.problem(&format!("expected list, got &{{{}}}", text(value))),
            (Type::Boolean, _) => {
                self.problem(&format!("expected boolean, got &{{{}}}", text(value)));
            }
            (Type::String, _) => {
                let seen = syntax(value);
                self.problem(&format!(
                    "expected string, got &value.valueUnstructured{{Value:{seen}}}"
                ));
            }
            (Type::Integer | Type::Number, _) => {
                self.problem(&format!("expected numeric (int or float), got {}", type_name(value)));
            }
            (Type::IntOrString, _) => {
                self.problem(&format!("expected any scalar, got &{{{}}}", text(value)));
            }
        }
    }

    fn fields(&mut self, schema: &SchemaRef, resolved: &SchemaRef, value: &Value) {
        let place = Place::new(schema);
        for (name, value) in value.as_object().into_iter().flatten() {
            let is_known = resolved.field(name).is_some();
            let is_objects = self.path.is_empty() && OF_OBJECTS.contains(&name.as_str());
            let is_open = is_objects || resolved.accepts_any_field();
            self.below(&format!(".{name}"), |walk| match is_known {
                true => walk.value(place.field(name), value),
                false if is_open => {}
                false => walk.problem("field not declared in schema"),
            });
        }
    }

    fn items(&mut self, schema: &SchemaRef, items: &[Value]) {
        let place = Place::new(schema);
        let mut seen = BTreeSet::new();
        for (index, item) in items.iter().enumerate() {
            let element = match place.list_type() {
                ListType::Atomic => format!("[{index}]"),
                ListType::Set => match set_element(item) {
                    Ok(element) => element,
                    Err(why) => return self.problem(&format!("element {index}: {why}")),
                },
                ListType::Map { .. } => match keyed_element(&place, item) {
                    Ok(element) => element,
                    Err(why) => return self.problem(&format!("element {index}: {why}")),
                },
            };
            let is_atomic = *place.list_type() == ListType::Atomic;
            if !is_atomic && !seen.insert(element.clone()) && self.repeats == Repeats::Refused {
                self.problem(&format!("duplicate entries for key {element}"));
            }
            self.below(&element, |walk| walk.value(place.item(), item));
        }
    }
}

/// `[="a"]`.
fn set_element(item: &Value) -> Result<String, String> {
    let why = match item {
        Value::Object(_) => "associative list without keys has an element that's a map type",
        Value::Array(_) => "not supported: associative list with lists as elements",
        Value::Null => "associative list without keys has an element that's an explicit null",
        _ => return Ok(format!("[={}]", &value_element(item)[2..])),
    };
    Err(why.to_owned())
}

/// `[containerPort=80,protocol="TCP"]`.
fn keyed_element(place: &Place<'_>, item: &Value) -> Result<String, String> {
    match item {
        Value::Null => Err("associative list with keys may not have a null element".to_owned()),
        Value::Object(_) => {
            let element = place.key_element(item);
            if element == NO_KEY {
                let keys: Vec<String> = place.keys().iter().map(|it| format!("{it:?}")).collect();
                return Err(format!(
                    "associative list with keys has an element that omits all key fields [{}] \
                     (and doesn't have default values for any key fields)",
                    keys.join(" ")
                ));
            }
            let keys: Value = serde_json::from_str(&element[2..]).unwrap_or_default();
            let pairs = keys.as_object().into_iter().flatten();
            let pairs: Vec<String> = pairs.map(|(name, it)| format!("{name}={it}")).collect();
            Ok(format!("[{}]", pairs.join(",")))
        }
        _ => Err("associative list with keys may not have non-map elements".to_owned()),
    }
}
