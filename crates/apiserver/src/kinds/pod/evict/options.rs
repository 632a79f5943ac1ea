//! How the pod is to be deleted: what the eviction says of it, with what the query says. Pure.

use api::policy::Eviction;
use apimachinery::{ApiError, FieldErrors, GroupKind, Path, Reason};
use bytes::Bytes;
use client::{DeleteOptions, Preconditions, Propagation};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::DeleteOptions as WireOptions;
use serde_json::Value;

const PROPAGATION: &[&str] = &["Background", "Foreground", "Orphan", "nil"];

/// An eviction of the version that was before, as older clients send it: it has the same fields.
/// `None` if it is not one.
pub(super) fn from_beta(body: &[u8]) -> Option<Bytes> {
    let mut eviction: Value = serde_json::from_slice(body).ok()?;
    let version = eviction.get_mut("apiVersion").filter(|it| **it == "policy/v1beta1")?;
    *version = Value::from("policy/v1");
    Some(eviction.to_string().into())
}

pub(super) fn validate_place(
    namespace: &str,
    name: &str,
    eviction: &Eviction,
) -> Result<(), ApiError> {
    let meta = &eviction.metadata;
    if meta.namespace.as_deref().is_some_and(|it| !it.is_empty() && it != namespace) {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    if meta.name.as_deref().unwrap_or_default() != name {
        return Err(ApiError::bad_request("name in URL does not match name in Eviction object"));
    }
    Ok(())
}

/// A dry run is one that the query or the body asks for.
pub(super) fn merge(eviction: &Eviction, is_dry_run: bool) -> Result<DeleteOptions, ApiError> {
    let absent = WireOptions::default();
    let wire = eviction.delete_options.as_ref().unwrap_or(&absent);
    if wire.ignore_store_read_error_with_cluster_breaking_potential == Some(true) {
        let mut errors = FieldErrors::new();
        let path = Path::new("deleteOptions");
        let path = path.child("ignoreStoreReadErrorWithClusterBreakingPotential");
        let why = "can not be set for pod eviction, try after removing the option";
        errors.invalid(&path, true, why);
        let kind = GroupKind { group: "policy".to_owned(), kind: "Eviction".to_owned() };
        let name = eviction.metadata.name.as_deref().unwrap_or_default();
        return Err(ApiError::invalid(&kind, name, &errors));
    }
    let dry_run = wire.dry_run.as_deref().unwrap_or_default();
    if is_dry_run && !dry_run.is_empty() && dry_run != ["All"] {
        let content = dry_run.join(" ");
        return Err(ApiError::new(
            Reason::Unknown,
            format!("Non-matching dry-run options in request and content: [All] and [{content}]"),
        ));
    }
    let propagation = propagation(wire)?;
    let preconditions = wire.preconditions.clone().unwrap_or_default();
    Ok(DeleteOptions {
        grace_period_seconds: wire.grace_period_seconds,
        propagation,
        preconditions: Preconditions {
            uid: preconditions.uid,
            resource_version: preconditions.resource_version,
        },
        dry_run: is_dry_run || !dry_run.is_empty(),
    })
}

/// With all that is wrong with the options of any deletion.
fn propagation(wire: &WireOptions) -> Result<Option<Propagation>, ApiError> {
    let mut errors = FieldErrors::new();
    let path = Path::new("propagationPolicy");
    if wire.propagation_policy.is_some() && wire.orphan_dependents.is_some() {
        let value = wire.propagation_policy.as_deref().unwrap_or_default();
        errors.invalid(&path, value, "orphanDependents and deletionPropagation cannot be both set");
    }
    let propagation = match (wire.propagation_policy.as_deref(), wire.orphan_dependents) {
        (Some("Foreground"), _) => Some(Propagation::Foreground),
        (Some("Orphan"), _) | (None, Some(true)) => Some(Propagation::Orphan),
        (Some("Background"), _) | (None, Some(false)) => Some(Propagation::Background),
        (None, None) => None,
        (Some(other), _) => {
            errors.not_supported(&path, other, PROPAGATION);
            None
        }
    };
    let dry_run = wire.dry_run.as_deref().unwrap_or_default();
    if dry_run.iter().any(|it| it != "All") {
        errors.not_supported(&Path::new("dryRun"), dry_run.to_vec(), &["All"]);
    }
    if errors.is_empty() {
        return Ok(propagation);
    }
    let kind = GroupKind { group: "meta.k8s.io".to_owned(), kind: "DeleteOptions".to_owned() };
    Err(ApiError::invalid(&kind, "", &errors))
}
