//! Strict decoding: finds unknown and repeated fields, and the first value of the wrong type, in
//! one pass over the bytes. Syntax errors are not reported here; whoever decodes the object finds
//! them.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::{FieldReport, SchemaRef, Type, anything, go};
use crate::quantity::Amount;

const PROBLEMS_MAX: usize = 100;

pub(super) fn validate(schema: &SchemaRef, bytes: &[u8]) -> FieldReport {
    let mut report = FieldReport::default();
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let root = Place { report: &mut report, schema, owner: "", way: &Way::Root };
    let _ = root.deserialize(&mut deserializer);
    report
}

/// The way to a value: a chain on the stack, written out for a problem only.
enum Way<'a> {
    Root,
    Field(&'a Self, &'a str),
    /// Of a map.
    Key(&'a Self, &'a str),
    Item(&'a Self, usize),
}

impl Way<'_> {
    fn is_root(&self) -> bool {
        matches!(self, Self::Root)
    }
}

/// `spec.containers[0].name`; `{:#}` leaves indices and keys out.
impl fmt::Display for Way<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Key(parent, _) if f.alternate() => parent.fmt(f),
            Self::Field(Self::Root, name) | Self::Key(Self::Root, name) => f.write_str(name),
            Self::Field(parent, name) | Self::Key(parent, name) => {
                parent.fmt(f)?;
                write!(f, ".{name}")
            }
            Self::Item(parent, _) if f.alternate() => parent.fmt(f),
            Self::Item(parent, index) => {
                parent.fmt(f)?;
                write!(f, "[{index}]")
            }
        }
    }
}

/// One value about to be read: what it should be, and the struct it is a field of.
struct Place<'a> {
    report: &'a mut FieldReport,
    schema: &'a SchemaRef,
    owner: &'a str,
    way: &'a Way<'a>,
}

impl Place<'_> {
    fn problem(&mut self, what: &str, field: &str) {
        if self.report.problems.len() < PROBLEMS_MAX {
            let way = Way::Field(self.way, field);
            self.report.problems.push(format!("{what} field \"{way}\""));
        }
    }

    /// What the object says that it is.
    fn note_name(&mut self, text: &str) {
        match self.way {
            Way::Field(Way::Root, "apiVersion") => text.clone_into(&mut self.report.api_version),
            Way::Field(Way::Root, "kind") => text.clone_into(&mut self.report.kind),
            _ => {}
        }
    }

    fn scalar(&mut self, found: &str, fits: &[Type]) {
        let schema = self.schema.resolve();
        if schema.kind != Type::Any && !fits.contains(&schema.kind) {
            self.mismatch(found, &schema);
        }
    }

    fn integer(&mut self, number: i128) {
        let schema = self.schema.resolve();
        let fits = match go_type(self.schema, &schema).as_str() {
            "int32" => i32::try_from(number).is_ok(),
            "int64" => i64::try_from(number).is_ok(),
            _ => true,
        };
        if schema.kind == Type::Integer && !fits {
            return self.mismatch(&format!("number {number}"), &schema);
        }
        self.scalar("number", &[Type::Integer, Type::Number, Type::IntOrString]);
    }

    fn note_quantity(&mut self, text: &str) {
        let schema = self.schema.resolve();
        let is_quantity = schema.kind == Type::IntOrString && schema.format == "quantity";
        if is_quantity
            && self.report.quantity_error.is_none()
            && let Err(problem) = Amount::parse(text)
        {
            self.report.quantity_error = Some(problem.to_string());
        }
    }

    fn mismatch(&mut self, found: &str, schema: &SchemaRef) {
        if self.report.type_error.is_some() {
            return;
        }
        let wanted = go_type(self.schema, schema);
        let field = format!("{:#}", self.way);
        self.report.type_error = Some(if self.way.is_root() || field.is_empty() {
            format!("json: cannot unmarshal {found} into Go value of type {wanted}")
        } else {
            let owner = short_name(self.owner);
            let owner = owner.rsplit('.').next().unwrap_or_default();
            format!(
                "json: cannot unmarshal {found} into Go struct field {owner}.{field} of type {wanted}"
            )
        });
    }
}

