//! Field ownership: who wrote which field, kept in metadata.managedFields.

use api::{ApiObject, Kind, Part};
use apimachinery::apply::{Writer, record_update};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;

use super::Request;
use super::core::Core;

/// Records this write in the object.
pub(super) fn record(
    core: &Core,
    request: &Request,
    live: Option<&dyn ApiObject>,
    object: &mut dyn ApiObject,
) {
    let api_version = request.kind.names().api_version();
    let writer = writer(core, request, &api_version);
    let live = live.map(ApiObject::to_value);
    let mut value = object.to_value();
    record_update(&request.kind.schema(), live.as_ref(), &mut value, &writer);
    let entries = value.pointer_mut("/metadata/managedFields").map(serde_json::Value::take);
    object.meta_mut().managed_fields =
        entries.and_then(|it| serde_json::from_value::<Vec<ManagedFieldsEntry>>(it).ok());
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
