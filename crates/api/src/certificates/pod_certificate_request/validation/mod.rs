//! What is wrong with a PodCertificateRequest.

mod chain;
mod key;

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1beta1::{
    PodCertificateRequest, PodCertificateRequestSpec, PodCertificateRequestStatus,
};

use apimachinery::FieldErrors;
use apimachinery::field::{Cause, Path};
use apimachinery::validation::{is_dns_subdomain, is_qualified_name, validate_annotations};

use super::{DENIED, FAILED, ISSUED};
use crate::certificates::signer_name;
use crate::{check, codec, conditions, semantic};

const UID_LENGTH_MAX: usize = 128;
const EXPIRATION_SECONDS_MIN: i32 = 60 * 60;
const EXPIRATION_SECONDS_MAX: i32 = 91 * 24 * 60 * 60;
/// Of Kubernetes' own signers.
const OWN_EXPIRATION_SECONDS_MAX: i32 = 24 * 60 * 60;
const TYPES: &[&str] = &[DENIED, FAILED, ISSUED];

/// A problem whose value says nothing to a reader.
fn invalid_unshown(path: &Path, detail: &str, errors: &mut FieldErrors) {
    errors.push(path, Cause::Invalid, format!("Invalid value: {detail}"));
}

fn is_there(bytes: Option<&ByteString>) -> bool {
    bytes.is_some_and(|it| !it.0.is_empty())
}

pub(super) fn validate_create(request: &PodCertificateRequest, errors: &mut FieldErrors) {
    let (spec, path) = (&request.spec, Path::new("spec"));
    signer_name::validate(&spec.signer_name, &path.child("signerName"), errors);
    if let Some(annotations) = &spec.unverified_user_annotations {
        validate_user_annotations(annotations, &path.child("unverifiedUserAnnotations"), errors);
    }
    for (field, name, field_uid, uid) in [
        ("podName", &spec.pod_name, "podUID", &spec.pod_uid),
        (
            "serviceAccountName",
            &spec.service_account_name,
            "serviceAccountUID",
            &spec.service_account_uid,
        ),
        ("nodeName", &spec.node_name, "nodeUID", &spec.node_uid),
    ] {
        check::format(name, &is_dns_subdomain(name), &path.child(field), errors);
        validate_uid(uid, &path.child(field_uid), errors);
    }
    let path_seconds = path.child("maxExpirationSeconds");
    let Some(seconds) = spec.max_expiration_seconds else {
        return errors.required(&path_seconds, "must be set");
    };
    let max = expiration_seconds_max(&spec.signer_name);
    if !(EXPIRATION_SECONDS_MIN..=max).contains(&seconds) {
        let detail = format!("must be in the range [{EXPIRATION_SECONDS_MIN}, {max}]");
        errors.invalid(&path_seconds, seconds, &detail);
    }
    validate_key(spec, &path, errors);
}

/// A key comes in a request of its own, or bare with a proof.
fn validate_key(spec: &PodCertificateRequestSpec, path: &Path, errors: &mut FieldErrors) {
    let has_stub = !spec.stub_pkc_s10_request.0.is_empty();
    let has_key = is_there(spec.pkix_public_key.as_ref());
    match (has_stub, has_key, is_there(spec.proof_of_possession.as_ref())) {
        (true, false, false) => key::validate_stub(spec, path, errors),
        (false, true, true) => key::validate_bare(spec, path, errors),
        _ => {
            let detail = "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set";
            invalid_unshown(path, detail, errors);
        }
    }
}

fn validate_uid(uid: &str, path: &Path, errors: &mut FieldErrors) {
    if uid.is_empty() {
        errors.invalid(path, uid, "must not be empty");
    }
    if uid.len() > UID_LENGTH_MAX {
        errors.too_long(path, UID_LENGTH_MAX);
    }
}

/// How long a certificate of this signer may be asked for.
pub(crate) fn expiration_seconds_max(signer: &str) -> i32 {
    match signer_name::is_of_kubernetes(signer) {
        true => OWN_EXPIRATION_SECONDS_MAX,
        false => EXPIRATION_SECONDS_MAX,
    }
}

/// Each has a domain of its own.
pub(crate) fn validate_user_annotations(
    annotations: &BTreeMap<String, String>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    validate_annotations(annotations, path, errors);
    let is_plain = |it: &&String| !it.contains('/') && is_qualified_name(it).is_empty();
    for key in annotations.keys().filter(is_plain) {
        let detail = "must be a domain-prefixed key (such as \"acme.io/foo\")";
        errors.invalid(path, key.as_str(), detail);
    }
}

pub(super) fn validate_update(
    request: &PodCertificateRequest,
    stored: &PodCertificateRequest,
    errors: &mut FieldErrors,
) {
    let is_same = semantic::equal(&request.spec, &stored.spec);
    check::immutable(is_same, codec::tree(&request.spec), &Path::new("spec"), errors);
}

fn has(status: &PodCertificateRequestStatus, type_: &str) -> bool {
    let mut all = status.conditions.iter().flatten();
    all.any(|it| it.type_ == type_ && it.status == "True")
}

/// A request ends in one of three ways, and then stays so.
pub(super) fn validate_status(
    request: &PodCertificateRequest,
    stored: &PodCertificateRequest,
    errors: &mut FieldErrors,
) {
    let new = request.status.clone().unwrap_or_default();
    let old = stored.status.clone().unwrap_or_default();
    let path = Path::new("status");
    validate_conditions(&new, &path.child("conditions"), errors);
    if !errors.is_empty() {
        return;
    }
    let is_ended = TYPES.iter().any(|it| has(&old, it));
    let conditions_alone =
        PodCertificateRequestStatus { conditions: new.conditions.clone(), ..Default::default() };
    let (is_right, detail) = if is_ended {
        let detail = "immutable after PodCertificateRequest is issued, denied, or failed";
        (semantic::equal(&new, &old), detail)
    } else if has(&new, DENIED) || has(&new, FAILED) {
        let detail = "non-condition status fields must be empty when denying or failing the PodCertificateRequest";
        (semantic::equal(&new, &conditions_alone), detail)
    } else if has(&new, ISSUED) {
        return chain::validate(request, stored, errors);
    } else {
        let detail =
            "status is immutable unless transitioning to \"Issued\", \"Denied\", or \"Failed\"";
        (semantic::equal(&new, &old), detail)
    };
    if !is_right {
        invalid_unshown(&path, detail, errors);
    }
}

/// Paths are written as upstream writes them, with a dot before the index.
fn validate_conditions(
    status: &PodCertificateRequestStatus,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let all = status.conditions.as_deref().unwrap_or_default();
    let mut n_known = 0;
    for (index, condition) in all.iter().enumerate() {
        let path = path.child(&format!("[{index}]"));
        if !TYPES.contains(&condition.type_.as_str()) {
            errors.not_supported(&path.child("type"), condition.type_.as_str(), TYPES);
            continue;
        }
        n_known += 1;
        if n_known > 1 {
            let detail = "There may be at most one condition with type \"Issued\", \"Denied\", or \"Failed\"";
            errors.invalid(&path.child("type"), condition.type_.as_str(), detail);
        }
        if condition.status != "True" {
            errors.not_supported(&path.child("status"), condition.status.as_str(), &["True"]);
        }
    }
    conditions::validate(all, path, errors);
}
