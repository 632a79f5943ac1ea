//! Expectations: what was expected and what was seen, by path.

use anyhow::{Result, anyhow, bail, ensure};
use serde_json::Value;

use crate::client::Refusal;

/// The object has all that `expected` says: its fields, and lists item by item.
pub(crate) fn shows(seen: &Value, expected: &Value) -> Result<()> {
    let who = seen.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let kind = seen["kind"].as_str().unwrap_or("value");
    difference("", seen, expected).map_or(Ok(()), |it| Err(anyhow!("{kind} {who}: {it}")))
}

fn difference(path: &str, seen: &Value, expected: &Value) -> Option<String> {
    match (seen, expected) {
        (Value::Object(seen), Value::Object(expected)) => {
            expected.iter().find_map(|(key, value)| {
                let path = format!("{path}.{key}");
                difference(&path, seen.get(key).unwrap_or(&Value::Null), value)
            })
        }
        (Value::Array(seen), Value::Array(expected)) if seen.len() == expected.len() => {
            let pairs = seen.iter().zip(expected).enumerate();
            pairs
                .into_iter()
                .find_map(|(at, (seen, value))| difference(&format!("{path}[{at}]"), seen, value))
        }
        _ if seen == expected => None,
        _ => Some(format!("{path}: expected {expected}, saw {seen}")),
    }
}

/// The two are equal.
pub(crate) fn same<T: PartialEq + std::fmt::Debug>(what: &str, seen: T, expected: T) -> Result<()> {
    ensure!(seen == expected, "{what}: expected {expected:?}, saw {seen:?}");
    Ok(())
}

/// The text has all of these.
pub(crate) fn says(what: &str, text: &str, parts: &[&str]) -> Result<()> {
    for part in parts {
        ensure!(text.contains(part), "{what}: expected {part:?} in it, saw {text}");
    }
    Ok(())
}

/// The server refused, whatever the code.
pub(crate) fn refusal<T>(what: &str, outcome: Result<T>) -> Result<Refusal> {
    let Err(err) = outcome else { bail!("{what}: expected a refusal, and it was accepted") };
    err.downcast::<Refusal>().map_err(|err| err.context(what.to_owned()))
}

/// The server refused, with this code.
pub(crate) fn refused<T>(what: &str, outcome: Result<T>, code: u16) -> Result<Refusal> {
    let refusal = refusal(what, outcome)?;
    ensure!(refusal.code == code, "{what}: expected {code}, saw: {refusal}");
    Ok(refusal)
}

/// The object's version: a decimal number above zero without leading zeros, which is what clients
/// may compare since v1.35.
pub(crate) fn version(object: &Value) -> Result<u64> {
    let text = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
    let is_number = !text.starts_with('0') && text.bytes().all(|it| it.is_ascii_digit());
    ensure!(is_number && !text.is_empty(), "resourceVersion: expected a number, saw {text:?}");
    Ok(text.parse()?)
}

/// The second is of a later version.
pub(crate) fn newer(before: &Value, after: &Value) -> Result<()> {
    let (before, after) = (version(before)?, version(after)?);
    ensure!(after > before, "resourceVersion: expected more than {before}, saw {after}");
    Ok(())
}

pub(crate) fn items(list: &Value) -> Result<&Vec<Value>> {
    list["items"].as_array().ok_or_else(|| anyhow!("a list without items: {list}"))
}

pub(crate) fn count(what: &str, list: &Value, expected: usize) -> Result<()> {
    same(&format!("{what}: number of items"), items(list)?.len(), expected)
}

pub(crate) fn name(object: &Value) -> Result<&str> {
    object["metadata"]["name"].as_str().ok_or_else(|| anyhow!("an object without a name: {object}"))
}

/// Either there is no such object any more, or it waits for its finalizers.
pub(crate) fn is_going(outcome: Result<Value>) -> Result<()> {
    match outcome {
        Ok(object) => {
            ensure!(is_terminating(&object), "expected it to be deleted, saw {object}");
            Ok(())
        }
        Err(err) => refused("reading what was deleted", Err::<(), _>(err), 404).map(drop),
    }
}

pub(crate) fn is_terminating(object: &Value) -> bool {
    let metadata = &object["metadata"];
    metadata["deletionTimestamp"].is_string()
        && metadata["finalizers"].as_array().is_some_and(|it| !it.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{difference, version};

    #[test]
    fn what_differs_is_named_by_its_path() {
        let seen = json!({ "a": { "b": [1, { "c": "x" }] }, "more": true });
        let check = |expected| difference("", &seen, &expected);
        assert_eq!(check(json!({ "a": { "b": [1, { "c": "x" }] } })), None);
        let found = check(json!({ "a": { "b": [1, { "c": "y" }] } }));
        assert_eq!(found.unwrap(), r#".a.b[1].c: expected "y", saw "x""#);
        assert_eq!(check(json!({ "d": 1 })).unwrap(), ".d: expected 1, saw null");
        assert!(check(json!({ "a": { "b": [1] } })).is_some());
    }

    #[test]
    fn a_version_is_a_number_without_leading_zeros() {
        let check = |text: &str| version(&json!({ "metadata": { "resourceVersion": text } })).ok();
        assert_eq!(check("17"), Some(17));
        for wrong in ["", "0", "017", "1a", "-1"] {
            assert_eq!(check(wrong), None, "{wrong}");
        }
    }
}
