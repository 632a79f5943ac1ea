//! StatefulSet: pods that have a number each, and with it a name and volumes of their own.

mod defaults;
mod table;
#[cfg(test)]
mod tests;
mod validation;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::table::Column;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::RollingUpdateStatefulSetStrategy;
use serde_json::Value;

use super::workload;
use crate::core::persistent_volume_claim;
use crate::kind::{Part, Resource, Scale};

pub use k8s_openapi::api::apps::v1::StatefulSet;

impl Resource for StatefulSet {
    codec!(with_selector);
    spec_and_status!();

    fn apply_defaults(&mut self) {
        defaults::apply(self);
    }

    fn prepare_create(&mut self) {
        self.clear_status();
        defaults::apply_to_status(self);
    }

    fn prepare_update(&mut self, stored: &Self, part: Part) {
        if part == Part::Status {
            return self.keep_spec(stored);
        }
        self.keep_status(stored);
    }

    /// What is checked depends on whether it is new: see `validate_create` and `validate_update`.
    fn validate(&self, _errors: &mut FieldErrors) {}

    fn validate_create(&self, errors: &mut FieldErrors) {
        validation::validate_create(self, errors);
    }

    fn validate_update(&self, stored: &Self, part: Part, errors: &mut FieldErrors) {
        validation::validate_update(self, stored, part, errors);
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = template_warnings(self);
        warnings.extend(spec_warnings(self, ""));
        warnings
    }

    /// The path of a claim has another end then, as upstream has it.
    fn update_warnings(&self, stored: &Self, part: Part) -> Vec<String> {
        if part == Part::Status {
            return Vec::new();
        }
        let mut warnings = match workload::is_new_generation(&self.metadata, &stored.metadata) {
            true => template_warnings(self),
            false => Vec::new(),
        };
        warnings.extend(spec_warnings(self, "Spec"));
        warnings
    }

    fn columns() -> &'static [Column] {
        table::COLUMNS
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        table::row(self, now)
    }

    fn scale(&self) -> Option<Scale> {
        let spec = self.spec.as_ref()?;
        Some(Scale {
            spec_replicas: spec.replicas.unwrap_or(1),
            status_replicas: self.status.as_ref().map_or(0, |it| it.replicas),
            selector: workload::selector_text(&spec.selector),
        })
    }

    fn set_replicas(&mut self, replicas: i32) {
        self.spec.get_or_insert_default().replicas = Some(replicas);
    }
}

fn template_warnings(set: &StatefulSet) -> Vec<String> {
    let Some(spec) = &set.spec else { return Vec::new() };
    workload::template_warnings(&spec.template, &Path::new("spec.template"))
}

/// `end` is that of the path of a claim template.
fn spec_warnings(set: &StatefulSet, end: &str) -> Vec<String> {
    let Some(spec) = &set.spec else { return Vec::new() };
    let mut warnings = Vec::new();
    let path = Path::new("spec.volumeClaimTemplates");
    for (index, claim) in spec.volume_claim_templates.iter().flatten().enumerate() {
        let Some(claim) = &claim.spec else { continue };
        let path = path.index(index);
        let path = if end.is_empty() { path } else { path.child(end) };
        warnings.extend(persistent_volume_claim::spec_warnings(claim, &path));
    }
    if spec.revision_history_limit.is_some_and(|it| it < 0) {
        let warning = "spec.revisionHistoryLimit: a negative value retains all historical \
                       revisions; a value >= 0 is recommended";
        warnings.push(warning.to_owned());
    }
    warnings
}

fn rolling_update(object: &StatefulSet) -> Option<&RollingUpdateStatefulSetStrategy> {
    object.spec.as_ref()?.update_strategy.as_ref()?.rolling_update.as_ref()
}

pub fn has_max_unavailable(object: &StatefulSet) -> bool {
    rolling_update(object).is_some_and(|it| it.max_unavailable.is_some())
}

/// For servers whose gate `MaxUnavailableStatefulSet` is off.
pub fn drop_max_unavailable(object: &mut StatefulSet) {
    let strategy = object.spec.as_mut().and_then(|it| it.update_strategy.as_mut());
    if let Some(rolling) = strategy.and_then(|it| it.rolling_update.as_mut()) {
        rolling.max_unavailable = None;
    }
}