impl<'de> DeserializeSeed<'de> for Place<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Place<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(mut self, _: bool) -> Result<(), E> {
        self.scalar("bool", &[Type::Boolean]);
        Ok(())
    }

    fn visit_i64<E>(mut self, number: i64) -> Result<(), E> {
        self.integer(number.into());
        Ok(())
    }

    fn visit_u64<E>(mut self, number: u64) -> Result<(), E> {
        self.integer(number.into());
        Ok(())
    }

    fn visit_f64<E>(mut self, value: f64) -> Result<(), E> {
        self.scalar(&format!("number {value}"), &[Type::Number, Type::IntOrString]);
        Ok(())
    }

    fn visit_str<E>(mut self, text: &str) -> Result<(), E> {
        self.note_name(text);
        self.scalar("string", &[Type::String, Type::IntOrString]);
        self.note_quantity(text);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<(), A::Error> {
        let schema = self.schema.resolve();
        let item = match schema.kind {
            Type::Array => schema.items.as_ref().unwrap_or_else(|| anything()),
            _ => anything(),
        };
        let mut index = 0;
        loop {
            let way = Way::Item(self.way, index);
            let (report, owner) = (&mut *self.report, self.owner);
            let place = Place { report, schema: item, owner, way: &way };
            if seq.next_element_seed(place)?.is_none() {
                break;
            }
            index += 1;
        }
        self.report.has_empties |= index == 0 && schema.kind == Type::Array;
        if !matches!(schema.kind, Type::Array | Type::Any) {
            self.mismatch("array", &schema);
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let schema = self.schema.resolve();
        let is_object = matches!(schema.kind, Type::Object | Type::Any);
        if !is_object {
            self.mismatch("object", &schema);
        }
        let is_open = !is_object || schema.accepts_any_field();
        let owner = if schema.definition.is_empty() { self.owner } else { &schema.definition };
        let mut seen = Seen::default();
        while let Some(Name(name)) = map.next_key()? {
            let known = is_object.then(|| schema.field(&name)).flatten();
            if known.is_none() && !is_open {
                self.problem("unknown", &name);
            }
            if seen.has(&name) {
                self.problem("duplicate", &name);
            }
            let is_key = known.is_some() && !schema.properties.contains_key(&*name);
            let way = if is_key { Way::Key } else { Way::Field }(self.way, &name);
            let schema = known.unwrap_or_else(|| anything());
            map.next_value_seed(Place { report: self.report, schema, owner, way: &way })?;
            seen.add(name);
        }
        self.report.has_empties |= seen.is_empty() && go::is_map(&schema);
        Ok(())
    }
}

/// The names of the fields that were read. Most objects have few, for which nothing beats looking
/// at them all.
#[derive(Default)]
struct Seen<'de> {
    few: Vec<Cow<'de, str>>,
    many: BTreeSet<Cow<'de, str>>,
}

impl<'de> Seen<'de> {
    const FEW: usize = 24;

    fn has(&self, name: &str) -> bool {
        self.few.iter().any(|it| it == name) || self.many.contains(name)
    }

    fn is_empty(&self) -> bool {
        self.few.is_empty()
    }

    fn add(&mut self, name: Cow<'de, str>) {
        if self.few.len() < Self::FEW {
            self.few.push(name);
        } else {
            self.many.insert(name);
        }
    }
}

/// A field's name, from the text itself where nothing in it is escaped.
struct Name<'de>(Cow<'de, str>);

impl<'de> Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(NameVisitor)
    }
}

struct NameVisitor;

impl<'de> Visitor<'de> for NameVisitor {
    type Value = Name<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field name")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Name<'de>, E> {
        Ok(Name(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Name<'de>, E> {
        Ok(Name(Cow::Owned(text.to_owned())))
    }
}

/// `io.k8s.api.core.v1.PodSpec` is `v1.PodSpec` in Go.
fn short_name(definition: &str) -> &str {
    let start = definition.rmatch_indices('.').nth(1).map_or(0, |(at, _)| at + 1);
    &definition[start..]
}

fn go_type(at: &SchemaRef, schema: &SchemaRef) -> String {
    match schema.kind {
        Type::Integer if schema.format == "int64" => "int64".to_owned(),
        Type::Integer => "int32".to_owned(),
        Type::Number => "float64".to_owned(),
        Type::Boolean => "bool".to_owned(),
        Type::String => "string".to_owned(),
        Type::IntOrString => "intstr.IntOrString".to_owned(),
        Type::Array => {
            let item = schema.items.as_ref().unwrap_or_else(|| anything());
            format!("[]{}", go_type(item, &item.resolve()))
        }
        Type::Object if !schema.definition.is_empty() => short_name(&schema.definition).to_owned(),
        Type::Object => match &schema.additional {
            Some(value) => format!("map[string]{}", go_type(value, &value.resolve())),
            None => "map[string]interface {}".to_owned(),
        },
        Type::Any if at.definition.is_empty() => "interface {}".to_owned(),
        Type::Any => short_name(&at.definition).to_owned(),
    }
}
