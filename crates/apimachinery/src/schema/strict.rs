//! Strict decoding: finds unknown and repeated fields, and the first value of the wrong type, in
//! one pass over the bytes. Syntax errors are not reported here; whoever decodes the object finds
//! them.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::{FieldReport, Schema, SchemaRef, Type, anything, go, go_text};
use crate::quantity::{self, Amount};

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
    /// The structs that the field is inlined from.
    Embedded(&'a Self, &'a str),
}

impl Way<'_> {
    /// As JSON patches write it.
    fn pointer(&self) -> String {
        match self {
            Self::Root => String::new(),
            Self::Embedded(parent, _) => parent.pointer(),
            Self::Field(parent, name) | Self::Key(parent, name) => {
                let name = name.replace('~', "~0").replace('/', "~1");
                format!("{}/{name}", parent.pointer())
            }
            Self::Item(parent, index) => format!("{}/{index}", parent.pointer()),
        }
    }

    fn is_root(&self) -> bool {
        match self {
            Self::Root => true,
            Self::Embedded(parent, names) => names.is_empty() && parent.is_root(),
            _ => false,
        }
    }
}

/// `spec.volumes[0].emptyDir`; `{:#}` leaves indices and keys out, and names inlined structs:
/// `spec.volumes.VolumeSource.emptyDir`.
impl fmt::Display for Way<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Embedded(parent, "") => parent.fmt(f),
            Self::Embedded(parent, names) if f.alternate() => Self::Field(parent, names).fmt(f),
            Self::Embedded(parent, _) => parent.fmt(f),
            Self::Key(parent, _) if f.alternate() => parent.fmt(f),
            Self::Field(parent, name) | Self::Key(parent, name) => {
                parent.fmt(f)?;
                let dot = if parent.is_root() { "" } else { "." };
                write!(f, "{dot}{name}")
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
            let problem = format!("{what} field \"{way}\"");
            // Once, however often it is there.
            if !self.report.problems.contains(&problem) {
                self.report.problems.push(problem);
            }
        }
    }

    /// What the object says that it is.
    fn note_name(&mut self, text: &str) {
        match self.way {
            Way::Field(of, "apiVersion") if of.is_root() => {
                text.clone_into(&mut self.report.api_version);
            }
            Way::Field(of, "kind") if of.is_root() => text.clone_into(&mut self.report.kind),
            _ => {}
        }
    }

    fn scalar(&mut self, found: &str, fits: &[Type]) {
        let schema = self.schema.resolve();
        if schema.kind != Type::Any && !fits.contains(&schema.kind) && !schema.is_free_form() {
            self.mismatch(found, &schema);
        }
    }

    fn integer(&mut self, number: i128) {
        let schema = self.schema.resolve();
        let fits = match (schema.kind, schema.format.as_str()) {
            (Type::Integer, "int64") => i64::try_from(number).is_ok(),
            (Type::Integer, _) | (Type::IntOrString, "int-or-string") => {
                i32::try_from(number).is_ok()
            }
            _ => true,
        };
        if !fits {
            return self.mismatch(&format!("number {number}"), &schema);
        }
        self.scalar("number", &[Type::Integer, Type::Number, Type::IntOrString]);
    }

    /// Looks into a text of the right type.
    fn note_text(&mut self, text: &str) {
        let schema = self.schema.resolve();
        let problem = match (schema.kind, schema.format.as_str()) {
            (Type::IntOrString, "quantity") => {
                let canonical = quantity::canonical(text);
                self.report.has_loose_quantities |= canonical.is_some_and(|it| it != text);
                Amount::parse(text).err().map(|it| it.to_string())
            }
            (Type::String, "date-time") if reads_itself(&schema) => {
                go_text::time_problem(text, schema.definition.ends_with(".MicroTime"))
            }
            (Type::String, "byte") => {
                let problem = go_text::base64_problem(text);
                self.report.type_error = self.report.type_error.take().or(problem);
                None
            }
            _ => None,
        };
        self.report.fatal_error = self.report.fatal_error.take().or(problem);
    }

    fn mismatch(&mut self, found: &str, schema: &SchemaRef) {
        let target = match reads_itself(schema) || schema.is_empty_struct() {
            true => &mut self.report.fatal_error,
            false => &mut self.report.type_error,
        };
        if target.is_some() {
            return;
        }
        if schema.format == "quantity" {
            *target = Amount::parse("").err().map(|it| it.to_string());
            return;
        }
        let wanted = go_type(self.schema, schema);
        let field = format!("{:#}", self.way);
        *target = Some(if self.way.is_root() || field.is_empty() {
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

/// Types of Go's that have a form of their own in JSON, and give up where others go on. What custom
/// resources have is none.
fn reads_itself(schema: &Schema) -> bool {
    let is_time = schema.kind == Type::String && schema.format == "date-time";
    !schema.definition.is_empty() && (schema.kind == Type::IntOrString || is_time)
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
        let is_quantity = self.schema.resolve().format == "quantity";
        let fits = if is_quantity { [Type::Number, Type::IntOrString] } else { [Type::Number; 2] };
        self.scalar(&format!("number {value}"), &fits);
        Ok(())
    }

    fn visit_str<E>(mut self, text: &str) -> Result<(), E> {
        self.note_name(text);
        self.scalar("string", &[Type::String, Type::IntOrString]);
        self.note_text(text);
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
        if index == 0 && schema.kind == Type::Array {
            self.report.has_empties = true;
            if self.report.empty_lists.len() < PROBLEMS_MAX {
                let pointer = self.way.pointer();
                self.report.empty_lists.push(pointer);
            }
        }
        if !matches!(schema.kind, Type::Array | Type::Any) && !schema.is_free_form() {
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
            // Of what Go's structs do not have, it is only said that it is unknown.
            if (known.is_some() || is_open || schema.is_closed) && seen.has(&name) {
                self.problem("duplicate", &name);
            }
            let is_key = known.is_some() && !schema.properties.contains_key(&*name);
            let schema = known.unwrap_or_else(|| anything());
            let outer = Way::Embedded(self.way, &schema.go_embedded);
            let way = if is_key { Way::Key(self.way, &name) } else { Way::Field(&outer, &name) };
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
pub(super) struct Name<'de>(pub(super) Cow<'de, str>);

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
    if !at.go_type.is_empty() {
        return at.go_type.clone();
    }
    match schema.kind {
        Type::Integer if schema.format == "int64" => "int64".to_owned(),
        Type::Integer => "int32".to_owned(),
        Type::Number => "float64".to_owned(),
        Type::Boolean => "bool".to_owned(),
        Type::String if schema.format == "byte" => "[]uint8".to_owned(),
        Type::String => "string".to_owned(),
        // Of the texts it reads those, and of the rest numbers.
        Type::IntOrString => "int32".to_owned(),
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
