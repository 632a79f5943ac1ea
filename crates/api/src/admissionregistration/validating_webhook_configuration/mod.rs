//! ValidatingWebhookConfiguration: whom to ask whether something may be written.

#[cfg(test)]
mod tests;

use apimachinery::FieldErrors;
use apimachinery::table::Column;
use jiff::Timestamp;
use serde_json::Value;

use super::reserved_names;
use super::webhooks::{self, Defaulted};
use crate::cell;
use crate::kind::{Part, Resource};

pub use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;

impl Resource for ValidatingWebhookConfiguration {
    codec!();

    fn apply_defaults(&mut self) {
        for webhook in self.webhooks.iter_mut().flatten() {
            let defaulted = Defaulted {
                failure_policy: &mut webhook.failure_policy,
                match_policy: &mut webhook.match_policy,
                namespace_selector: &mut webhook.namespace_selector,
                object_selector: &mut webhook.object_selector,
                timeout_seconds: &mut webhook.timeout_seconds,
                rules: &mut webhook.rules,
                client_config: &mut webhook.client_config,
            };
            defaulted.apply();
        }
    }

    /// The webhooks are its spec.
    fn has_same_spec(&self, stored: &Self) -> bool {
        self.webhooks == stored.webhooks
    }

    /// What is wrong depends on what was there: see below.
    fn validate(&self, _errors: &mut FieldErrors) {}

    fn validate_create(&self, errors: &mut FieldErrors) {
        webhooks::validate(self.webhooks.as_deref().unwrap_or_default(), None, errors);
    }

    fn validate_update(&self, stored: &Self, _part: Part, errors: &mut FieldErrors) {
        let [new, old] = [self, stored].map(|it| it.webhooks.as_deref().unwrap_or_default());
        webhooks::validate(new, Some(old), errors);
    }

    fn warnings(&self) -> Vec<String> {
        reserved_names::warnings(&self.metadata, &[])
    }

    fn columns() -> &'static [Column] {
        const { &[Column::name(), Column::new("Webhooks", "integer"), Column::new("Age", "string")] }
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        vec![
            cell::name(&self.metadata),
            Value::from(self.webhooks.as_ref().map_or(0, Vec::len)),
            cell::age(&self.metadata, now),
        ]
    }
}
