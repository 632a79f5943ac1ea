//! Maps and objects: made by evaluation, JSON, or the host's.

use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde_json::Value as Json;

use super::{Shape, Text, Value};
use crate::error::Error;
use crate::work;

/// Up to this size a map is searched entry by entry.
const SCANNED_MAX: usize = 8;

/// A key of a map. Integers of both kinds are one number.
#[derive(Debug, Clone)]
pub enum Key<'a> {
    Bool(bool),
    Int(i64),
    Uint(u64),
    String(Text<'a>),
}

impl<'a> Key<'a> {
    /// The value as a key. A double is the integer it equals.
    pub fn from_value(value: &Value<'a>) -> Option<Self> {
        match value {
            Value::Bool(value) => Some(Self::Bool(*value)),
            Value::Int(value) => Some(Self::Int(*value)),
            Value::Uint(value) => Some(Self::Uint(*value)),
            Value::String(text) => Some(Self::String(text.clone())),
            Value::Double(value) if value.fract() == 0.0 && value.abs() < 2f64.powi(63) =>
            {
                #[expect(clippy::cast_possible_truncation, reason = "checked above")]
                Some(Self::Int(*value as i64))
            }
            _ => None,
        }
    }

    pub fn to_value(&self) -> Value<'a> {
        match self {
            Self::Bool(value) => Value::Bool(*value),
            Self::Int(value) => Value::Int(*value),
            Self::Uint(value) => Value::Uint(*value),
            Self::String(text) => Value::String(text.clone()),
        }
    }

    fn number(&self) -> Option<i128> {
        match self {
            Self::Int(value) => Some(i128::from(*value)),
            Self::Uint(value) => Some(i128::from(*value)),
            Self::Bool(_) | Self::String(_) => None,
        }
    }
}

impl PartialEq for Key<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::String(a), Self::String(b)) => a.as_str() == b.as_str(),
            _ => self.number().is_some() && self.number() == other.number(),
        }
    }
}

impl Eq for Key<'_> {}

impl Hash for Key<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::Bool(value) => value.hash(state),
            Self::String(text) => text.as_str().hash(state),
            Self::Int(_) | Self::Uint(_) => self.number().hash(state),
        }
    }
}

/// A map made by evaluation; it keeps the order in which entries came.
#[derive(Debug, Clone, Default)]
pub struct NativeMap<'a> {
    /// The type, if this is an object.
    type_name: Option<Arc<str>>,
    entries: Vec<(Key<'a>, Value<'a>)>,
    /// Where each key is, once there are more than a few.
    index: HashMap<Key<'a>, usize>,
}

impl<'a> NativeMap<'a> {
    /// An object of a type, for `TypeProvider::construct`.
    pub fn object(type_name: Arc<str>) -> Self {
        Self { type_name: Some(type_name), ..Self::default() }
    }

    pub fn entries(&self) -> &[(Key<'a>, Value<'a>)] {
        &self.entries
    }

    fn position(&self, key: &Key<'_>) -> Option<usize> {
        if self.entries.len() <= SCANNED_MAX {
            return self.entries.iter().position(|(known, _)| known == key);
        }
        // The lifetime of the index' keys is longer; comparing does not need that.
        self.index.get(key).copied()
    }

    pub fn get(&self, key: &Key<'_>) -> Option<&Value<'a>> {
        self.position(key).map(|at| &self.entries[at].1)
    }

    /// Adds an entry, or replaces the value of one.
    pub fn insert(&mut self, key: Key<'a>, value: Value<'a>) {
        if let Some(at) = self.position(&key) {
            self.entries[at].1 = value;
            return;
        }
        self.entries.push((key, value));
        let n = self.entries.len();
        let unindexed = if n == SCANNED_MAX + 1 { 0 } else { n - 1 };
        if n > SCANNED_MAX {
            for (at, (key, _)) in self.entries.iter().enumerate().skip(unindexed) {
                self.index.insert(key.clone(), at);
            }
        }
    }

    pub fn contains(&self, key: &Key<'_>) -> bool {
        self.position(key).is_some()
    }
}

/// A map or an object.
#[derive(Debug, Clone)]
pub enum Map<'a> {
    Native(Arc<NativeMap<'a>>),
    Json { entries: &'a serde_json::Map<String, Json>, shape: &'a dyn Shape },
    Foreign(&'a dyn MapView),
}

/// A map or object that the host shows to expressions, such as variables that are evaluated when
/// they are asked for.
pub trait MapView: fmt::Debug + Send + Sync {
    fn get(&self, key: &Key<'_>) -> Result<Option<Value<'_>>, Error>;

    fn keys(&self) -> Vec<Key<'_>>;

    /// Whether the key is there, without the value.
    fn has(&self, key: &Key<'_>) -> Result<bool, Error> {
        Ok(self.get(key)?.is_some())
    }

    /// The name of the object's type.
    fn type_name(&self) -> &str {
        "map"
    }
}

impl<'a> Map<'a> {
    pub fn len(&self) -> usize {
        match self {
            Self::Native(map) => map.entries.len(),
            Self::Json { .. } | Self::Foreign(_) => self.keys().len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn type_name(&self) -> &str {
        match self {
            Self::Native(map) => map.type_name.as_deref().unwrap_or("map"),
            Self::Json { shape, .. } => shape.type_name().unwrap_or("map"),
            Self::Foreign(view) => view.type_name(),
        }
    }

    pub fn get(&self, key: &Key<'_>) -> Result<Option<Value<'a>>, Error> {
        match (self, key) {
            (Self::Json { entries, shape }, Key::String(name)) => shape.get(entries, name),
            (Self::Json { .. }, _) => Ok(None),
            (Self::Native(map), key) => Ok(map.get(key).cloned()),
            (Self::Foreign(view), key) => view.get(key),
        }
    }

    pub fn get_str(&self, name: &str) -> Result<Option<Value<'a>>, Error> {
        match self {
            Self::Json { entries, shape } => shape.get(entries, name),
            Self::Native(map) => Ok(map.get(&Key::String(Text::Borrowed(name))).cloned()),
            Self::Foreign(view) => view.get(&Key::String(Text::Borrowed(name))),
        }
    }

    pub fn has(&self, name: &str) -> Result<bool, Error> {
        match self {
            Self::Foreign(view) => view.has(&Key::String(Text::Borrowed(name))),
            _ => Ok(self.get_str(name)?.is_some()),
        }
    }

    pub fn keys(&self) -> Vec<Key<'a>> {
        match self {
            Self::Native(map) => map.entries.iter().map(|(key, _)| key.clone()).collect(),
            Self::Json { entries, shape } => {
                work::note(entries.len());
                let names = entries.iter().filter_map(|(key, json)| shape.name(key, json));
                names.map(Key::String).collect()
            }
            Self::Foreign(view) => view.keys(),
        }
    }
}

impl fmt::Display for Map<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("{")?;
        for (index, key) in self.keys().iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(out, "{comma}{}: ", key.to_value())?;
            match self.get(key) {
                Ok(Some(value)) => write!(out, "{value}")?,
                Ok(None) => out.write_str("null")?,
                Err(err) => write!(out, "<{err}>")?,
            }
        }
        out.write_str("}")
    }
}
