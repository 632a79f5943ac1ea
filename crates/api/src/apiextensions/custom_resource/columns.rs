//! Printer columns of custom resources: a JSONPath each, and a cell of the declared type.

use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceColumnDefinition;
use serde_json::Value;

use apimachinery::table::{Column, age};

use super::super::json_path::JsonPath;
use crate::apiextensions::custom_resource_definition::CustomResourceDefinitionVersion;
use crate::schemas::object_meta_description;

pub(super) struct PrinterColumn {
    pub(super) column: Column,
    path: JsonPath,
}

/// The columns after the name; without any, the age.
pub(super) fn of(version: &CustomResourceDefinitionVersion) -> Vec<PrinterColumn> {
    let written = version.additional_printer_columns.as_deref().unwrap_or_default();
    if written.is_empty() {
        return JsonPath::parse(".metadata.creationTimestamp")
            .map(|path| PrinterColumn { column: Column::new("Age", "date"), path })
            .into_iter()
            .collect();
    }
    written
        .iter()
        .filter_map(|it| {
            let column = Column {
                name: it.name.clone().into(),
                kind: it.type_.clone().into(),
                format: it.format.clone().unwrap_or_default().into(),
                description: description(it).into(),
                priority: it.priority.unwrap_or_default(),
            };
            Some(PrinterColumn { column, path: JsonPath::parse(&it.json_path).ok()? })
        })
        .collect()
}

/// With what is said of it, which nobody asks for before there is a table.
pub(super) fn described(column: Column, field: &str) -> Column {
    if !column.description.is_empty() {
        return column;
    }
    Column { description: object_meta_description(field).into(), ..column }
}

fn description(column: &CustomResourceColumnDefinition) -> String {
    let written = column.description.clone().filter(|it| !it.is_empty());
    written.unwrap_or_else(|| {
        format!("Custom resource definition column (in JSONPath format): {}", column.json_path)
    })
}

impl PrinterColumn {
    /// Null when the value is absent or of another type than the column.
    pub(super) fn cell(&self, object: &Value, now: Timestamp) -> Value {
        let Some(value) = self.path.find(object) else { return Value::Null };
        match (self.column.kind.as_ref(), value) {
            (_, Value::Null) => Value::Null,
            ("date", Value::String(text)) => {
                let since = text.parse::<Timestamp>();
                since.map_or_else(|_| "<invalid>".into(), |it| age(Some(it), now).into())
            }
            ("integer", Value::Number(number)) => {
                number.as_i64().or_else(|| number.as_f64().map(truncate)).into()
            }
            ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => value.clone(),
            ("string", _) => plain_text(value).into(),
            _ => Value::Null,
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a number that is too large shows the limit")]
fn truncate(number: f64) -> i64 {
    number as i64
}

/// Texts without quotes, everything else as JSON.
pub(super) fn plain_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
