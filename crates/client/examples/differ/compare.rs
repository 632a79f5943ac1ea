//! Whether a client could tell two answers apart, and by what. Pure.

use serde_json::Value;

#[derive(Default)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: Value,
    pub(crate) warnings: Vec<String>,
}

/// What is not the same, the first of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Of {
    Code,
    Reason,
    /// Which fields, and what kind of mistake each.
    Causes,
    /// What is said of each field.
    Texts,
    Object,
    /// Of an object that is the same otherwise: what is written of what is empty.
    Empties,
    /// Of an object that is the same otherwise: who is said to have written which field.
    Managers,
    /// Of a refusal that is the same otherwise: what is said in all.
    Message,
}

impl Of {
    pub(crate) const ALL: &[Self] = &[
        Self::Code,
        Self::Reason,
        Self::Causes,
        Self::Texts,
        Self::Object,
        Self::Empties,
        Self::Managers,
        Self::Message,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::Reason => "reason",
            Self::Causes => "causes",
            Self::Texts => "texts",
            Self::Message => "message",
            Self::Object => "object",
            Self::Empties => "empties",
            Self::Managers => "managers",
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    pub(crate) of: Of,
    pub(crate) upstream: String,
    pub(crate) ours: String,
}

/// Set by each server for itself.
const OWN: &[&str] = &["resourceVersion", "uid"];

pub(crate) fn compare(upstream: &Answer, ours: &Answer) -> Option<Difference> {
    let text = |it: &Value, name: &str| it[name].as_str().unwrap_or_default().to_owned();
    if upstream.code != ours.code {
        let shown = |it: &Answer| {
            let warnings = it.warnings.iter().map(|it| format!(" ({it})")).collect::<String>();
            format!("{} {}{warnings}", it.code, text(&it.body, "message"))
        };
        return difference(Of::Code, shown(upstream), shown(ours));
    }
    if upstream.code < 300 {
        return objects(&upstream.body, &ours.body);
    }
    let of = |it: &Answer, what: &[&str]| causes(&it.body, what);
    difference(Of::Reason, text(&upstream.body, "reason"), text(&ours.body, "reason"))
        .or_else(|| {
            let what = ["field", "reason"];
            difference(Of::Causes, of(upstream, &what), of(ours, &what))
        })
        .or_else(|| {
            let what = ["field", "message"];
            let texts = |it: &Answer| without_ids(&of(it, &what));
            difference(Of::Texts, texts(upstream), texts(ours))
        })
        .or_else(|| {
            let message = |it: &Answer| without_ids(&text(&it.body, "message"));
            difference(Of::Message, message(upstream), message(ours))
        })
}

/// Ids are each server's own, also where texts name them.
fn without_ids(text: &str) -> String {
    const LENGTHS: [usize; 5] = [8, 4, 4, 4, 12];
    const LENGTH: usize = 36;
    let is_id = |it: &str| {
        let parts: Vec<&str> = it.split('-').collect();
        let is_hex = |it: &str| it.bytes().all(|it| it.is_ascii_hexdigit());
        parts.iter().map(|it| it.len()).eq(LENGTHS) && parts.iter().all(|it| is_hex(it))
    };
    let (mut clean, mut rest) = (String::new(), text);
    while let Some(first) = rest.chars().next() {
        let length = match rest.get(..LENGTH) {
            Some(word) if is_id(word) => {
                clean.push_str("(id)");
                LENGTH
            }
            _ => {
                clean.push(first);
                first.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    clean
}

fn difference(of: Of, upstream: String, ours: String) -> Option<Difference> {
    (upstream != ours).then_some(Difference { of, upstream, ours })
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
        let metadata = it.get_mut("metadata").and_then(Value::as_object_mut);
        let managers = metadata.and_then(|metadata| {
            OWN.iter().for_each(|name| drop(metadata.remove(*name)));
            metadata.remove("managedFields")
        });
        (it, managers.unwrap_or_default())
    };
    let (upstream, ours) = (clean(upstream), clean(ours));
    let walked = |of, upstream: &Value, ours: &Value| {
        let mut found = (Vec::new(), Vec::new());
        walk(upstream, ours, "", &mut found);
        difference(of, found.0.join(", "), found.1.join(", "))
    };
    let filled = |it: &Value| without_empties(it).unwrap_or_default();
    walked(Of::Object, &filled(&upstream.0), &filled(&ours.0))
        .or_else(|| walked(Of::Empties, &upstream.0, &ours.0))
        .or_else(|| walked(Of::Managers, &managers(&upstream.1), &managers(&ours.1)))
}

/// The value without anything in it that is empty or zero; nothing, if that is all of it.
fn without_empties(value: &Value) -> Option<Value> {
    match value {
        Value::Null | Value::Bool(false) => None,
        Value::String(text) => (!text.is_empty()).then(|| value.clone()),
        Value::Number(number) => (number.as_f64() != Some(0.0)).then(|| value.clone()),
        Value::Object(fields) => {
            let kept =
                fields.iter().filter_map(|(name, it)| Some((name.clone(), without_empties(it)?)));
            let kept: serde_json::Map<String, Value> = kept.collect();
            (!kept.is_empty()).then_some(Value::Object(kept))
        }
        Value::Array(items) => {
            let kept = items.iter().map(|it| without_empties(it).unwrap_or_default());
            (!items.is_empty()).then(|| Value::Array(kept.collect()))
        }
        Value::Bool(true) => Some(value.clone()),
    }
}

/// By who they are: those of one second are in no order that counts.
fn managers(list: &Value) -> Value {
    let all = list.as_array().into_iter().flatten();
    let text = |it: &Value, name: &str| it[name].as_str().unwrap_or_default().to_owned();
    let named = all.map(|it| {
        let who = ["manager", "operation", "subresource", "apiVersion"].map(|name| text(it, name));
        (who.join(" "), it.clone())
    });
    Value::Object(named.collect())
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
    let is_volume = text.starts_with("kube-api-access-");
    is_id || is_time || is_volume || text.starts_with("X509SHA256=")
}
