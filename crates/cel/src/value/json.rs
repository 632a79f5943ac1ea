//! JSON as values, read in place. A `Shape` says what JSON alone does not: that a string is a
//! timestamp, that a field is invisible, that a list is a set.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value as Json;

use super::{JsonList, Key, List, Map, NativeMap, Text, Value};
use crate::error::Error;
use crate::work;

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
    work::take(left.len() + right.len())?;
    let mut items = left.iter().collect::<Result<Vec<_>, _>>()?;
    match kind {
        ListKind::Atomic => {
            for item in right.iter() {
                items.push(item?);
            }
        }
        ListKind::Set => {
            let mut known = Index::new(&items, &[])?;
            for item in right.iter() {
                let item = item?;
                if known.insert(&item, items.len())?.is_none() {
                    items.push(item);
                }
            }
        }
        ListKind::Map(keys) => {
            let mut known = Index::new(&items, keys)?;
            for item in right.iter() {
                let item = item?;
                match known.insert(&item, items.len())? {
                    Some(at) => items[at] = item,
                    None => items.push(item),
                }
            }
        }
    }
    Ok(Value::list(items))
}

/// Where elements are, by what tells them apart. Lists may be long, and comparing costs only as
/// much as going over them once.
struct Index<'k> {
    keys: &'k [String],
    places: HashMap<String, usize>,
}

impl<'k> Index<'k> {
    fn new(items: &[Value<'_>], keys: &'k [String]) -> Result<Self, Error> {
        let mut index = Self { keys, places: HashMap::new() };
        for (at, item) in items.iter().enumerate() {
            index.insert(item, at)?;
        }
        Ok(index)
    }

    /// Where it was before, if it was; else it is at this place.
    fn insert(&mut self, item: &Value<'_>, at: usize) -> Result<Option<usize>, Error> {
        let identity = self.identity(item)?;
        if let Some(known) = self.places.get(&identity) {
            return Ok(Some(*known));
        }
        self.places.insert(identity, at);
        Ok(None)
    }

    fn find(&self, item: &Value<'_>) -> Result<Option<usize>, Error> {
        Ok(self.places.get(&self.identity(item)?).copied())
    }

    fn identity(&self, item: &Value<'_>) -> Result<String, Error> {
        let Value::Map(map) = item else { return identity(item) };
        if self.keys.is_empty() {
            return identity(item);
        }
        let mut text = String::new();
        for key in self.keys {
            match map.get_str(key)? {
                Some(value) => text.push_str(&identity(&value)?),
                None => text.push('-'),
            }
            text.push('\u{1f}');
        }
        Ok(text)
    }
}

/// A text that equal values have in common.
fn identity(value: &Value<'_>) -> Result<String, Error> {
    let text = identity_text(value)?;
    work::take(1 + text.len() / 8)?;
    Ok(text)
}

fn identity_text(value: &Value<'_>) -> Result<String, Error> {
    Ok(match (Key::from_value(value), value) {
        (Some(Key::Int(n)), _) => n.to_string(),
        (Some(Key::Uint(n)), _) => n.to_string(),
        (_, Value::Bytes(bytes)) => format!("{:?}", &**bytes),
        _ => to_json(value)?.to_string(),
    })
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
                work::take(1)?;
                if !a?.equals(&b?)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        ListKind::Set => {
            let known = Index::new(&left.iter().collect::<Result<Vec<_>, _>>()?, &[])?;
            for item in right.iter() {
                if known.find(&item?)?.is_none() {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        ListKind::Map(keys) => {
            let items = left.iter().collect::<Result<Vec<_>, _>>()?;
            let known = Index::new(&items, keys)?;
            for other in right.iter() {
                let other = other?;
                match known.find(&other)? {
                    Some(at) if items[at].equals(&other)? => {}
                    _ => return Ok(false),
                }
            }
            Ok(true)
        }
    }
}

/// A map of evaluation from its entries.
impl<'a> From<NativeMap<'a>> for Value<'a> {
    fn from(map: NativeMap<'a>) -> Self {
        Self::Map(Map::Native(Arc::new(map)))
    }
}
