//! PersistentVolumeClaim: what a pod asks for when it asks for storage.

mod data_source;
pub(crate) mod defaults;
mod table;
#[cfg(test)]
mod tests;
mod update;
mod validation;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::table::Column;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PersistentVolumeClaimSpec, PersistentVolumeClaimStatus};
use serde_json::Value;

use crate::check::text;
use crate::core::persistent_volume::CLASS_ANNOTATION;
use crate::kind::{Part, Resource};
use crate::quantities;

pub use k8s_openapi::api::core::v1::PersistentVolumeClaim;

pub(crate) use validation::{validate_new_spec, validate_template};

impl Resource for PersistentVolumeClaim {
    codec!();
    spec_and_status!();

    fn apply_defaults(&mut self) {
        defaults::apply(self);
    }

    fn prepare_create(&mut self) {
        let phase = Some("Pending".to_owned());
        let status = PersistentVolumeClaimStatus { phase, ..Default::default() };
        self.status = Some(status);
        data_source::prepare(self.spec.get_or_insert_default(), None);
    }

    fn prepare_update(&mut self, stored: &Self, part: Part) {
        match part {
            Part::Status => self.keep_spec(stored),
            Part::Main | Part::Other(_) => {
                self.keep_status(stored);
                data_source::prepare(self.spec.get_or_insert_default(), stored.spec.as_ref());
            }
        }
    }

    /// Every rule depends on whether it is new, and on the part that is written.
    fn validate(&self, _errors: &mut FieldErrors) {}

    fn validate_create(&self, errors: &mut FieldErrors) {
        let absent = PersistentVolumeClaimSpec::default();
        let spec = self.spec.as_ref().unwrap_or(&absent);
        validate_new_spec(spec, &Path::new("spec"), errors);
    }

    fn validate_update(&self, stored: &Self, part: Part, errors: &mut FieldErrors) {
        match part {
            Part::Status => validation::validate_status(self, errors),
            Part::Main | Part::Other(_) => update::validate(self, stored, errors),
        }
    }

    fn warnings(&self) -> Vec<String> {
        warnings(self)
    }

    fn columns() -> &'static [Column] {
        table::COLUMNS
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        table::row(self, now)
    }
}

fn warnings(claim: &PersistentVolumeClaim) -> Vec<String> {
    let mut warnings = Vec::new();
    if claim.metadata.annotations.as_ref().is_some_and(|it| it.contains_key(CLASS_ANNOTATION)) {
        let path = Path::new("metadata").child("annotations").key(CLASS_ANNOTATION);
        let why = "deprecated since v1.8; use \"storageClassName\" attribute instead";
        warnings.push(format!("{path}: {why}"));
    }
    if let Some(spec) = &claim.spec {
        warnings.extend(spec_warnings(spec, &Path::new("spec")));
    }
    warnings
}

/// Of a claim's spec, or of a template's.
pub(crate) fn spec_warnings(spec: &PersistentVolumeClaimSpec, path: &Path) -> Vec<String> {
    let mut warnings = Vec::new();
    let Some(resources) = &spec.resources else { return warnings };
    for (field, list) in [("requests", &resources.requests), ("limits", &resources.limits)] {
        let Some(storage) = quantities::of(list.as_ref(), "storage") else { continue };
        if !quantities::is_whole(quantities::amount(Some(storage))) {
            let path = path.child("resources").child(field).key("storage");
            let value = &storage.0;
            warnings.push(format!(
                "{path}: fractional byte value {value:?} is invalid, must be an integer"
            ));
        }
    }
    warnings
}

/// Whether a class was asked for: an empty one is asked for as well.
pub fn has_class(claim: &PersistentVolumeClaim) -> bool {
    let is_annotated =
        claim.metadata.annotations.as_ref().is_some_and(|it| it.contains_key(CLASS_ANNOTATION));
    is_annotated || claim.spec.as_ref().is_some_and(|it| it.storage_class_name.is_some())
}

/// The class of a claim; empty if it has none.
pub fn class_of(claim: &PersistentVolumeClaim) -> &str {
    let annotation = claim.metadata.annotations.as_ref().and_then(|it| it.get(CLASS_ANNOTATION));
    let field = claim.spec.as_ref().and_then(|it| it.storage_class_name.as_ref());
    text(annotation.or(field))
}
