//! What is wrong with a StorageVersionMigration.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::{is_dns_subdomain, is_dns1035_label};

use super::StorageVersionMigration;
use crate::check;
use crate::{codec, conditions, semantic};

pub(super) fn validate(migration: &StorageVersionMigration, errors: &mut FieldErrors) {
    let Some(spec) = &migration.spec else { return };
    let path = Path::new("spec").child("resource");
    let (resource, group) = (spec.resource.resource.as_str(), spec.resource.group.as_str());
    let problems = is_dns1035_label(resource);
    if resource.is_empty() {
        errors.required(&path.child("resource"), "resource is required to be set");
    } else if !problems.is_empty() {
        errors.invalid(&path.child("resource"), resource, &problems.join(","));
    }
    let problems = is_dns_subdomain(group);
    if !group.is_empty() && !problems.is_empty() {
        errors.invalid(&path.child("group"), group, &problems.join(","));
    }
}

pub(super) fn validate_update(
    migration: &StorageVersionMigration,
    stored: &StorageVersionMigration,
    errors: &mut FieldErrors,
) {
    validate(migration, errors);
    let is_same = semantic::equal(&migration.spec, &stored.spec);
    check::immutable(is_same, codec::tree(&migration.spec), &Path::new("spec"), errors);
}

pub(super) fn validate_status(
    migration: &StorageVersionMigration,
    stored: &StorageVersionMigration,
    errors: &mut FieldErrors,
) {
    let version = |it: &StorageVersionMigration| {
        it.status.as_ref().and_then(|it| it.resource_version.clone()).unwrap_or_default()
    };
    let (path, now, before) = (Path::new("status"), version(migration), version(stored));
    let version_path = path.child("resourceVersion");
    let is_number = now.bytes().all(|it| it.is_ascii_digit()) && !now.starts_with('0');
    if !now.is_empty() && !is_number {
        let why = format!("resource version is not well formed: {now}");
        errors.invalid(&version_path, now.as_str(), &why);
    }
    let all = conditions_of(migration);
    let path = path.child("conditions");
    conditions::validate(all, &path, errors);
    let is_same = before.is_empty() || before == now;
    check::immutable(is_same, now, &version_path, errors);
    let (has_succeeded, has_failed) = (holds(all, "Succeeded"), holds(all, "Failed"));
    let had = |kind: &str| holds(conditions_of(stored), kind);
    for (is_wrong, why) in [
        (
            has_succeeded && has_failed,
            "Both success and failed conditions cannot be true at the same time",
        ),
        (
            had("Succeeded") && !has_succeeded,
            "Success condition cannot be set to false once it is true",
        ),
        (had("Failed") && !has_failed, "Failed condition cannot be set to false once it is true"),
    ] {
        if is_wrong {
            errors.invalid(&path, codec::tree(&all), why);
        }
    }
}

fn conditions_of(migration: &StorageVersionMigration) -> &[Condition] {
    migration.status.as_ref().and_then(|it| it.conditions.as_deref()).unwrap_or_default()
}

fn holds(conditions: &[Condition], kind: &str) -> bool {
    conditions.iter().find(|it| it.type_ == kind).is_some_and(|it| it.status == "True")
}
