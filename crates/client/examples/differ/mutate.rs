//! What may be wrong with an object: one thing at a time, somewhere in it. Pure.

use serde_json::{Value, json};

use crate::grow::{Garden, integers, pick, texts};
use crate::place::{self, Change, Place, Step};

/// A change at or below `root`, or nothing if there is nothing that could be changed.
pub(crate) fn one(
    garden: &Garden<'_>,
    object: &Value,
    schema: &Value,
    root: &[Step],
) -> Option<Change> {
    let random = garden.random;
    if random.below(100) < 25 {
        return garden.addition(object, schema, root);
    }
    let places: Vec<Place> =
        place::all(object).into_iter().filter(|it| it.starts_with(root)).collect();
    if places.is_empty() {
        return garden.addition(object, schema, root);
    }
    let place = pick(random, &places).clone();
    let value = place::get(object, &place)?;
    if random.below(100) < 15 {
        return Some(Change { place, value: None });
    }
    let name = place.iter().rev().find_map(|it| match it {
        Step::Field(name) => Some(name.as_str()),
        Step::Item(_) => None,
    });
    let name = name.unwrap_or_default();
    // What is well formed says more about rules than what is not.
    let value = match garden.schemas.at(schema, &place) {
        Some(schema) if random.below(100) < 35 => garden.value(schema, name, 2),
        _ => pick(random, &others(value, name)).clone(),
    };
    Some(Change { place, value: Some(value) })
}

/// What could stand in place of a value.
pub(crate) fn others(value: &Value, name: &str) -> Vec<Value> {
    let mut others = vec![Value::Null];
    others.extend(match value {
        Value::String(_) => {
            let mut all: Vec<Value> = texts(name).iter().map(|it| json!(it)).collect();
            all.extend(ODD.iter().map(|it| json!(it)));
            all.extend([json!("x".repeat(300)), json!("a".repeat(64)), json!(7)]);
            all
        }
        Value::Bool(it) => vec![json!(!it), json!(!it), json!("x")],
        Value::Number(_) => {
            let mut all: Vec<Value> = integers(name).iter().map(|it| json!(it)).collect();
            all.extend([
                json!(-1),
                json!(0),
                json!(1_i64 << 31),
                json!(65536),
                json!("x"),
                json!(1.5),
            ]);
            all
        }
        Value::Array(items) => {
            let twice: Vec<Value> = items.iter().chain(items).cloned().collect();
            vec![json!([]), json!([null]), json!(twice), json!("x")]
        }
        Value::Object(fields) => {
            let mut more = fields.clone();
            more.insert("bogusField".to_owned(), json!("x"));
            vec![json!({}), Value::Object(more), json!("x")]
        }
        Value::Null => vec![json!("x")],
    });
    others
}

/// Each breaks another rule of names, paths, numbers in text.
const ODD: &[&str] = &[
    "",
    "Bogus_Value!",
    "-a",
    "a.b",
    "A",
    "a/b",
    " ",
    "a..b",
    "../x",
    "/",
    "1",
    "100%",
    "-1",
    "a_b",
    "é",
];
