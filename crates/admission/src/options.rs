//! How a request wants to be carried out: `request.options` of webhooks and policies.

use serde_json::{Value, json};

use crate::attributes::Operation;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options<'a> {
    pub is_dry_run: bool,
    pub field_manager: Option<&'a str>,
    pub field_validation: Option<&'a str>,
    /// Of a deletion alone.
    pub deletion: Option<Deletion<'a>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deletion<'a> {
    pub grace_period_seconds: Option<i64>,
    pub propagation_policy: Option<&'static str>,
    pub uid: Option<&'a str>,
    pub resource_version: Option<&'a str>,
}

impl Options<'_> {
    /// `CreateOptions`, `UpdateOptions` (for patches, too) or `DeleteOptions`; streams have none.
    pub fn to_value(&self, operation: Operation) -> Option<Value> {
        let kind = match operation {
            Operation::Create => "CreateOptions",
            Operation::Update => "UpdateOptions",
            Operation::Delete => "DeleteOptions",
            Operation::Connect => return None,
        };
        let mut value = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
        let mut put = |field: &str, is: Option<Value>| {
            if let Some(is) = is {
                value[field] = is;
            }
        };
        put("dryRun", self.is_dry_run.then(|| json!(["All"])));
        match (operation, self.deletion) {
            (Operation::Delete, Some(it)) => {
                put("gracePeriodSeconds", it.grace_period_seconds.map(Value::from));
                put("propagationPolicy", it.propagation_policy.map(Value::from));
                let mut preconditions = json!({});
                for (field, is) in [("uid", it.uid), ("resourceVersion", it.resource_version)] {
                    if let Some(is) = is {
                        preconditions[field] = is.into();
                    }
                }
                put("preconditions", (preconditions != json!({})).then_some(preconditions));
            }
            (Operation::Delete, None) => {}
            _ => {
                put("fieldManager", self.field_manager.map(Value::from));
                put("fieldValidation", self.field_validation.map(Value::from));
            }
        }
        Some(value)
    }
}
