//! JSON as values, read in place. A `Shape` says what JSON alone does not: that a string is a
//! timestamp, that a field is invisible, that a list is a set.

use std::fmt;
use std::sync::Arc;

use serde_json::Value as Json;

use super::{JsonList, Key, List, Map, NativeMap, Text, Value};
use crate::error::Error;

/// How lists of JSON compare and are joined.
#[derive(Debug, Clone, Copy)]
pub enum ListKind<'s> {
    /// By position.
    Atomic,
    /// Without order, each element once.
    Set,
    /// Objects that are told apart by these fields.
    Map(&'s [String]),
}

/// How a node of JSON is seen by expressions. The defaults are JSON as it is.
pub trait Shape: fmt::Debug + Send + Sync {
    /// The value of what is neither list nor object.
    fn scalar<'a>(&'a self, json: &'a Json) -> Result<Value<'a>, Error> {
        Ok(plain(json))
    }

    /// What `.name` or `[name]` is of this object; `None` if it is not there or not visible. The
    /// name is as written in the expression.
    fn get<'a>(
        &'a self,
        object: &'a serde_json::Map<String, Json>,
        name: &str,
    ) -> Result<Option<Value<'a>>, Error> {
        match object.get(name) {
            Some(json) => from_json(json, &UNTYPED).map(Some),
            None => Ok(None),
        }
    }

    /// How expressions call the entry `key` when they go over all of them; `None` if they do not
    /// see it.
    fn name<'a>(&'a self, key: &'a str, _value: &Json) -> Option<Text<'a>> {
        Some(Text::Borrowed(key))
    }

    /// The shape of elements, if this is a list.
    fn item(&self) -> &dyn Shape {
        &UNTYPED
    }

    /// The name of the type, if this is an object with fields.
    fn type_name(&self) -> Option<&str> {
        None
    }

    fn list_kind(&self) -> ListKind<'_> {
        ListKind::Atomic
    }

    /// Whether two objects are equal in what expressions do not see of them.
    fn has_equal_rest(
        &self,
        _one: &serde_json::Map<String, Json>,
        _other: &serde_json::Map<String, Json>,
    ) -> bool {
        true
    }
}

/// JSON as it is.
#[derive(Debug, Clone, Copy)]
pub struct Untyped;

impl Shape for Untyped {}

pub static UNTYPED: Untyped = Untyped;

/// A node of JSON as a value: lists and objects are references.
pub fn from_json<'a>(json: &'a Json, shape: &'a dyn Shape) -> Result<Value<'a>, Error> {
    match json {
        Json::Array(items) => Ok(Value::List(List::Json(JsonList { items, shape }))),
        Json::Object(entries) => Ok(Value::Map(Map::Json { entries, shape })),
        scalar => shape.scalar(scalar),
    }
}

fn plain(json: &Json) -> Value<'_> {
    match json {
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(value), _) => Value::Int(value),
            (None, Some(value)) => Value::Uint(value),
            (None, None) => Value::Double(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => Value::String(Text::Borrowed(text)),
        _ => Value::Null,
    }
}

/// A value as JSON, where it has a form: bytes are base64-free text if they are UTF-8, times and
/// durations their text.
pub fn to_json(value: &Value<'_>) -> Result<Json, Error> {
    Ok(match value {
        Value::Null => Json::Null,
        Value::Bool(value) => Json::from(*value),
        Value::Int(value) => Json::from(*value),
        Value::Uint(value) => Json::from(*value),
        Value::Double(value) => Json::from(*value),
        Value::String(text) => Json::from(text.as_str()),
        Value::Duration(value) => Json::from(value.to_string()),
        Value::Timestamp(value) => Json::from(value.to_string()),
        Value::List(list) => {
            let items: Result<Vec<Json>, Error> =
                list.iter().map(|item| item.and_then(|item| to_json(&item))).collect();
            Json::Array(items?)
        }
        Value::Map(map) => {
            let mut out = serde_json::Map::new();
            for key in map.keys() {
                let Key::String(name) = &key else {
                    return Err(Error::refused("only maps with string keys have a JSON form"));
                };
                if let Some(value) = map.get(&key)? {
                    out.insert(name.as_str().to_owned(), to_json(&value)?);
                }
            }
            Json::Object(out)
        }
        Value::Bytes(_) | Value::Optional(_) | Value::Type(_) | Value::Opaque(_) => {
            let what = format!("a value of type {} has no JSON form", value.type_name());
            return Err(Error::refused(what));
        }
    })
}

/// Concatenation that follows the kind of the left list.
pub(crate) fn concat<'a>(left: &List<'a>, right: &List<'a>) -> Result<Value<'a>, Error> {
    let kind = match left {
        List::Json(list) => list.shape.list_kind(),
        List::Native(_) | List::Foreign(_) => ListKind::Atomic,
    };
    let mut items = left.iter().collect::<Result<Vec<_>, _>>()?;
    match kind {
        ListKind::Atomic => {
            for item in right.iter() {
                items.push(item?);
            }
        }
        ListKind::Set => {
            for item in right.iter() {
                let item = item?;
                if !contains(&items, &item)? {
                    items.push(item);
                }
            }
        }
        ListKind::Map(keys) => {
            for item in right.iter() {
                merge_by_keys(&mut items, item?, keys)?;
            }
        }
    }
    Ok(Value::list(items))
}

fn contains(items: &[Value<'_>], item: &Value<'_>) -> Result<bool, Error> {
    for known in items {
        if known.equals(item)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn merge_by_keys<'a>(
    items: &mut Vec<Value<'a>>,
    item: Value<'a>,
    keys: &[String],
) -> Result<(), Error> {
    for known in items.iter_mut() {
        if is_same_by_keys(known, &item, keys)? {
            *known = item;
            return Ok(());
        }
    }
    items.push(item);
    Ok(())
}

fn is_same_by_keys(a: &Value<'_>, b: &Value<'_>, keys: &[String]) -> Result<bool, Error> {
    let (Value::Map(a), Value::Map(b)) = (a, b) else { return Ok(false) };
    for key in keys {
        let same = match (a.get_str(key)?, b.get_str(key)?) {
            (Some(a), Some(b)) => a.equals(&b)?,
            (a, b) => a.is_none() && b.is_none(),
        };
        if !same {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Equality of lists, by the kind of the left one.
pub(super) fn lists_equal(left: &List<'_>, right: &List<'_>) -> Result<bool, Error> {
    if left.len() != right.len() {
        return Ok(false);
    }
    let kind = match left {
        List::Json(list) => list.shape.list_kind(),
        List::Native(_) | List::Foreign(_) => ListKind::Atomic,
    };
    match kind {
        ListKind::Atomic => {
            for (a, b) in left.iter().zip(right.iter()) {
                if !a?.equals(&b?)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        ListKind::Set => {
            for item in right.iter() {
                if !left.contains(&item?)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        ListKind::Map(keys) => {
            for item in left.iter() {
                let item = item?;
                let other = find_by_keys(right, &item, keys)?;
                if !other.map_or(Ok(false), |other| item.equals(&other))? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
    }
}

fn find_by_keys<'a>(
    list: &List<'a>,
    item: &Value<'_>,
    keys: &[String],
) -> Result<Option<Value<'a>>, Error> {
    for other in list.iter() {
        let other = other?;
        if is_same_by_keys(item, &other, keys)? {
            return Ok(Some(other));
        }
    }
    Ok(None)
}

/// A map of evaluation from its entries.
impl<'a> From<NativeMap<'a>> for Value<'a> {
    fn from(map: NativeMap<'a>) -> Self {
        Self::Map(Map::Native(Arc::new(map)))
    }
}
