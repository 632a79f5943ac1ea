//! Event: what happened to an object, for people to read.

mod table;
#[cfg(test)]
mod tests;
pub(crate) mod validation;

use apimachinery::FieldErrors;

use crate::kind::{Relaxed, Resource};

use apimachinery::table::Column;
use jiff::Timestamp;
use serde_json::Value;

use crate::check::text;
use crate::version;

pub use k8s_openapi::api::core::v1::Event;

impl Resource for Event {
    const RELAXED: Relaxed = Relaxed::Everything;

    codec!();

    fn convert_stored(
        api_version: &str,
        json: &[u8],
    ) -> Option<Result<Vec<u8>, serde_json::Error>> {
        let is_known = api_version == "events.k8s.io/v1";
        is_known.then(|| version::convert_stored::<crate::events::Event, Self>(json))
    }

    fn validate(&self, errors: &mut FieldErrors) {
        validation::validate(self, "reportingComponent", errors);
    }

    fn columns() -> &'static [Column] {
        table::COLUMNS
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        table::row(self, now)
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        let owned = |it: Option<&String>| text(it).to_owned();
        let object = &self.involved_object;
        let source = self.source.as_ref().and_then(|it| it.component.as_ref());
        let component = self.reporting_component.as_ref().filter(|it| !it.is_empty());
        vec![
            ("involvedObject.kind", owned(object.kind.as_ref())),
            ("involvedObject.namespace", owned(object.namespace.as_ref())),
            ("involvedObject.name", owned(object.name.as_ref())),
            ("involvedObject.uid", owned(object.uid.as_ref())),
            ("involvedObject.apiVersion", owned(object.api_version.as_ref())),
            ("involvedObject.resourceVersion", owned(object.resource_version.as_ref())),
            ("involvedObject.fieldPath", owned(object.field_path.as_ref())),
            ("reason", owned(self.reason.as_ref())),
            ("reportingComponent", owned(self.reporting_component.as_ref())),
            ("source", owned(source.filter(|it| !it.is_empty()).or(component))),
            ("type", owned(self.type_.as_ref())),
        ]
    }

    fn field_names() -> &'static [(&'static str, &'static str)] {
        &[
            ("involvedObject.kind", "involvedObject.kind"),
            ("involvedObject.namespace", "involvedObject.namespace"),
            ("involvedObject.name", "involvedObject.name"),
            ("involvedObject.uid", "involvedObject.uid"),
            ("involvedObject.apiVersion", "involvedObject.apiVersion"),
            ("involvedObject.resourceVersion", "involvedObject.resourceVersion"),
            ("involvedObject.fieldPath", "involvedObject.fieldPath"),
            ("reason", "reason"),
            ("reportingComponent", "reportingComponent"),
            ("source", "source"),
            ("type", "type"),
        ]
    }
}
