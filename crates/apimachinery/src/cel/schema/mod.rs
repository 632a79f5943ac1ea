//! Schemas for expressions: which fields they see and of which types (`types`), how JSON becomes
//! values (`values`), how large those can be (`sizes`). Built once from a schema, then shared by all
//! rules on it and below.

pub mod names;
mod sizes;
#[cfg(test)]
mod tests;
mod types;
mod values;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::schema::{ListType, Schema, SchemaRef, Type};

pub use sizes::{Bound, REQUEST_BYTES_MAX, Sizes};
pub use types::Scope;

/// One schema as expressions see it.
#[derive(Debug)]
pub struct Node {
    pub(super) form: Form,
    nullable: bool,
    /// Whether expressions see it at all.
    pub is_visible: bool,
    /// Characters, bytes, elements or entries at most; 0 for what has no size.
    pub most: u64,
    /// Whether the schema says so.
    pub is_bounded: bool,
    /// Bytes of JSON at least.
    pub least: u64,
}

#[derive(Debug)]
pub(super) enum Form {
    /// By the names of the schema.
    Object(BTreeMap<String, Arc<Node>>),
    Map(Arc<Node>),
    List {
        item: Arc<Node>,
        list_type: ListType,
    },
    Text,
    Bytes,
    Duration,
    Date,
    DateTime,
    Integer,
    Number,
    Boolean,
    IntOrString,
    Unknown,
}

/// Where a schema stands. Whole objects have a type and a name, whatever their schema says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Resource,
    Part,
}

impl Role {
    pub fn of(schema: &Schema) -> Self {
        if schema.is_embedded_resource { Self::Resource } else { Self::Part }
    }
}

impl Node {
    pub fn new(schema: &SchemaRef, role: Role) -> Arc<Self> {
        Arc::new(build(schema, role, &mut Vec::new()))
    }

    fn hidden() -> Self {
        Self { is_visible: false, ..sized(Form::Unknown, 0, 0) }
    }

    /// The field that an expression writes like this, if it sees it.
    pub fn field(&self, written: &str) -> Option<&Arc<Self>> {
        let Form::Object(fields) = &self.form else { return None };
        let found = names::unescape(written).and_then(|name| fields.get_key_value(&name));
        let exact = found.filter(|(name, _)| names::escape(name).as_deref() == Some(written));
        // Words that are reserved are fields nonetheless.
        let reserved = || fields.get(written).filter(|_| names::is_reserved(written));
        exact.map(|(_, node)| node).or_else(reserved).filter(|it| it.is_visible)
    }

    /// The field of this name of the schema.
    pub fn named(&self, name: &str) -> Option<&Arc<Self>> {
        match &self.form {
            Form::Object(fields) => fields.get(name),
            _ => None,
        }
    }

    /// Elements of a list, values of a map.
    pub fn element(&self) -> Option<&Arc<Self>> {
        match &self.form {
            Form::Map(element) | Form::List { item: element, .. } => Some(element),
            _ => None,
        }
    }
}

fn sized(form: Form, most: u64, least: u64) -> Node {
    Node { form, nullable: false, is_visible: true, most, is_bounded: false, least }
}

/// `trail` are the definitions that are being built: what is inside itself is not seen.
fn build(schema: &SchemaRef, role: Role, trail: &mut Vec<String>) -> Node {
    let schema = schema.resolve();
    if !schema.definition.is_empty() && trail.contains(&schema.definition) {
        return Node::hidden();
    }
    trail.push(schema.definition.clone());
    let node = match schema.kind {
        Type::IntOrString => text(&schema, Form::IntOrString, 1, 4),
        Type::Array => list(&schema, trail),
        Type::Object => object(&schema, role, trail),
        Type::String => string(&schema),
        Type::Integer => sized(Form::Integer, 0, 1),
        Type::Number => sized(Form::Number, 0, 1),
        Type::Boolean => sized(Form::Boolean, 0, 4),
        Type::Any => Node::hidden(),
    };
    trail.pop();
    Node { nullable: schema.nullable, ..node }
}

