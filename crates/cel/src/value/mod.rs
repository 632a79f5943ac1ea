//! Values. They borrow from what is evaluated and from the program (`'a`), and own what evaluation
//! made. JSON is read in place: a list or map of JSON is a reference and a `Shape`.

mod compare;
mod json;
mod map;
mod time;

use std::any::Any;
use std::fmt;
use std::sync::Arc;

pub(crate) use json::concat;
pub use json::{ListKind, Shape, UNTYPED, Untyped, from_json, to_json};
pub use map::{Key, Map, MapView, NativeMap};
use serde_json::Value as Json;
pub(crate) use time::Local;
pub use time::{Duration, Timestamp};

use crate::error::Error;
use crate::work;

/// So large one result may be. Costs go by what is read, which may be far less than what is made:
/// `replace` and `join` repeat their arguments.
const RESULT_BYTES_MAX: usize = 32 << 20;

/// Asked before something is made whose size is no longer bounded by its arguments.
pub(crate) fn check_size(n_bytes: usize) -> Result<(), Error> {
    if n_bytes > RESULT_BYTES_MAX { Err(Error::CostExceeded) } else { Ok(()) }
}

/// A value of an expression.
#[derive(Debug, Clone)]
pub enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Text<'a>),
    Bytes(Bytes<'a>),
    Duration(Duration),
    Timestamp(Timestamp),
    List(List<'a>),
    Map(Map<'a>),
    Optional(Option<Arc<Self>>),
    /// A type, by its name.
    Type(Text<'a>),
    Opaque(Arc<dyn Opaque>),
}

/// A value that only the library that made it understands: a quantity, an address.
pub trait Opaque: Any + fmt::Debug + Send + Sync {
    fn type_name(&self) -> &str;

    fn equals(&self, other: &dyn Opaque) -> bool;

    /// What `size` is for the cost of calls with it; 1 if it has none.
    fn size(&self) -> u64 {
        1
    }

    fn is_zero(&self) -> bool {
        false
    }
}

impl dyn Opaque {
    pub fn downcast_ref<T: Opaque>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }
}

/// A string.
#[derive(Clone)]
pub enum Text<'a> {
    Borrowed(&'a str),
    Shared(Arc<str>),
}

impl Text<'_> {
    pub fn as_str(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Shared(text) => text,
        }
    }
}

impl std::ops::Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Debug for Text<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?}", self.as_str())
    }
}

#[derive(Debug, Clone)]
pub enum Bytes<'a> {
    Borrowed(&'a [u8]),
    Shared(Arc<[u8]>),
}

impl std::ops::Deref for Bytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }
}

/// A list of JSON with the shape of the whole list.
#[derive(Debug, Clone, Copy)]
pub struct JsonList<'a> {
    pub items: &'a [Json],
    pub shape: &'a dyn Shape,
}

