//! Strict decoding: finds unknown and repeated fields, and the first value of the wrong type, in one pass over
//! the bytes. Syntax errors are not reported here; whoever decodes the object finds them.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::{FieldReport, SchemaRef, Type, anything};

const PROBLEMS_MAX: usize = 100;

pub(super) fn check(schema: &SchemaRef, bytes: &[u8]) -> FieldReport {
    let mut scan = Scan { report: FieldReport::default(), path: String::new() };
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let _ = Place { scan: &mut scan, schema, owner: "" }.deserialize(&mut deserializer);
    scan.report
}

struct Scan {
    report: FieldReport,
    /// `spec.containers[0].name`, extended and cut back while walking.
    path: String,
}

impl Scan {
    fn problem(&mut self, what: &str, field: &str) {
        if self.report.problems.len() < PROBLEMS_MAX {
            let dot = if self.path.is_empty() { "" } else { "." };
            self.report.problems.push(format!("{what} field \"{}{dot}{field}\"", self.path));
        }
    }
}

/// One value about to be read: what it should be, and the struct it is a field of.
struct Place<'a> {
    scan: &'a mut Scan,
    schema: &'a SchemaRef,
    owner: &'a str,
}

impl Place<'_> {
    fn scalar(self, found: &str, fits: &[Type]) {
        let schema = self.schema.resolve();
        if schema.kind != Type::Any && !fits.contains(&schema.kind) {
            self.mismatch(found, &schema);
        }
    }

    fn mismatch(self, found: &str, schema: &SchemaRef) {
        if self.scan.report.type_error.is_some() {
            return;
        }
        let wanted = go_type(self.schema, schema);
        let field = without_indices(&self.scan.path);
        self.scan.report.type_error = Some(if field.is_empty() {
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

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        self.scalar("bool", &[Type::Boolean]);
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        self.scalar("number", &[Type::Integer, Type::Number, Type::IntOrString]);
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        self.scalar("number", &[Type::Integer, Type::Number, Type::IntOrString]);
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        self.scalar(&format!("number {value}"), &[Type::Number, Type::IntOrString]);
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        self.scalar("string", &[Type::String, Type::IntOrString]);
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let schema = self.schema.resolve();
        let item = match schema.kind {
            Type::Array => schema.items.as_ref().unwrap_or_else(|| anything()),
            _ => anything(),
        };
        let length = self.scan.path.len();
        let mut index = 0;
        loop {
            self.scan.path.push_str(&format!("[{index}]"));
            let place = Place { scan: self.scan, schema: item, owner: self.owner };
            let found = seq.next_element_seed(place)?;
            self.scan.path.truncate(length);
            if found.is_none() {
                break;
            }
            index += 1;
        }
        if !matches!(schema.kind, Type::Array | Type::Any) {
            self.mismatch("array", &schema);
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let schema = self.schema.resolve();
        let is_object = matches!(schema.kind, Type::Object | Type::Any);
        if !is_object {
            Place { scan: self.scan, schema: self.schema, owner: self.owner }
                .mismatch("object", &schema);
        }
        let is_open = !is_object || schema.accepts_any_field();
        let owner = if schema.definition.is_empty() { self.owner } else { &schema.definition };
        let mut seen = BTreeSet::new();
        while let Some(name) = map.next_key::<String>()? {
            let known = is_object.then(|| schema.field(&name)).flatten();
            if known.is_none() && !is_open {
                self.scan.problem("unknown", &name);
            }
            let length = self.scan.path.len();
            if seen.contains(&name) {
                self.scan.problem("duplicate", &name);
            }
            if length > 0 {
                self.scan.path.push('.');
            }
            self.scan.path.push_str(&name);
            let schema = known.unwrap_or_else(|| anything());
            map.next_value_seed(Place { scan: self.scan, schema, owner })?;
            self.scan.path.truncate(length);
            seen.insert(name);
        }
        Ok(())
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

fn without_indices(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    let mut is_index = false;
    for it in path.chars() {
        match it {
            '[' => is_index = true,
            ']' => is_index = false,
            _ if is_index => {}
            _ => text.push(it),
        }
    }
    text
}
