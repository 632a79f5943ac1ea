//! Requests for certificates in `kubectl get`.

use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use serde_json::Value;

use apimachinery::table::{Column, short_duration};

use super::conditions::{APPROVED, DENIED, FAILED, of};
use crate::cell;
use crate::check::text;

pub(super) const COLUMNS: &[Column] = &[
    Column::name(),
    Column::new("Age", "string"),
    Column::new("SignerName", "string"),
    Column::new("Requestor", "string"),
    Column::new("RequestedDuration", "string"),
    Column::new("Condition", "string"),
];

pub(super) fn row(request: &CertificateSigningRequest, now: Timestamp) -> Vec<Value> {
    let seconds = request.spec.expiration_seconds.map(i64::from);
    let duration = seconds.map_or_else(|| "<none>".to_owned(), short_duration);
    vec![
        cell::name(&request.metadata),
        cell::age(&request.metadata, now),
        cell::or_none(&request.spec.signer_name),
        Value::from(text(request.spec.username.as_ref())),
        Value::from(duration),
        Value::from(condition(request)),
    ]
}

/// How far it is.
fn condition(request: &CertificateSigningRequest) -> String {
    let has = |type_: &str| !of(request, type_).is_empty();
    let mut words = vec![match (has(DENIED), has(APPROVED)) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    }];
    if has(FAILED) {
        words.push("Failed");
    }
    let certificate = request.status.as_ref().and_then(|it| it.certificate.as_ref());
    if certificate.is_some_and(|it| !it.0.is_empty()) {
        words.push("Issued");
    }
    words.join(",")
}
