//! CustomResourceDefinition.

mod approval;
pub mod conversion;
mod formats;
pub mod naming;
mod schemas;
mod selectable;
mod structure;
#[cfg(test)]
mod tests;
mod v1beta1;
mod validation;
mod versions;

use apimachinery::FieldErrors;
use serde_json::json;

use crate::kind::{Part, Resource};
use crate::{halves, semantic};

pub use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, CustomResourceDefinition, CustomResourceDefinitionCondition,
    CustomResourceDefinitionNames, CustomResourceDefinitionStatus, CustomResourceDefinitionVersion,
};

/// Kept on a CustomResourceDefinition until its objects are gone.
pub const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

impl Resource for CustomResourceDefinition {
    codec!();

    fn convert_stored(
        api_version: &str,
        json: &[u8],
    ) -> Option<Result<Vec<u8>, serde_json::Error>> {
        (api_version == v1beta1::API_VERSION).then(|| v1beta1::to_v1(json))
    }

    fn apply_defaults(&mut self) {
        let subresources = self.spec.versions.iter_mut().filter_map(|it| it.subresources.as_mut());
        for status in subresources.filter_map(|it| it.status.as_mut()) {
            // It has no fields.
            status.0 = json!({});
        }
        let names = &mut self.spec.names;
        if names.singular.as_deref().unwrap_or_default().is_empty() {
            names.singular = Some(names.kind.to_lowercase());
        }
        if names.list_kind.as_deref().unwrap_or_default().is_empty() && !names.kind.is_empty() {
            names.list_kind = Some(format!("{}List", names.kind));
        }
        let conversion = self.spec.conversion.get_or_insert_default();
        if conversion.strategy.is_empty() {
            "None".clone_into(&mut conversion.strategy);
        }
        let service = conversion
            .webhook
            .as_mut()
            .and_then(|it| it.client_config.as_mut())
            .and_then(|it| it.service.as_mut());
        if let Some(service) = service {
            service.port.get_or_insert(443);
        }
        if self.status.as_ref().is_none_or(|it| it.stored_versions.iter().flatten().count() == 0) {
            add_stored_versions(self);
        }
    }

    fn prepare_create(&mut self) {
        self.status = Some(CustomResourceDefinitionStatus {
            accepted_names: Some(CustomResourceDefinitionNames::default()),
            conditions: Some(Vec::new()),
            ..CustomResourceDefinitionStatus::default()
        });
        add_stored_versions(self);
    }

    fn prepare_update(&mut self, stored: &Self, part: Part) {
        if part == Part::Main {
            self.status.clone_from(&stored.status);
            add_stored_versions(self);
            return;
        }
        self.spec = stored.spec.clone();
        halves::keep_metadata(&mut self.metadata, &stored.metadata);
    }

    fn is_new_generation(&self, stored: &Self) -> bool {
        self.spec != stored.spec && !semantic::equal_at("spec", self, stored)
    }

    fn warnings(&self) -> Vec<String> {
        let formats = formats::unrecognized(self).into_iter();
        formats.map(|it| format!("unrecognized format {it:?}")).collect()
    }

    /// Of those that are new.
    fn update_warnings(&self, stored: &Self, part: Part) -> Vec<String> {
        if part == Part::Status {
            return Vec::new();
        }
        let before = stored.warnings();
        self.warnings().into_iter().filter(|it| !before.contains(it)).collect()
    }

    fn validate(&self, errors: &mut FieldErrors) {
        validation::validate_accepted_names(self, errors);
    }

    fn validate_create(&self, errors: &mut FieldErrors) {
        validation::validate_name(self, errors);
        validation::validate_spec(self, None, errors);
        validation::validate_stored_versions(self, errors);
        approval::validate(self, None, errors);
        validation::validate_pruning(self, errors);
    }

    /// Another server over the same store may know more than this one: what it has accepted is
    /// judged again only when it changes, so that its definitions can be settled and deleted here.
    fn validate_update(&self, stored: &Self, part: Part, errors: &mut FieldErrors) {
        if part == Part::Status {
            return;
        }
        if self.spec != stored.spec {
            validation::validate_spec(self, Some(stored), errors);
        }
        validation::validate_update(self, stored, errors);
        validation::validate_stored_versions(self, errors);
        approval::validate(self, Some(stored), errors);
        if stored.spec.preserve_unknown_fields != Some(true) {
            validation::validate_pruning(self, errors);
        }
    }
}

/// Objects may be on disk in every version that ever was the storage version.
fn add_stored_versions(crd: &mut CustomResourceDefinition) {
    let Some(version) = crd.spec.versions.iter().find(|it| it.storage) else { return };
    let stored = crd.status.get_or_insert_default().stored_versions.get_or_insert_default();
    if !stored.contains(&version.name) {
        stored.push(version.name.clone());
    }
}

/// Whether objects of this kind are served.
pub fn is_established(crd: &CustomResourceDefinition) -> bool {
    has_condition(crd, "Established")
}

pub(super) fn has_condition(crd: &CustomResourceDefinition, kind: &str) -> bool {
    let conditions = crd.status.as_ref().and_then(|it| it.conditions.as_ref());
    conditions.into_iter().flatten().any(|it| it.type_ == kind && it.status == "True")
}
