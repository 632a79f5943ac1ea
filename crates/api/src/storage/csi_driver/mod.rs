//! CSIDriver: what Kubernetes should know of a CSI driver before it talks to it.

#[cfg(test)]
mod tests;
mod validation;

use apimachinery::FieldErrors;
use apimachinery::table::Column;
use jiff::Timestamp;
use serde_json::Value;

use crate::cell;
use crate::kind::{Part, Resource};
use crate::semantic;

pub use k8s_openapi::api::storage::v1::CSIDriver;

impl Resource for CSIDriver {
    codec!();

    fn apply_defaults(&mut self) {
        let spec = &mut self.spec;
        spec.attach_required.get_or_insert(true);
        spec.pod_info_on_mount.get_or_insert(false);
        spec.storage_capacity.get_or_insert(false);
        spec.fs_group_policy.get_or_insert_with(|| "ReadWriteOnceWithFSType".to_owned());
        let modes = spec.volume_lifecycle_modes.get_or_insert_default();
        if modes.is_empty() {
            modes.push("Persistent".to_owned());
        }
        spec.requires_republish.get_or_insert(false);
        spec.se_linux_mount.get_or_insert(false);
    }

    fn prepare_create(&mut self) {
        // It starts with the first change.
        self.metadata.generation = None;
        // Upstream's gate VolumeLimitScaling, which is off.
        self.spec.prevent_pod_scheduling_if_missing = None;
    }

    fn prepare_update(&mut self, stored: &Self, _part: Part) {
        if stored.spec.prevent_pod_scheduling_if_missing.is_none() {
            self.spec.prevent_pod_scheduling_if_missing = None;
        }
    }

    fn has_same_spec(&self, stored: &Self) -> bool {
        self.spec == stored.spec || semantic::equal_at("spec", self, stored)
    }

    fn validate(&self, errors: &mut FieldErrors) {
        validation::validate(&self.spec, errors);
    }

    fn validate_update(&self, stored: &Self, _part: Part, errors: &mut FieldErrors) {
        validation::validate_update(&self.spec, &stored.spec, errors);
    }

    fn update_warnings(&self, stored: &Self, _part: Part) -> Vec<String> {
        if semantic::equal(&self.spec.token_requests, &stored.spec.token_requests) {
            return Vec::new();
        }
        self.warnings()
    }

    fn warnings(&self) -> Vec<String> {
        let has_requests = self.spec.token_requests.as_ref().is_some_and(|it| !it.is_empty());
        if !has_requests || self.spec.service_account_token_in_secrets.is_some() {
            return Vec::new();
        }
        vec![
            "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes"
                .to_owned(),
        ]
    }

    fn columns() -> &'static [Column] {
        const {
            &[
                Column::name(),
                Column::new("AttachRequired", "boolean"),
                Column::new("PodInfoOnMount", "boolean"),
                Column::new("StorageCapacity", "boolean"),
                Column::new("TokenRequests", "string"),
                Column::new("RequiresRepublish", "boolean"),
                Column::new("Modes", "string"),
                Column::new("Age", "string"),
            ]
        }
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        let spec = &self.spec;
        let audiences = spec.token_requests.as_ref().map(|it| {
            let audiences: Vec<&str> = it.iter().map(|it| it.audience.as_str()).collect();
            audiences.join(",")
        });
        let modes = spec.volume_lifecycle_modes.as_deref().unwrap_or_default();
        vec![
            cell::name(&self.metadata),
            Value::from(spec.attach_required.unwrap_or(true)),
            Value::from(spec.pod_info_on_mount.unwrap_or(false)),
            Value::from(spec.storage_capacity.unwrap_or(false)),
            Value::from(audiences.unwrap_or_else(|| "<unset>".to_owned())),
            Value::from(spec.requires_republish.unwrap_or(false)),
            cell::or_none(&modes.join(",")),
            cell::age(&self.metadata, now),
        ]
    }
}
