//! What is wrong with a CSIDriver.

use std::collections::BTreeSet;

use k8s_openapi::api::storage::v1::{CSIDriverSpec, TokenRequest};

use apimachinery::FieldErrors;
use apimachinery::field::Path;

use crate::{check, codec, semantic};

const FS_GROUP_POLICIES: &[&str] = &["File", "None", "ReadWriteOnceWithFSType"];
const LIFECYCLE_MODES: &[&str] = &["Persistent", "Ephemeral"];
const UPDATE_PERIOD_MIN: i64 = 10;
const TOKEN_SECONDS_MIN: i64 = 600;
const TOKEN_SECONDS_MAX: i64 = 1 << 32;
/// Upstream names this field so, and no other.
const ATTACH_REQUIRED: &str = "attachedRequired";

pub(super) fn validate(spec: &CSIDriverSpec, errors: &mut FieldErrors) {
    let path = Path::new("spec");
    for (field, value) in [
        (ATTACH_REQUIRED, spec.attach_required),
        ("podInfoOnMount", spec.pod_info_on_mount),
        ("storageCapacity", spec.storage_capacity),
    ] {
        if value.is_none() {
            errors.required(&path.child(field), "");
        }
    }
    if let Some(policy) = spec.fs_group_policy.as_deref()
        && !FS_GROUP_POLICIES.contains(&policy)
    {
        errors.not_supported(&path.child("fsGroupPolicy"), policy, FS_GROUP_POLICIES);
    }
    let requests = spec.token_requests.as_deref().unwrap_or_default();
    validate_requests(requests, &path.child("tokenRequests"), errors);
    for mode in spec.volume_lifecycle_modes.iter().flatten() {
        if !LIFECYCLE_MODES.contains(&mode.as_str()) {
            let path = path.child("volumeLifecycleModes");
            errors.not_supported_as_listed(&path, mode.as_str(), LIFECYCLE_MODES);
        }
    }
    if spec.se_linux_mount.is_none() {
        errors.required(&path.child("seLinuxMount"), "");
    }
    if let Some(period) = spec.node_allocatable_update_period_seconds
        && period < UPDATE_PERIOD_MIN
    {
        let detail = format!("must be greater than or equal to {UPDATE_PERIOD_MIN} seconds");
        errors.invalid(&path.child("nodeAllocatableUpdatePeriodSeconds"), period, &detail);
    }
    if let Some(value) = spec.service_account_token_in_secrets
        && requests.is_empty()
    {
        let detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
        errors.invalid(&path.child("serviceAccountTokenInSecrets"), value, detail);
    }
}

fn validate_requests(requests: &[TokenRequest], path: &Path, errors: &mut FieldErrors) {
    let mut audiences = BTreeSet::new();
    for (index, request) in requests.iter().enumerate() {
        let path = path.index(index);
        if !audiences.insert(&request.audience) {
            errors.duplicate(&path.child("audience"), request.audience.as_str());
            continue;
        }
        let Some(seconds) = request.expiration_seconds else { continue };
        let path = path.child("expirationSeconds");
        if seconds < TOKEN_SECONDS_MIN {
            let detail = "may not specify a duration less than 10 minutes";
            errors.invalid(&path, seconds, detail);
        }
        if seconds > TOKEN_SECONDS_MAX {
            let detail = "may not specify a duration larger than 2^32 seconds";
            errors.invalid(&path, seconds, detail);
        }
    }
}

pub(super) fn validate_update(spec: &CSIDriverSpec, old: &CSIDriverSpec, errors: &mut FieldErrors) {
    let path = Path::new("spec");
    let is_same = spec.attach_required == old.attach_required;
    let shown = codec::tree(&spec.attach_required);
    check::immutable(is_same, shown, &path.child(ATTACH_REQUIRED), errors);
    let is_same = semantic::equal(&spec.volume_lifecycle_modes, &old.volume_lifecycle_modes);
    let shown = codec::tree(&spec.volume_lifecycle_modes);
    check::immutable(is_same, shown, &path.child("volumeLifecycleModes"), errors);
}
