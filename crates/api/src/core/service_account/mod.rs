//! ServiceAccount: who a pod is to the API server.

use apimachinery::FieldErrors;

use crate::kind::Resource;

use apimachinery::table::Column;
use jiff::Timestamp;
use serde_json::Value;

use crate::cell;

pub use k8s_openapi::api::core::v1::ServiceAccount;

impl Resource for ServiceAccount {
    codec!();

    fn validate(&self, _errors: &mut FieldErrors) {}

    fn columns() -> &'static [Column] {
        const { &[Column::name(), Column::new("Age", "string")] }
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        vec![cell::name(&self.metadata), cell::age(&self.metadata, now)]
    }
}
