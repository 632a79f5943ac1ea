//! Tables: what `kubectl get` prints, drawn by the server.

use api::{Kind, Stored};
use apimachinery::ApiError;
use serde_json::{Map, Value, json};

use super::respond::Wish;

/// What the rows carry besides cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Include {
    None,
    Metadata,
    Object,
}

impl Include {
    /// `None`: there is no such choice.
    pub(super) fn parse(text: Option<&str>) -> Option<Self> {
        Some(match text.unwrap_or_default() {
            "None" => Self::None,
            "Object" => Self::Object,
            "" | "Metadata" => Self::Metadata,
            _ => return None,
        })
    }
}

/// Why a table cannot be drawn.
pub(super) fn unknown_include(value: &str) -> ApiError {
    ApiError::bad_request(format!(
        "Unable to convert to Table as requested: includeObject: Invalid value: {value:?}: must be \
         'Metadata', 'Object', 'None', or empty"
    ))
}

pub(super) fn render(kind: &dyn Kind, objects: &[&Stored], list_meta: Value, wish: Wish) -> Value {
    let columns = kind.columns();
    let is_default = columns.is_empty();
    let definitions: Vec<Value> = if is_default {
        vec![
            json!({"name": "Name", "type": "string", "format": "name", "description": api::object_meta_description("name"), "priority": 0}),
            json!({"name": "Created At", "type": "date", "format": "", "description": api::object_meta_description("creationTimestamp"), "priority": 0}),
        ]
    } else {
        columns
            .iter()
            .map(|it| {
                json!({
                    "name": it.name, "type": it.kind, "format": it.format,
                    "description": it.description, "priority": it.priority,
                })
            })
            .collect()
    };
    let rows: Vec<Value> =
        objects.iter().filter_map(|it| row(kind, it, is_default, wish)).collect();
    json!({
        "kind": "Table",
        "apiVersion": wish.form.api_version,
        "metadata": list_meta,
        "columnDefinitions": definitions,
        "rows": rows,
    })
}

fn row(kind: &dyn Kind, stored: &Stored, is_default: bool, wish: Wish) -> Option<Value> {
    let object = kind.decode(&stored.bytes).ok()?;
    let cells = if is_default {
        let created = object.meta().creation_timestamp.as_ref().map(|it| it.0.to_string());
        vec![json!(object.meta().name), json!(created)]
    } else {
        kind.row(object.as_ref(), wish.now)
    };
    let mut row = Map::new();
    row.insert("cells".to_owned(), Value::Array(cells));
    let conditions = kind.row_conditions(object.as_ref());
    if !conditions.is_empty() {
        row.insert("conditions".to_owned(), Value::Array(conditions));
    }
    let object = match wish.include {
        Include::None => Value::Null,
        Include::Metadata => metadata(&stored.bytes, wish.form.api_version),
        Include::Object => serde_json::from_slice(&stored.bytes).unwrap_or_default(),
    };
    row.insert("object".to_owned(), object);
    Some(Value::Object(row))
}

/// The object as PartialObjectMetadata.
pub(super) fn metadata(bytes: &[u8], api_version: &str) -> Value {
    #[derive(serde::Deserialize)]
    struct Envelope {
        #[serde(default)]
        metadata: Value,
    }
    let envelope: Option<Envelope> = serde_json::from_slice(bytes).ok();
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": api_version,
        "metadata": envelope.map(|it| it.metadata),
    })
}
