//! Scale: the replicas of any kind that has some.

#[cfg(test)]
mod tests;

use apimachinery::FieldErrors;

use crate::kind::Resource;

use crate::cell;
use crate::check;
use apimachinery::field::Path;
use apimachinery::table::Column;
use jiff::Timestamp;
use serde_json::Value;

pub use k8s_openapi::api::autoscaling::v1::Scale;

impl Resource for Scale {
    codec!();

    fn validate(&self, errors: &mut FieldErrors) {
        let replicas = self.spec.as_ref().and_then(|it| it.replicas).unwrap_or(0);
        check::non_negative(replicas, &Path::new("spec").child("replicas"), errors);
    }

    fn columns() -> &'static [Column] {
        const {
            &[
                Column::new("Name", "string"),
                Column::new("Desired", "integer"),
                Column::new("Available", "integer"),
                Column::new("Age", "string"),
            ]
        }
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        vec![
            cell::name(&self.metadata),
            Value::from(self.spec.as_ref().and_then(|it| it.replicas).unwrap_or(0)),
            Value::from(self.status.as_ref().map_or(0, |it| it.replicas)),
            cell::age(&self.metadata, now),
        ]
    }
}
