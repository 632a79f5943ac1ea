//! What a part of an object was before it was changed, and whether it is the same still: fields and
//! entries of maps by their names, elements of lists by their keys where the list has such.

use std::cell::OnceCell;
use std::collections::HashMap;

use serde_json::Value;

use super::{ListType, Schema, SchemaRef, Type};

/// A part of an object with what it was before.
#[derive(Debug)]
pub struct Correlated<'a> {
    new: &'a Value,
    old: &'a Value,
    schema: &'a Schema,
    is_same: OnceCell<bool>,
    keyed: OnceCell<Keyed<'a>>,
}

impl<'a> Correlated<'a> {
    pub fn new(new: &'a Value, old: &'a Value, schema: &'a Schema) -> Self {
        Self { new, old, schema, is_same: OnceCell::new(), keyed: OnceCell::new() }
    }

    /// The field or entry of this name, if it was there before and has a schema.
    pub fn key(&self, name: &str) -> Option<Self> {
        let (new, old) = (self.new.as_object()?.get(name)?, self.old.as_object()?.get(name)?);
        Some(Self::new(new, old, schema_of(self.schema, name)?))
    }

    /// The element at this place of the new list, if the old one has its like.
    pub fn index(&self, index: usize) -> Option<Self> {
        let (new, old) = (self.new.as_array()?.get(index)?, self.old.as_array()?);
        let items = self.schema.items.as_deref()?;
        let keyed = self.keyed.get_or_init(|| Keyed::new(old, &self.schema.list_type));
        Some(Self::new(new, keyed.find(new)?, items))
    }

    pub fn is_same(&self) -> bool {
        *self.is_same.get_or_init(|| self.compare())
    }

    fn compare(&self) -> bool {
        match (self.new, self.old) {
            (Value::Array(new), Value::Array(old)) => {
                new.len() == old.len()
                    && match self.schema.list_type {
                        ListType::Map { .. } => {
                            (0..new.len()).all(|it| self.index(it).is_some_and(|it| it.is_same()))
                        }
                        ListType::Atomic | ListType::Set => new == old,
                    }
            }
            (Value::Object(new), Value::Object(old)) => {
                let is_same = |it: &String| self.key(it).is_some_and(|it| it.is_same());
                new.len() == old.len() && new.keys().all(is_same)
            }
            (new, old) => new == old,
        }
    }
}

fn schema_of<'s>(schema: &'s Schema, name: &str) -> Option<&'s Schema> {
    // Of the metadata of whole objects only what the author says has a schema.
    if schema.has_given_metadata && name == "metadata" {
        return schema.own_metadata.as_deref();
    }
    let values = schema.additional.as_ref().filter(|it| !is_bare(it));
    schema.properties.get(name).or(values).map(|it| &**it)
}

/// `additionalProperties: true` is no schema.
fn is_bare(schema: &SchemaRef) -> bool {
    schema.kind == Type::Any && !schema.preserve_unknown
}

/// Elements of a list by their keys. Only lists of type map have any.
#[derive(Debug)]
pub struct Keyed<'a> {
    keys: Vec<String>,
    by_key: HashMap<String, &'a Value>,
}

impl<'a> Keyed<'a> {
    pub fn new(items: &'a [Value], list_type: &ListType) -> Self {
        let ListType::Map { keys } = list_type else {
            return Self { keys: Vec::new(), by_key: HashMap::new() };
        };
        let mut by_key = HashMap::new();
        for item in items {
            by_key.entry(key_of(item, keys)).or_insert(item);
        }
        Self { keys: keys.clone(), by_key }
    }

    pub fn find(&self, item: &Value) -> Option<&'a Value> {
        if self.keys.is_empty() {
            return None;
        }
        self.by_key.get(&key_of(item, &self.keys)).copied()
    }
}

fn key_of(item: &Value, keys: &[String]) -> String {
    let mut key = String::new();
    for name in keys {
        let value = item.get(name).unwrap_or(&Value::Null);
        key.push_str(&value.to_string());
        key.push('\u{1f}');
    }
    key
}

/// Whether problems of a part are old ones: it is what it was before, or what it is in is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ratchet<'r, 'a> {
    /// The part itself, if it is known what it was.
    pub current: Option<&'r Correlated<'a>>,
    /// What it is in.
    pub parent: Option<&'r Correlated<'a>>,
}

impl<'r, 'a> Ratchet<'r, 'a> {
    pub fn of(current: Option<&'r Correlated<'a>>) -> Self {
        Self { current, parent: None }
    }

    pub fn is_same(&self) -> bool {
        self.current.or(self.parent).is_some_and(Correlated::is_same)
    }

    /// The part below. apiVersion and kind of the whole are alike whatever they were.
    pub fn key(&self, name: &str) -> Option<Correlated<'a>> {
        let is_type = self.parent.is_none() && ["apiVersion", "kind"].contains(&name);
        self.current.filter(|_| !is_type)?.key(name)
    }

    pub fn index(&self, index: usize) -> Option<Correlated<'a>> {
        self.current?.index(index)
    }

    /// For what is below, with what `key` or `index` found.
    pub fn below<'b>(&'b self, child: Option<&'b Correlated<'a>>) -> Ratchet<'b, 'a> {
        match self.current {
            None => Ratchet { current: None, parent: self.parent },
            Some(current) => Ratchet { current: child, parent: Some(current) },
        }
    }
}
