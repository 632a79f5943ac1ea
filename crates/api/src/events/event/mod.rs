//! Event in its own group: the same objects as the core group's, under newer names and with
//! stricter rules for what comes in here.

mod conversion;
#[cfg(test)]
mod tests;
mod validation;

use apimachinery::FieldErrors;

use crate::core;
use crate::kind::{Part, Resource};
use crate::version::Version;

pub use k8s_openapi::api::events::v1::Event;

impl Resource for Event {
    codec!();

    fn validate(&self, errors: &mut FieldErrors) {
        let hub: core::Event = self.clone().into_hub();
        Self::validate_hub(&hub, errors);
    }

    fn field_names() -> &'static [(&'static str, &'static str)] {
        &[
            ("regarding.kind", "involvedObject.kind"),
            ("regarding.namespace", "involvedObject.namespace"),
            ("regarding.name", "involvedObject.name"),
            ("regarding.uid", "involvedObject.uid"),
            ("regarding.apiVersion", "involvedObject.apiVersion"),
            ("regarding.resourceVersion", "involvedObject.resourceVersion"),
            ("regarding.fieldPath", "involvedObject.fieldPath"),
            ("reason", "reason"),
            ("reportingController", "reportingComponent"),
            ("type", "type"),
        ]
    }
}

impl Version<core::Event> for Event {
    fn into_hub(self) -> core::Event {
        conversion::to_core(self)
    }

    fn from_hub(hub: &core::Event) -> Self {
        conversion::from_core(hub)
    }

    fn validate_hub(hub: &core::Event, errors: &mut FieldErrors) {
        core::event::validation::validate(hub, "reportingController", errors);
    }

    fn validate_hub_create(hub: &core::Event, errors: &mut FieldErrors) {
        validation::validate_create(hub, errors);
    }

    fn validate_hub_update(
        hub: &core::Event,
        stored: &core::Event,
        _part: Part,
        errors: &mut FieldErrors,
    ) {
        validation::validate_update(hub, stored, errors);
    }
}
