//! What is kept of an answer, so that it can be held against another server's later: the verdict,
//! and of what was stored what is the same on every server. Pure.

use serde_json::{Map, Value, json};

use super::normal;

pub(crate) fn verdict(what: &str, code: u16, body: &Value, warnings: &[String]) -> Value {
    let mut kept = Map::new();
    kept.insert("what".to_owned(), what.into());
    kept.insert("code".to_owned(), code.into());
    if !warnings.is_empty() {
        kept.insert("warnings".to_owned(), json!(warnings));
    }
    let fields = if code < 300 { accepted(body) } else { refused(body) };
    kept.extend(fields);
    Value::Object(kept)
}

fn refused(status: &Value) -> Map<String, Value> {
    let all = status["details"]["causes"].as_array().into_iter().flatten();
    let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
    let line = |it: &Value| {
        format!("{}: {}: {}", text(&it["field"]), text(&it["reason"]), text(&it["message"]))
    };
    let mut causes: Vec<String> = all.map(line).collect();
    causes.sort();
    let mut kept = Map::new();
    kept.insert("reason".to_owned(), status["reason"].clone());
    match causes.is_empty() {
        true => kept.insert("message".to_owned(), status["message"].clone()),
        false => kept.insert("causes".to_owned(), json!(causes)),
    };
    kept
}

/// Of a definition its status alone: the rest is what was sent. Of columns what they hold.
fn accepted(body: &Value) -> Map<String, Value> {
    let mut object = normal::plain(body);
    if let Some(fields) = object.as_object_mut() {
        fields.remove("metadata");
        fields.remove("apiVersion");
        if fields.get("kind").is_some_and(|it| it == "CustomResourceDefinition") {
            fields.remove("spec");
        }
        fields.remove("kind");
        let columns = fields.get_mut("columnDefinitions").and_then(Value::as_array_mut);
        let columns = columns.into_iter().flatten().filter_map(Value::as_object_mut);
        columns.for_each(|it| drop(it.remove("description")));
    }
    [("object".to_owned(), object)].into_iter().collect()
}

/// Of something large, enough to tell whether it is the same (FNV-1a).
pub(crate) fn digest(what: &str, value: &Value) -> Value {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = value.to_string().bytes().fold(0xcbf2_9ce4_8422_2325, step);
    json!({"what": what, "digest": format!("{hash:016x}")})
}
