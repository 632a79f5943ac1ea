//! ServiceAccount: who a pod is to the API server.

use apimachinery::FieldErrors;

use crate::kind::{Facts, Resource, Subresource};

use apimachinery::table::Column;
use jiff::Timestamp;
use serde_json::Value;

use crate::cell;

pub use k8s_openapi::api::core::v1::ServiceAccount;

impl Resource for ServiceAccount {
    const FACTS: Facts = Facts {
        kind: "ServiceAccount",
        plural: "serviceaccounts",
        singular: "serviceaccount",
        short_names: &["sa"],
        subresources: &[Subresource::action(
            "token",
            ("authentication.k8s.io", "v1", "TokenRequest"),
        )],
        registry_prefix: "serviceaccounts",
        storage_version_hash: "pbx9ZvyFpBE=",
        definition: "io.k8s.api.core.v1.ServiceAccount",
        returns_deleted: true,
        ..Facts::DEFAULT
    };

    codec!();

    fn validate(&self, _errors: &mut FieldErrors) {}

    fn columns() -> &'static [Column] {
        const { &[Column::name(), Column::new("Age", "string")] }
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        vec![cell::name(&self.metadata), cell::age(&self.metadata, now)]
    }
}
