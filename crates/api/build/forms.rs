//! Writes what JSON has of each field when there is nothing in it, as a table in Rust, for
//! `src/codec/form.rs`.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::Definitions;
use crate::facts::{Count, Facts, Field, Type};
use crate::fields::flat_fields;
use crate::messages::reachable;

/// What the special schema types hold.
const SCHEMA: &str = "apiextensions/v1.JSONSchemaProps";

struct Forms<'a> {
    definitions: &'a Definitions,
    facts: &'a Facts,
    types: BTreeMap<String, &'a Type>,
    /// Definitions to their places in the table.
    places: BTreeMap<String, usize>,
}

pub(crate) fn table(definitions: &Definitions, facts: &Facts) -> String {
    let names = reachable(definitions, facts);
    let places = names.iter().enumerate().map(|(at, name)| (name.clone(), at)).collect();
    let forms = Forms { definitions, facts, types: facts.types(), places };
    let mut out = String::from("pub(super) static ALL: &[(&str, &Form)] = &[\n");
    for (name, at) in &forms.places {
        writeln!(out, "({name:?}, &FORM_{at}),").expect("a text can be written to");
    }
    out.push_str("];\n");
    for (name, at) in &forms.places {
        let fields = forms.fields(name);
        let fields: String = fields.iter().map(|it| forms.field(name, it)).collect();
        writeln!(out, "static FORM_{at}: Form = Form {{ fields: &[{fields}] }};")
            .expect("a text can be written to");
    }
    out
}

impl Forms<'_> {
    /// In the order of JSON.
    fn fields(&self, definition: &str) -> Vec<Field> {
        let mut fields = flat_fields(self.types[definition], self.facts, &self.types);
        fields.sort_by(|left, right| left.name.cmp(&right.name));
        fields
    }

    fn field(&self, definition: &str, field: &Field) -> String {
        // Rust has one where Go may have none: a zero that says nothing is none.
        let is_number = matches!(&*field.shape.of, "bool" | "double" | "int32" | "int64");
        let is_forced = field.shape.count == Count::Optional
            && field.is_null_written
            && !is_number
            && self.is_required(definition, &field.name);
        let count = match field.shape.count {
            Count::One | Count::UnlessZero | Count::Optional => "One",
            Count::List => "List",
            Count::Map => "Map",
        };
        let of = match &*field.shape.of {
            "MicroTime" | "Time" => "Of::Time".to_owned(),
            "Raw" => "Of::Any".to_owned(),
            "SchemaOrArray" | "SchemaOrBool" | "SchemaOrStrings" => self.reference(SCHEMA),
            _ if field.shape.is_type() => self.reference(&field.shape.of),
            _ => "Of::Scalar".to_owned(),
        };
        format!(
            "Field {{ name: {:?}, count: Count::{count}, of: {of}, absent: {:?}, is_zero_absent: {} }}, ",
            field.name,
            self.absent(field),
            is_forced || is_zero_absent(field),
        )
    }

    fn is_required(&self, definition: &str, field: &str) -> bool {
        let schema = self.definitions.get(definition);
        let required = schema.and_then(|it| it.get("required")?.as_array());
        required.is_some_and(|it| it.iter().any(|it| it == field))
    }

    fn reference(&self, type_: &str) -> String {
        let at = self.places[&self.facts.definition(type_)];
        format!("Of::Struct(&FORM_{at})")
    }

    /// What Go writes of a field with nothing in it; empty: no field.
    fn absent(&self, field: &Field) -> String {
        if field.is_null_written {
            return "null".to_owned();
        }
        if field.shape.count != Count::One {
            return String::new();
        }
        match &*field.shape.of {
            // Without the word `null`, those are left out.
            "bytes" => String::new(),
            "string" => "\"\"".to_owned(),
            "bool" => "false".to_owned(),
            "int32" | "int64" | "double" | "IntOrString" => "0".to_owned(),
            "Quantity" => "\"0\"".to_owned(),
            "MicroTime" | "Raw" | "Strings" | "Time" => "null".to_owned(),
            of if field.shape.is_type() => self.empty(&self.facts.definition(of)),
            of => panic!("facts/ has {} of type {of}, whose zero is not known", field.name),
        }
    }

    /// A struct with nothing in it.
    fn empty(&self, definition: &str) -> String {
        let fields = self.fields(definition).into_iter();
        let written = fields.filter_map(|it| {
            let text = self.absent(&it);
            (!text.is_empty()).then(|| format!("\"{}\":{text}", it.name))
        });
        format!("{{{}}}", written.collect::<Vec<_>>().join(","))
    }
}

/// Whether zero, an empty text and nothing are the same.
fn is_zero_absent(field: &Field) -> bool {
    match field.shape.count {
        Count::List | Count::Map | Count::UnlessZero => true,
        // A quantity that is not there is an empty text in Rust.
        Count::One => matches!(&*field.shape.of, "bytes" | "MicroTime" | "Quantity" | "Time"),
        Count::Optional => false,
    }
}
