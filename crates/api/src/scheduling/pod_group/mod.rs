//! PodGroup: pods that belong together when they are scheduled.

#[cfg(test)]
mod tests;
mod validation;

use apimachinery::FieldErrors;
use apimachinery::table::Column;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::gates::{self, Gated};
use crate::cell;
use crate::halves::keep_metadata;
use crate::kind::{Part, Resource};

pub use k8s_openapi::api::scheduling::v1alpha2::PodGroup;

impl Resource for PodGroup {
    codec!();
    spec_and_status!();

    fn apply_defaults(&mut self) {
        self.spec.disruption_mode.get_or_insert_with(|| "Pod".to_owned());
        if let Some(basic) = &mut self.spec.scheduling_policy.basic {
            // It has no fields.
            basic.0 = json!({});
        }
    }

    fn prepare_create(&mut self) {
        self.clear_status();
        gates::drop_disabled_of_group(&mut self.spec, None);
    }

    fn prepare_update(&mut self, stored: &Self, part: Part) {
        match part {
            Part::Status => {
                self.keep_spec(stored);
                keep_metadata(&mut self.metadata, &stored.metadata);
                let has_claims = Gated::from(&stored.spec).has_claims();
                if let Some(status) = self.status.as_mut().filter(|_| !has_claims) {
                    status.resource_claim_statuses = None;
                }
            }
            Part::Main | Part::Other(_) => {
                self.keep_status(stored);
                gates::drop_disabled_of_group(&mut self.spec, Some(&stored.spec));
            }
        }
    }

    /// What is wrong depends on what was there: see below.
    fn validate(&self, _errors: &mut FieldErrors) {}

    fn validate_create(&self, errors: &mut FieldErrors) {
        validation::validate(self, errors);
    }

    fn validate_update(&self, stored: &Self, part: Part, errors: &mut FieldErrors) {
        match part {
            Part::Status => validation::validate_status(self, errors),
            Part::Main | Part::Other(_) => validation::validate_update(self, stored, errors),
        }
    }

    fn warnings(&self) -> Vec<String> {
        vec![super::NOT_SCHEDULED.to_owned()]
    }

    fn columns() -> &'static [Column] {
        const {
            &[
                Column::name(),
                Column::new("Policy", "string"),
                Column::new("Workload", "string"),
                Column::new("Status", "string"),
                Column::new("Age", "string"),
            ]
        }
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        let policy = if self.spec.scheduling_policy.gang.is_some() { "Gang" } else { "Basic" };
        let reference = self.spec.pod_group_template_ref.as_ref();
        let workload = reference.and_then(|it| it.workload.as_ref());
        let workload = workload.map_or("<none>", |it| it.workload_name.as_str());
        vec![
            cell::name(&self.metadata),
            Value::from(policy),
            Value::from(workload),
            Value::from(state(self)),
            cell::age(&self.metadata, now),
        ]
    }
}

/// Why it is disrupted, or how far its scheduling is.
fn state(group: &PodGroup) -> String {
    let conditions = group.status.as_ref().and_then(|it| it.conditions.as_ref());
    let find = |kind: &str| conditions.into_iter().flatten().rfind(|it| it.type_ == kind);
    if let Some(disrupted) = find("DisruptionTarget") {
        return disrupted.reason.clone();
    }
    let state = match find("PodGroupScheduled") {
        None => "Pending",
        Some(it) if it.status == "True" => "Scheduled",
        Some(_) => "Unschedulable",
    };
    state.to_owned()
}
