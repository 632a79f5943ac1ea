//! ServiceAccount: who a pod is to the API server.

#[cfg(test)]
mod tests;

use apimachinery::FieldErrors;

use crate::kind::{Part, Resource};

use apimachinery::table::Column;
use jiff::Timestamp;
use serde_json::Value;

use crate::cell;

use k8s_openapi::api::core::v1::ObjectReference;
pub use k8s_openapi::api::core::v1::ServiceAccount;

/// Says that pods of the account may use no other Secrets than the account names.
const ENFORCE_MOUNTABLE_SECRETS: &str = "kubernetes.io/enforce-mountable-secrets";

impl Resource for ServiceAccount {
    codec!();

    /// Of Secrets only the names are kept.
    fn prepare_create(&mut self) {
        keep_names(self);
    }

    fn prepare_update(&mut self, _stored: &Self, _part: Part) {
        keep_names(self);
    }

    fn validate(&self, _errors: &mut FieldErrors) {}

    fn warnings(&self) -> Vec<String> {
        if !enforces_mountable(self) {
            return Vec::new();
        }
        vec![format!(
            "metadata.annotations[{ENFORCE_MOUNTABLE_SECRETS}]: deprecated in v1.32+; prefer \
             separate namespaces to isolate access to mounted secrets"
        )]
    }

    fn update_warnings(&self, stored: &Self, _part: Part) -> Vec<String> {
        if enforces_mountable(stored) { Vec::new() } else { self.warnings() }
    }

    fn columns() -> &'static [Column] {
        const { &[Column::name(), Column::new("Age", "string")] }
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        vec![cell::name(&self.metadata), cell::age(&self.metadata, now)]
    }
}

fn enforces_mountable(account: &ServiceAccount) -> bool {
    let annotations = account.metadata.annotations.as_ref();
    annotations.is_some_and(|it| it.contains_key(ENFORCE_MOUNTABLE_SECRETS))
}

fn keep_names(account: &mut ServiceAccount) {
    for secret in account.secrets.iter_mut().flatten() {
        *secret = ObjectReference { name: secret.name.take(), ..ObjectReference::default() };
    }
}
