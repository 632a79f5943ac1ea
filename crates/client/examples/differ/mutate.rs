//! What may be wrong with an object: one thing at a time, at every place that it has. Pure.

use serde_json::{Value, json};

/// Where a value is: names of fields and indices.
type Place = Vec<Step>;

#[derive(Clone, Debug)]
enum Step {
    Field(String),
    Item(usize),
}

/// The object as it is, and each change of it, with what was changed.
pub(crate) fn all(object: &Value) -> Vec<(String, Value)> {
    let mut all = vec![("as it is".to_owned(), object.clone())];
    for place in places(object) {
        let Some(value) = object.pointer(&pointer(&place)) else { continue };
        let name = pointer(&place).replacen('/', "", 1).replace('/', ".");
        let mut removed = object.clone();
        remove(&mut removed, &place);
        all.push((format!("{name} removed"), removed));
        for other in others(value) {
            let mut changed = object.clone();
            if let Some(at) = changed.pointer_mut(&pointer(&place)) {
                let text = other.to_string();
                let shown: String = text.chars().take(40).collect();
                *at = other;
                all.push((format!("{name} = {shown}"), changed));
            }
        }
    }
    all
}

/// Of everything but what says which kind it is.
fn places(object: &Value) -> Vec<Place> {
    let mut found = Vec::new();
    let mut left: Vec<Place> = vec![Vec::new()];
    while let Some(place) = left.pop() {
        let below: Vec<Step> = match object.pointer(&pointer(&place)) {
            Some(Value::Object(fields)) => fields.keys().cloned().map(Step::Field).collect(),
            Some(Value::Array(items)) => (0..items.len()).map(Step::Item).collect(),
            _ => Vec::new(),
        };
        for step in below {
            let is_name = matches!(&step, Step::Field(it) if it == "apiVersion" || it == "kind");
            if !place.is_empty() || !is_name {
                left.push(place.iter().cloned().chain([step]).collect());
            }
        }
        if !place.is_empty() {
            found.push(place);
        }
    }
    found
}

fn pointer(place: &[Step]) -> String {
    let escape = |it: &str| it.replace('~', "~0").replace('/', "~1");
    let steps = place.iter().map(|it| match it {
        Step::Field(name) => format!("/{}", escape(name)),
        Step::Item(index) => format!("/{index}"),
    });
    steps.collect()
}

fn remove(object: &mut Value, place: &[Step]) {
    let Some((last, parent)) = place.split_last() else { return };
    match (object.pointer_mut(&pointer(parent)), last) {
        (Some(Value::Object(fields)), Step::Field(name)) => drop(fields.remove(name)),
        (Some(Value::Array(items)), Step::Item(index)) => drop(items.remove(*index)),
        _ => {}
    }
}

/// What could stand in place of a value.
fn others(value: &Value) -> Vec<Value> {
    let mut others = vec![Value::Null];
    others.extend(match value {
        Value::String(_) => {
            vec![json!(""), json!("Bogus_Value!"), json!("x".repeat(300)), json!(7)]
        }
        Value::Bool(it) => vec![json!(!it), json!("x")],
        Value::Number(_) => vec![json!(-1), json!(0), json!(1_i64 << 31), json!("x")],
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
