//! Field ownership: who wrote which field, kept in metadata.managedFields.

use admission::Draft;
use api::{Kind, Part};
use apimachinery::apply::{Writer, record_update};
use serde_json::{Map, Value};

use super::Request;
use super::core::Core;
use super::draft::ManagedFields as _;

const MANAGED_FIELDS: &str = "managedFields";

/// Records this write in the object. `live` is the tree of the object before.
pub(super) fn record(core: &Core, request: &Request, live: Option<&Value>, draft: &mut Draft) {
    let api_version = request.kind.names().api_version();
    let writer = writer(core, request, &api_version);
    let claimed = draft.take_managed_fields();
    let mut tree: Value = serde_json::from_slice(draft.bytes()).unwrap_or_default();
    let claimed = claimed.and_then(|it| serde_json::to_value(it).ok());
    if let (Some(claimed), Some(meta)) = (claimed, metadata(&mut tree)) {
        meta.insert(MANAGED_FIELDS.to_owned(), claimed);
    }
    record_update(&request.kind.schema(), live, &mut tree, &writer);
    let entries = metadata(&mut tree).and_then(|it| it.remove(MANAGED_FIELDS));
    let entries = entries.and_then(|it| serde_json::from_value(it).ok());
    if let Some(entries) = entries {
        draft.set_managed_fields(entries);
    }
}

fn metadata(tree: &mut Value) -> Option<&mut Map<String, Value>> {
    tree.get_mut("metadata").and_then(Value::as_object_mut)
}

pub(super) fn writer<'a>(core: &Core, request: &'a Request, api_version: &'a str) -> Writer<'a> {
    Writer {
        manager: request.manager(),
        api_version,
        subresource: request.subresource().unwrap_or_default(),
        now: super::metadata::now(core).0,
        reset_fields: reset_fields(request.kind.as_ref(), request.part()),
    }
}

fn reset_fields(kind: &dyn Kind, part: Part) -> &'static [&'static str] {
    match part {
        Part::Main if kind.subresources().iter().any(|it| it.name == "status") => &["status"],
        Part::Status => &["spec"],
        Part::Main | Part::Other(_) => &[],
    }
}
