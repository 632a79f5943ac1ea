//! How a value looks to ownership: a leaf that is owned as a whole, or a container whose parts are
//! owned one by one. Decided by the schema; where it says nothing, maps are taken apart and lists
//! are not.

use serde_json::{Map, Value};

use crate::schema::{ListType, SchemaRef, Type, anything};

pub(super) enum Shape<'a> {
    Leaf,
    /// An object whose fields the schema names.
    Struct(&'a Map<String, Value>),
    /// An object whose keys are the user's.
    Map(&'a Map<String, Value>),
    /// A list of objects told apart by some of their fields.
    Keyed(&'a [Value]),
    /// A list of scalars, each once.
    Set(&'a [Value]),
}

/// Lists that must be there, and yet are not written when they are empty.
const UNWRITTEN: &[(&str, &str)] = &[
    (".ServerStorageVersion", "decodableVersions"),
    (".ValidatingAdmissionPolicyBindingSpec", "validationActions"),
];

/// The element of an item that says nothing of what tells it apart.
pub(super) const NO_KEY: &str = "k:{}";

/// A schema with its reference followed. What the place says (list type, atomic) is kept beside.
pub(super) struct Place<'a> {
    at: &'a SchemaRef,
    resolved: SchemaRef,
}

impl<'a> Place<'a> {
    pub(super) fn new(at: &'a SchemaRef) -> Self {
        Self { at, resolved: at.resolve() }
    }

    pub(super) fn shape<'v>(&self, value: &'v Value) -> Shape<'v> {
        match value {
            Value::Object(fields) if fields.is_empty() => Shape::Leaf,
            _ if self.resolved.is_raw() => Shape::Leaf,
            Value::Object(fields) if !self.is_atomic() => {
                let has_names = !self.resolved.properties.is_empty();
                if has_names { Shape::Struct(fields) } else { Shape::Map(fields) }
            }
            Value::Array(items) if !items.is_empty() => match self.list_type() {
                ListType::Map { .. } if items.iter().all(Value::is_object) => Shape::Keyed(items),
                ListType::Set => Shape::Set(items),
                ListType::Map { .. } | ListType::Atomic => Shape::Leaf,
            },
            _ => Shape::Leaf,
        }
    }

    fn is_atomic(&self) -> bool {
        self.at.is_atomic || (self.resolved.is_atomic && !self.at.is_granular)
    }

    pub(super) fn list_type(&self) -> &ListType {
        match &self.at.list_type {
            ListType::Atomic => &self.resolved.list_type,
            other => other,
        }
    }

    /// Whether it is an empty list whose items would be owned one by one.
    pub(super) fn is_without_items(&self, value: &Value) -> bool {
        value.as_array().is_some_and(Vec::is_empty) && *self.list_type() != ListType::Atomic
    }

    pub(super) fn field(&self, name: &str) -> &SchemaRef {
        self.resolved.field(name).unwrap_or_else(|| anything())
    }

    /// What a field is that nobody has written: in Go a struct within a struct, or a value that is
    /// written in any case. `None`: it is not there.
    pub(super) fn zero(&self, name: &str) -> Option<Value> {
        let field = self.resolved.properties.get(name)?;
        let owner = self.resolved.definition.as_str();
        if owner.is_empty() {
            return None;
        }
        if field.kind == Type::Array {
            let is_written = self.resolved.required.iter().any(|it| it == name)
                && !UNWRITTEN.iter().any(|it| owner.ends_with(it.0) && name == it.1);
            return is_written.then_some(Value::Null);
        }
        field.default.clone().filter(|it| match it {
            Value::Object(fields) => fields.is_empty(),
            Value::String(text) => text.is_empty(),
            Value::Number(number) => number.as_f64() == Some(0.0),
            Value::Bool(is_set) => !is_set,
            Value::Null | Value::Array(_) => false,
        })
    }

    pub(super) fn item(&self) -> &SchemaRef {
        self.resolved.items.as_ref().unwrap_or_else(|| anything())
    }

    pub(super) fn is_list(&self) -> bool {
        self.resolved.kind == Type::Array
    }

    /// The fields that tell items of a keyed list apart.
    pub(super) fn keys(&self) -> &[String] {
        match self.list_type() {
            ListType::Map { keys } => keys,
            ListType::Set | ListType::Atomic => &[],
        }
    }

    /// `k:{"containerPort":80,"protocol":"TCP"}` of an item; a key the item leaves out has its
    /// default.
    pub(super) fn key_element(&self, item: &Value) -> String {
        let mut names: Vec<&String> = self.keys().iter().collect();
        names.sort();
        let mut element = "k:{".to_owned();
        for name in names {
            let default;
            let value = match item.get(name) {
                Some(value) if !value.is_null() => value,
                _ => {
                    default = self.key_default(name);
                    match &default {
                        Some(value) => value,
                        None => continue,
                    }
                }
            };
            if element.len() > 3 {
                element.push(',');
            }
            element.push_str(&format!("\"{name}\":{value}"));
        }
        element.push('}');
        element
    }

    /// The fields that tell an item apart; they stay as long as the item does.
    pub(super) fn identity(&self, item: &Value) -> Vec<(String, Value)> {
        self.keys().iter().filter_map(|it| Some((it.clone(), item.get(it)?.clone()))).collect()
    }

    fn key_default(&self, name: &str) -> Option<Value> {
        self.item().resolve().properties.get(name).and_then(|it| it.default.clone())
    }
}

/// `v:"a"` of an item of a set.
pub(super) fn value_element(item: &Value) -> String {
    format!("v:{item}")
}

/// Where a value sets something that is owned as a whole: a list, map or struct that is atomic.
pub(super) fn find_atomics(
    schema: &SchemaRef,
    value: &Value,
    path: &str,
    atomics: &mut Vec<String>,
) {
    let place = Place::new(schema);
    match value {
        Value::Object(fields) if place.resolved.kind == Type::Object => {
            if place.is_atomic() {
                atomics.push(path.to_owned());
            }
            for (name, value) in fields {
                if let Some(below) = place.resolved.properties.get(name) {
                    find_atomics(below, value, &format!("{path}.{name}"), atomics);
                }
            }
        }
        Value::Array(items) if place.is_list() => {
            if *place.list_type() == ListType::Atomic {
                atomics.push(path.to_owned());
            }
            for (index, item) in items.iter().enumerate() {
                find_atomics(place.item(), item, &format!("{path}[{index}]"), atomics);
            }
        }
        _ => {}
    }
}