/// A bound of the schema: `maxItems` and the like.
pub(in crate::cel) fn limit(schema: &Schema, name: &str) -> Option<u64> {
    let said = schema.checks.as_deref()?.get(name)?.as_i64()?;
    Some(said.max(0).unsigned_abs())
}

fn string(schema: &Schema) -> Node {
    match schema.format.as_str() {
        "byte" => text(schema, Form::Bytes, 2, 1),
        "duration" => sized(Form::Duration, 32, 3),
        "date" => sized(Form::Date, 12, 12),
        "date-time" => sized(Form::DateTime, 32, 21),
        _ => text(schema, Form::Text, 2, 4),
    }
}

/// A character may take `width` bytes.
fn text(schema: &Schema, form: Form, least: u64, width: u64) -> Node {
    let is_text = matches!(form, Form::Text);
    if let Some(n_chars) = limit(schema, "maxLength") {
        let most = n_chars.saturating_mul(width);
        return Node { is_bounded: true, ..sized(form, most, least) };
    }
    let words = schema.checks.as_deref().and_then(|it| it.get("enum")).and_then(Value::as_array);
    if let Some(words) = words.filter(|it| is_text && !it.is_empty()) {
        let lengths = words.iter().filter_map(Value::as_str).map(|it| it.len() as u64);
        return Node { is_bounded: true, ..sized(form, lengths.max().unwrap_or(0), least) };
    }
    sized(form, REQUEST_BYTES_MAX - 2, least)
}

fn list(schema: &Schema, trail: &mut Vec<String>) -> Node {
    let Some(items) = &schema.items else { return Node::hidden() };
    let item = build(items, Role::of(items), trail);
    let bound = limit(schema, "maxItems");
    let most = bound.unwrap_or_else(|| (REQUEST_BYTES_MAX - 2) / (item.least + 1));
    let is_visible = item.is_visible;
    let form = Form::List { item: Arc::new(item), list_type: schema.list_type.clone() };
    Node { is_visible, is_bounded: bound.is_some(), ..sized(form, most, 2) }
}

fn object(schema: &Schema, role: Role, trail: &mut Vec<String>) -> Node {
    // `additionalProperties: true` has neither a type nor a word about fields that are not known.
    let is_schema = |it: &&SchemaRef| it.kind != Type::Any || it.preserve_unknown;
    if let Some(values) = schema.additional.as_ref().filter(is_schema) {
        let value = build(values, Role::of(values), trail);
        let bound = limit(schema, "maxProperties");
        let most = bound.unwrap_or_else(|| (REQUEST_BYTES_MAX - 2) / (value.least + 6));
        let is_visible = value.is_visible;
        let form = Form::Map(Arc::new(value));
        return Node { is_visible, is_bounded: bound.is_some(), ..sized(form, most, 2) };
    }
    let mut least: u64 = 2;
    let mut fields = BTreeMap::new();
    for (name, property) in &schema.properties {
        let node = if role == Role::Resource && name == "metadata" {
            metadata(schema, trail)
        } else {
            build(property, Role::of(property), trail)
        };
        // What has a default is filled in later.
        if node.is_visible && property.default.is_none() && schema.required.contains(name) {
            least += name.len() as u64 + node.least + 4;
        }
        fields.insert(name.clone(), Arc::new(node));
    }
    sized(Form::Object(fields), 0, least)
}

/// Of metadata, names alone are seen. What the author says about them counts if it is all of it.
fn metadata(schema: &Schema, trail: &mut Vec<String>) -> Node {
    let is_text = |it: Option<&SchemaRef>| it.is_some_and(|it| it.kind == Type::String);
    let own = schema.own_metadata.as_ref();
    let own = own.filter(|_| schema.names_type).filter(|it| {
        it.kind == Type::Object
            && is_text(it.properties.get("name"))
            && is_text(it.properties.get("generateName"))
    });
    if let Some(own) = own {
        return build(own, Role::Part, trail);
    }
    let name = || Arc::new(sized(Form::Text, REQUEST_BYTES_MAX - 2, 2));
    let fields = ["name", "generateName"].map(|it| (it.to_owned(), name()));
    sized(Form::Object(fields.into_iter().collect()), 0, 2)
}
