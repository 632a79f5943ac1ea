//! Whether a client could tell two answers apart, and by what. Pure.

use serde_json::Value;

pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: Value,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    /// `code`, `reason`, `causes`, `texts`, `message` or `object`.
    pub(crate) of: &'static str,
    pub(crate) upstream: String,
    pub(crate) ours: String,
}

/// Set by each server for itself.
const OWN: &[&str] =
    &["uid", "creationTimestamp", "resourceVersion", "managedFields", "generation"];
const SHOWN_MAX: usize = 400;

pub(crate) fn compare(upstream: &Answer, ours: &Answer) -> Option<Difference> {
    let text = |it: &Value, name: &str| it[name].as_str().unwrap_or_default().to_owned();
    if upstream.code != ours.code {
        let shown = |it: &Answer| format!("{} {}", it.code, text(&it.body, "message"));
        return difference("code", shown(upstream), shown(ours));
    }
    if upstream.code < 300 {
        return objects(&upstream.body, &ours.body);
    }
    let of = |it: &Answer, what: &[&str]| causes(&it.body, what);
    difference("reason", text(&upstream.body, "reason"), text(&ours.body, "reason"))
        .or_else(|| {
            let what = ["field", "reason"];
            difference("causes", of(upstream, &what), of(ours, &what))
        })
        .or_else(|| {
            let what = ["field", "message"];
            difference("texts", of(upstream, &what), of(ours, &what))
        })
        .or_else(|| {
            let message = |it: &Answer| text(&it.body, "message");
            difference("message", message(upstream), message(ours))
        })
}

fn difference(of: &'static str, upstream: String, ours: String) -> Option<Difference> {
    let cut = |it: String| it.chars().take(SHOWN_MAX).collect::<String>();
    (upstream != ours).then(|| Difference { of, upstream: cut(upstream), ours: cut(ours) })
}

/// In any order.
fn causes(status: &Value, what: &[&str]) -> String {
    let all = status["details"]["causes"].as_array().into_iter().flatten();
    let mut all: Vec<String> = all
        .map(|cause| {
            let words = what.iter().map(|it| cause[*it].as_str().unwrap_or_default());
            words.collect::<Vec<_>>().join(": ")
        })
        .collect();
    all.sort();
    all.join("; ")
}

/// The first places where they differ.
fn objects(upstream: &Value, ours: &Value) -> Option<Difference> {
    let clean = |it: &Value| {
        let mut it = it.clone();
        if let Some(metadata) = it["metadata"].as_object_mut() {
            OWN.iter().for_each(|name| drop(metadata.remove(*name)));
        }
        it
    };
    let mut found = (Vec::new(), Vec::new());
    walk(&clean(upstream), &clean(ours), "", &mut found);
    difference("object", found.0.join(", "), found.1.join(", "))
}

fn walk(upstream: &Value, ours: &Value, path: &str, found: &mut (Vec<String>, Vec<String>)) {
    match (upstream, ours) {
        (Value::Object(a), Value::Object(b)) => {
            let names: std::collections::BTreeSet<_> = a.keys().chain(b.keys()).collect();
            for name in names {
                let path = format!("{path}.{name}");
                match (a.get(name), b.get(name)) {
                    (Some(a), Some(b)) => walk(a, b, &path, found),
                    (a, b) => {
                        let shown = |it: Option<&Value>| {
                            it.map_or_else(|| "absent".into(), Value::to_string)
                        };
                        found.0.push(format!("{path}: {}", shown(a)));
                        found.1.push(format!("{path}: {}", shown(b)));
                    }
                }
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                walk(a, b, &format!("{path}[{index}]"), found);
            }
        }
        (Value::String(a), Value::String(b)) if is_own(a) && is_own(b) => {}
        (a, b) if a != b => {
            found.0.push(format!("{path}: {a}"));
            found.1.push(format!("{path}: {b}"));
        }
        _ => {}
    }
}

/// An id, a time or a credential: each server has its own.
fn is_own(text: &str) -> bool {
    let is_id = text.len() == 36 && text.split('-').map(str::len).eq([8, 4, 4, 4, 12]);
    let is_time = text.len() == 20 && text.ends_with('Z') && text.as_bytes()[10] == b'T';
    is_id || is_time || text.starts_with("X509SHA256=")
}
