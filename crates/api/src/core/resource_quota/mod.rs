//! ResourceQuota: what all of a namespace may have together.

#[cfg(test)]
mod tests;
pub mod usage;
mod validation;

use apimachinery::FieldErrors;
use apimachinery::table::Column;
use jiff::Timestamp;
use serde_json::Value;

use crate::cell;
use crate::kind::{Part, Resource};
use crate::quantities;

pub use k8s_openapi::api::core::v1::ResourceQuota;

impl Resource for ResourceQuota {
    codec!();
    spec_and_status!();

    fn apply_defaults(&mut self) {
        let hard = self.spec.iter_mut().filter_map(|it| it.hard.as_mut());
        hard.for_each(quantities::round_up);
        if let Some(status) = &mut self.status {
            let lists = [&mut status.hard, &mut status.used];
            lists.into_iter().flatten().for_each(quantities::round_up);
        }
    }

    /// Each part has its rules.
    fn validate(&self, _errors: &mut FieldErrors) {}

    fn validate_create(&self, errors: &mut FieldErrors) {
        validation::validate_spec(self, errors);
    }

    fn validate_update(&self, stored: &Self, part: Part, errors: &mut FieldErrors) {
        if part == Part::Status {
            return validation::validate_status(self, errors);
        }
        validation::validate_spec(self, errors);
        validation::validate_update(self, stored, errors);
    }

    fn warnings(&self) -> Vec<String> {
        warnings(self)
    }

    fn update_warnings(&self, _stored: &Self, _part: Part) -> Vec<String> {
        Vec::new()
    }

    fn columns() -> &'static [Column] {
        const {
            &[
                Column::name(),
                Column::new("Request", "string"),
                Column::new("Limit", "string"),
                Column::new("Age", "string"),
            ]
        }
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        let (mut requests, mut limits) = (Vec::new(), Vec::new());
        let status = self.status.as_ref();
        let used = status.and_then(|it| it.used.as_ref());
        for (resource, hard) in status.iter().flat_map(|it| it.hard.iter().flatten()) {
            let used = quantities::shown(quantities::of(used, resource));
            let is_limit = resource.starts_with("limits.");
            let cells = if is_limit { &mut limits } else { &mut requests };
            cells.push(format!("{resource}: {used}/{}", hard.0));
        }
        vec![
            cell::name(&self.metadata),
            Value::from(requests.join(", ")),
            Value::from(limits.join(", ")),
            cell::age(&self.metadata, now),
        ]
    }
}

fn warnings(quota: &ResourceQuota) -> Vec<String> {
    let mut warnings = Vec::new();
    let hard = quota.spec.as_ref().and_then(|it| it.hard.as_ref());
    for resource in ["cpu", "memory", "storage", "ephemeral-storage"] {
        let full = format!("requests.{resource}");
        let bare = (matches!(resource, "cpu" | "memory")).then_some(resource);
        let request = quantities::of(hard, &full).map(|it| (full.as_str(), it));
        let request = request.or_else(|| bare.and_then(|it| Some((it, quantities::of(hard, it)?))));
        let limit_name = format!("limits.{resource}");
        let limit = quantities::of(hard, &limit_name);
        let (Some((name, request)), Some(limit)) = (request, limit) else { continue };
        if quantities::amount(Some(request)) > quantities::amount(Some(limit)) {
            warnings.push(format!(
                "ResourceQuota {name} ({}) should be less than {limit_name} ({})",
                request.0, limit.0
            ));
        }
    }
    warnings
}
