//! What is different between two trees, field by field. Pure.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Of one step.
const CHANGES_MAX: usize = 200;

/// One field that was added, changed or removed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// `spec.tolerations[0].key`
    pub path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

impl Change {
    pub(super) fn n_bytes(&self) -> usize {
        let values = [&self.before, &self.after].into_iter().flatten();
        self.path.len() + values.map(|it| it.to_string().len()).sum::<usize>()
    }
}

/// The changes in the order of the fields, and how many more there are.
pub fn diff(before: &Value, after: &Value) -> (Vec<Change>, usize) {
    let mut found = Found { changes: Vec::new(), n_left_out: 0 };
    found.compare("", Some(before), Some(after));
    (found.changes, found.n_left_out)
}

struct Found {
    changes: Vec<Change>,
    n_left_out: usize,
}

impl Found {
    fn compare(&mut self, path: &str, before: Option<&Value>, after: Option<&Value>) {
        match (before, after) {
            (before, after) if before == after => {}
            (Some(Value::Object(before)), Some(Value::Object(after))) => {
                for (key, value) in before {
                    self.compare(&child(path, key), Some(value), after.get(key));
                }
                for (key, value) in after.iter().filter(|it| !before.contains_key(it.0)) {
                    self.compare(&child(path, key), None, Some(value));
                }
            }
            (Some(Value::Array(before)), Some(Value::Array(after))) => {
                // What was put in or taken out somewhere leaves the rest where it is.
                let n_first = before.iter().zip(after).take_while(|(a, b)| a == b).count();
                let pairs = before[n_first..].iter().rev().zip(after[n_first..].iter().rev());
                let n_last = pairs.take_while(|(a, b)| a == b).count();
                let middle = (before.len() - n_last, after.len() - n_last);
                for index in n_first..middle.0.max(middle.1) {
                    let at = |list: &'_ [Value], end: usize| {
                        list.get(index).filter(|_| index < end).cloned()
                    };
                    let (old, new) = (at(before, middle.0), at(after, middle.1));
                    self.compare(&format!("{path}[{index}]"), old.as_ref(), new.as_ref());
                }
            }
            (before, after) => self.add(path, before, after),
        }
    }

    fn add(&mut self, path: &str, before: Option<&Value>, after: Option<&Value>) {
        if self.changes.len() == CHANGES_MAX {
            self.n_left_out += 1;
            return;
        }
        self.changes.push(Change {
            path: path.to_owned(),
            before: before.cloned(),
            after: after.cloned(),
        });
    }
}

/// Keys that are no plain words are quoted.
fn child(path: &str, key: &str) -> String {
    let is_plain = key.bytes().all(|it| it.is_ascii_alphanumeric() || b"-_".contains(&it));
    match (is_plain && !key.is_empty(), path) {
        (true, "") => key.to_owned(),
        (true, path) => format!("{path}.{key}"),
        (false, path) => format!("{path}[{key:?}]"),
    }
}
