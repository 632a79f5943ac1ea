//! PodCertificateRequest: a node asks for a certificate for one of its pods.

#[cfg(test)]
mod tests;
mod validation;

use apimachinery::FieldErrors;
use apimachinery::table::Column;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::kind::{Part, Resource};
use crate::{cell, halves, semantic};

pub use k8s_openapi::api::certificates::v1beta1::PodCertificateRequest;
pub(crate) use validation::{expiration_seconds_max, validate_user_annotations};

const ISSUED: &str = "Issued";
const DENIED: &str = "Denied";
const FAILED: &str = "Failed";
const EXPIRATION_SECONDS_DEFAULT: i32 = 24 * 60 * 60;
/// By how much the clocks of this server and of a signer may differ.
const CLOCK_DIFFERENCE_MAX: SignedDuration = SignedDuration::from_mins(5);

impl Resource for PodCertificateRequest {
    codec!();

    fn apply_defaults(&mut self) {
        self.spec.max_expiration_seconds.get_or_insert(EXPIRATION_SECONDS_DEFAULT);
        self.status.get_or_insert_default();
    }

    fn clear_status(&mut self) {
        self.status = Some(Default::default());
    }

    fn prepare_update(&mut self, stored: &Self, part: Part) {
        if part == Part::Status {
            self.spec = stored.spec.clone();
            halves::keep_metadata(&mut self.metadata, &stored.metadata);
        } else {
            self.status.clone_from(&stored.status);
        }
    }

    /// What is asked for is checked once.
    fn validate(&self, _errors: &mut FieldErrors) {}

    fn validate_create(&self, errors: &mut FieldErrors) {
        validation::validate_create(self, errors);
    }

    fn validate_update(&self, stored: &Self, part: Part, errors: &mut FieldErrors) {
        match part {
            Part::Status => validation::validate_status(self, stored, errors),
            Part::Main | Part::Other(_) => validation::validate_update(self, stored, errors),
        }
    }

    fn columns() -> &'static [Column] {
        const {
            &[
                Column::name(),
                Column::new("PodName", "string"),
                Column::new("ServiceAccountName", "string"),
                Column::new("NodeName", "string"),
                Column::new("SignerName", "string"),
                Column::new("State", "string"),
                Column::new("UnverifiedUserAnnotations", "string"),
            ]
        }
    }

    fn row(&self, _now: Timestamp) -> Vec<Value> {
        let spec = &self.spec;
        vec![
            cell::name(&self.metadata),
            Value::from(spec.pod_name.as_str()),
            Value::from(spec.service_account_name.as_str()),
            Value::from(spec.node_name.as_str()),
            Value::from(spec.signer_name.as_str()),
            Value::from(state(self)),
            cell::labels(spec.unverified_user_annotations.as_ref()),
        ]
    }

    fn fields(&self) -> Vec<(&'static str, String)> {
        vec![
            ("spec.signerName", self.spec.signer_name.clone()),
            ("spec.podName", self.spec.pod_name.clone()),
            ("spec.nodeName", self.spec.node_name.clone()),
        ]
    }

    fn field_names() -> &'static [(&'static str, &'static str)] {
        &[
            ("spec.signerName", "spec.signerName"),
            ("spec.podName", "spec.podName"),
            ("spec.nodeName", "spec.nodeName"),
        ]
    }
}

fn state(request: &PodCertificateRequest) -> &'static str {
    let conditions = request.status.as_ref().and_then(|it| it.conditions.as_deref());
    let of = |type_: &str| [ISSUED, DENIED, FAILED].into_iter().find(|it| *it == type_);
    let all = conditions.unwrap_or_default().iter();
    all.filter_map(|it| of(&it.type_)).next_back().unwrap_or("Pending")
}

/// Whether what came of the request is another now: only who signs may say so.
pub fn is_status_changed(request: &PodCertificateRequest, stored: &PodCertificateRequest) -> bool {
    !semantic::equal(&request.status, &stored.status)
}

/// Whether a certificate that was issued is valid from about now on.
pub fn is_of_now(request: &PodCertificateRequest, now: Timestamp) -> bool {
    let start = request.status.as_ref().and_then(|it| it.not_before.as_ref());
    start.is_none_or(|it| it.0.duration_since(now).abs() < CLOCK_DIFFERENCE_MAX)
}
