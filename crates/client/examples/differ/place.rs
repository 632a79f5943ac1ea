//! Where a value is in an object, and what is done there. Pure.

use std::fmt;

use serde_json::{Map, Value};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Field(String),
    Item(usize),
}

/// Names of fields and indices, from the whole object down.
pub(crate) type Place = Vec<Step>;

/// One thing that is done to an object.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) place: Place,
    /// Nothing: it is removed.
    pub(crate) value: Option<Value>,
}

/// Of a value in a description of a change.
const SHOWN_MAX: usize = 60;

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = pointer(&self.place);
        match &self.value {
            None => write!(f, "{place} removed"),
            Some(value) => {
                let shown: String = value.to_string().chars().take(SHOWN_MAX).collect();
                write!(f, "{place} = {shown}")
            }
        }
    }
}

/// As JSON patches write it.
pub(crate) fn pointer(place: &[Step]) -> String {
    let steps = place.iter().map(|it| match it {
        Step::Field(name) => format!("/{}", name.replace('~', "~0").replace('/', "~1")),
        Step::Item(index) => format!("/{index}"),
    });
    steps.collect()
}

pub(crate) fn get<'a>(object: &'a Value, place: &[Step]) -> Option<&'a Value> {
    place.iter().try_fold(object, |value, step| match step {
        Step::Field(name) => value.get(name),
        Step::Item(index) => value.get(index),
    })
}

/// Objects on the way that are not there are made; where the way leads through another value,
/// nothing is done.
pub(crate) fn apply(object: &mut Value, change: &Change) {
    let Some((last, parents)) = change.place.split_last() else { return };
    let mut at = object;
    for step in parents {
        let next = match (at, step) {
            (Value::Object(fields), Step::Field(name)) => {
                Some(fields.entry(name.clone()).or_insert_with(|| Value::Object(Map::new())))
            }
            (Value::Array(items), Step::Item(index)) => items.get_mut(*index),
            _ => None,
        };
        let Some(next) = next else { return };
        at = next;
    }
    match (at, last, &change.value) {
        (Value::Object(fields), Step::Field(name), None) => drop(fields.remove(name)),
        (Value::Object(fields), Step::Field(name), Some(value)) => {
            fields.insert(name.clone(), value.clone());
        }
        (Value::Array(items), Step::Item(index), None) if *index < items.len() => {
            items.remove(*index);
        }
        (Value::Array(items), Step::Item(index), Some(value)) => match items.get_mut(*index) {
            Some(item) => *item = value.clone(),
            None => items.push(value.clone()),
        },
        _ => {}
    }
}

/// Every place of a value, parents first, but those that say which object it is.
pub(crate) fn all(object: &Value) -> Vec<Place> {
    const IDENTITY: &[&str] = &["/apiVersion", "/kind", "/metadata", "/metadata/name"];
    let mut found = Vec::new();
    let mut left: Vec<Place> = vec![Vec::new()];
    while let Some(place) = left.pop() {
        let below: Vec<Step> = match get(object, &place) {
            Some(Value::Object(fields)) => fields.keys().cloned().map(Step::Field).collect(),
            Some(Value::Array(items)) => (0..items.len()).map(Step::Item).collect(),
            _ => Vec::new(),
        };
        left.extend(below.into_iter().map(|it| place.iter().cloned().chain([it]).collect()));
        if !place.is_empty() && !IDENTITY.contains(&pointer(&place).as_str()) {
            found.push(place);
        }
    }
    found
}
