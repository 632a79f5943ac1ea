//! ComponentStatus: how the parts of the control plane are. It is not stored: the server looks when
//! it is asked.

#[cfg(test)]
mod tests;

use apimachinery::FieldErrors;
use apimachinery::table::Column;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ComponentCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use crate::cell;
use crate::check::text;
use crate::kind::Resource;

pub use k8s_openapi::api::core::v1::ComponentStatus;

const HEALTHY: &str = "Healthy";

impl Resource for ComponentStatus {
    codec!();

    /// Nobody writes one.
    fn validate(&self, _errors: &mut FieldErrors) {}

    fn deprecation() -> Option<&'static str> {
        Some("v1 ComponentStatus is deprecated in v1.19+")
    }

    fn columns() -> &'static [Column] {
        const {
            &[
                Column::name(),
                Column::new("Status", "string"),
                Column::new("Message", "string"),
                Column::new("Error", "string"),
            ]
        }
    }

    fn row(&self, _now: Timestamp) -> Vec<Value> {
        let mut conditions = self.conditions.iter().flatten();
        let condition = conditions.find(|it| it.type_ == HEALTHY);
        let status = match condition.map(|it| it.status.as_str()) {
            None => "Unknown",
            Some("True") => HEALTHY,
            Some(_) => "Unhealthy",
        };
        let of = |field: fn(&ComponentCondition) -> &Option<String>| {
            Value::from(condition.map_or("", |it| text(field(it).as_ref())))
        };
        vec![
            cell::name(&self.metadata),
            Value::from(status),
            of(|it| &it.message),
            of(|it| &it.error),
        ]
    }
}

/// What a look at the component `name` has shown: `Ok` if it is well, else what is wrong.
pub fn of(name: &str, health: Result<(), String>) -> ComponentStatus {
    let (status, message) = match health {
        Ok(()) => ("True", "ok".to_owned()),
        Err(why) => ("False", why),
    };
    let condition = ComponentCondition {
        type_: HEALTHY.to_owned(),
        status: status.to_owned(),
        message: Some(message),
        error: None,
    };
    ComponentStatus {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        conditions: Some(vec![condition]),
    }
}
