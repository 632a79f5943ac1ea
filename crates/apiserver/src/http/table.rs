//! Tables: what `kubectl get` prints, drawn by the server.

use api::{Kind, Stored};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// What the rows carry besides cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Include {
    None,
    Metadata,
    Object,
}

impl Include {
    pub(super) fn parse(text: Option<&str>) -> Self {
        match text {
            Some("None") => Self::None,
            Some("Object") => Self::Object,
            _ => Self::Metadata,
        }
    }
}

pub(super) fn render(
    kind: &dyn Kind,
    objects: &[&Stored],
    list_meta: Value,
    include: Include,
    now: Timestamp,
) -> Value {
    let columns = kind.columns();
    let is_default = columns.is_empty();
    let definitions: Vec<Value> = if is_default {
        vec![
            json!({"name": "Name", "type": "string", "format": "name", "description": "Name must be unique within a namespace.", "priority": 0}),
            json!({"name": "Created At", "type": "date", "format": "", "description": "CreationTimestamp is a timestamp representing the server time when this object was created.", "priority": 0}),
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
        objects.iter().filter_map(|it| row(kind, it, is_default, include, now)).collect();
    json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": list_meta,
        "columnDefinitions": definitions,
        "rows": rows,
    })
}

fn row(
    kind: &dyn Kind,
    stored: &Stored,
    is_default: bool,
    include: Include,
    now: Timestamp,
) -> Option<Value> {
    let object = kind.decode(&stored.bytes).ok()?;
    let cells = if is_default {
        let created = object.meta().creation_timestamp.as_ref().map(|it| it.0.to_string());
        vec![json!(object.meta().name), json!(created)]
    } else {
        kind.row(object.as_ref(), now)
    };
    let mut row = Map::new();
    row.insert("cells".to_owned(), Value::Array(cells));
    let conditions = kind.row_conditions(object.as_ref());
    if !conditions.is_empty() {
        row.insert("conditions".to_owned(), Value::Array(conditions));
    }
    let object = match include {
        Include::None => Value::Null,
        Include::Metadata => metadata(&stored.bytes),
        Include::Object => serde_json::from_slice(&stored.bytes).unwrap_or_default(),
    };
    row.insert("object".to_owned(), object);
    Some(Value::Object(row))
}

/// The object as PartialObjectMetadata.
pub(super) fn metadata(bytes: &[u8]) -> Value {
    #[derive(serde::Deserialize)]
    struct Envelope {
        #[serde(default)]
        metadata: Value,
    }
    let envelope: Option<Envelope> = serde_json::from_slice(bytes).ok();
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": envelope.map(|it| it.metadata),
    })
}