/// A list: made by evaluation, JSON, or somebody else's.
#[derive(Debug, Clone)]
pub enum List<'a> {
    Native(Arc<Vec<Value<'a>>>),
    Json(JsonList<'a>),
    Foreign(&'a dyn ListView),
}

/// A list that the host shows to expressions.
pub trait ListView: fmt::Debug + Send + Sync {
    fn len(&self) -> usize;

    fn get(&self, index: usize) -> Result<Option<Value<'_>>, Error>;

    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<'a> List<'a> {
    pub fn len(&self) -> usize {
        match self {
            Self::Native(items) => items.len(),
            Self::Json(list) => list.items.len(),
            Self::Foreign(view) => view.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn get(&self, index: usize) -> Result<Option<Value<'a>>, Error> {
        match self {
            Self::Native(items) => Ok(items.get(index).cloned()),
            Self::Json(list) => match list.items.get(index) {
                Some(json) => from_json(json, list.shape.item()).map(Some),
                None => Ok(None),
            },
            Self::Foreign(view) => view.get(index),
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = Result<Value<'a>, Error>> {
        (0..self.len()).filter_map(|index| self.get(index).transpose())
    }

    pub fn contains(&self, value: &Value<'_>) -> Result<bool, Error> {
        for item in self.iter() {
            if item?.equals(value)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl<'a> Value<'a> {
    pub fn list(items: Vec<Self>) -> Self {
        Self::List(List::Native(Arc::new(items)))
    }

    /// The memory of a value that nobody else has: what a call that answered it must have made.
    pub(crate) fn n_bytes_made(&self) -> usize {
        match self {
            Self::String(Text::Shared(text)) if Arc::strong_count(text) == 1 => text.len(),
            Self::Bytes(Bytes::Shared(bytes)) if Arc::strong_count(bytes) == 1 => bytes.len(),
            Self::List(List::Native(items)) if Arc::strong_count(items) == 1 => {
                items.len() * size_of::<Self>()
            }
            _ => 0,
        }
    }

    pub fn some(value: Self) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    pub const NONE: Self = Self::Optional(None);

    pub fn opaque(value: impl Opaque) -> Self {
        Self::Opaque(Arc::new(value))
    }

    pub fn borrowed(text: &'a str) -> Self {
        Self::String(Text::Borrowed(text))
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// The opaque value of a library, if it is of that Rust type.
    pub fn downcast_ref<T: Opaque>(&self) -> Option<&T> {
        match self {
            Self::Opaque(value) => value.downcast_ref(),
            _ => None,
        }
    }

    pub fn type_name(&self) -> &str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Duration(_) => "google.protobuf.Duration",
            Self::Timestamp(_) => "google.protobuf.Timestamp",
            Self::List(_) => "list",
            Self::Map(map) => map.type_name(),
            Self::Optional(_) => "optional_type",
            Self::Type(_) => "type",
            Self::Opaque(value) => value.type_name(),
        }
    }

    /// The size that costs go by: characters, bytes, elements or entries, else 1.
    pub fn size(&self) -> u64 {
        match self {
            Self::String(text) => {
                work::note(work::of_bytes(text.len()));
                text.chars().count() as u64
            }
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::List(list) => list.len() as u64,
            Self::Map(map) => map.len() as u64,
            Self::Optional(Some(inner)) => inner.size(),
            Self::Opaque(value) => value.size(),
            _ => 1,
        }
    }

    /// Whether it is empty, zero or unset.
    pub fn is_zero(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Bool(value) => !value,
            Self::Int(value) => *value == 0,
            Self::Uint(value) => *value == 0,
            Self::Double(value) => *value == 0.0,
            Self::String(text) => text.is_empty(),
            Self::Bytes(bytes) => bytes.is_empty(),
            Self::Duration(value) => value.nanoseconds() == 0,
            Self::Timestamp(value) => value.is_unset(),
            Self::List(list) => list.is_empty(),
            Self::Map(map) => map.is_empty(),
            Self::Opaque(value) => value.is_zero(),
            // No optional is, not even one that holds nothing.
            Self::Optional(_) | Self::Type(_) => false,
        }
    }
}

impl From<bool> for Value<'_> {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Value<'_> {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<u64> for Value<'_> {
    fn from(value: u64) -> Self {
        Self::Uint(value)
    }
}

impl From<f64> for Value<'_> {
    fn from(value: f64) -> Self {
        Self::Double(value)
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        work::note(work::of_bytes(text.len()));
        Self::String(Text::Shared(text.into()))
    }
}

impl From<Vec<u8>> for Value<'_> {
    fn from(bytes: Vec<u8>) -> Self {
        work::note(work::of_bytes(bytes.len()));
        Self::Bytes(Bytes::Shared(bytes.into()))
    }
}

impl fmt::Display for Value<'_> {
    /// For error texts and tests: as a literal of the language where there is one.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => out.write_str("null"),
            Self::Bool(value) => write!(out, "{value}"),
            Self::Int(value) => write!(out, "{value}"),
            Self::Uint(value) => write!(out, "{value}u"),
            Self::Double(value) if value.fract() == 0.0 && value.abs() < 1e15 => {
                write!(out, "{value:.1}")
            }
            Self::Double(value) => write!(out, "{value}"),
            Self::String(text) => write!(out, "{:?}", text.as_str()),
            Self::Bytes(bytes) => write!(out, "b\"{}\"", bytes.escape_ascii()),
            Self::Duration(value) => write!(out, "duration(\"{value}\")"),
            Self::Timestamp(value) => write!(out, "timestamp(\"{value}\")"),
            Self::List(list) => {
                out.write_str("[")?;
                for (index, item) in list.iter().enumerate() {
                    let comma = if index > 0 { ", " } else { "" };
                    match item {
                        Ok(item) => write!(out, "{comma}{item}")?,
                        Err(err) => write!(out, "{comma}<{err}>")?,
                    }
                }
                out.write_str("]")
            }
            Self::Map(map) => write!(out, "{map}"),
            Self::Optional(None) => out.write_str("optional.none()"),
            Self::Optional(Some(inner)) => write!(out, "optional.of({inner})"),
            Self::Type(name) => out.write_str(name),
            Self::Opaque(value) => write!(out, "{value:?}"),
        }
    }
}
