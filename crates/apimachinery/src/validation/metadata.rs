//! `metadata`: the same rules for every kind.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    ManagedFieldsEntry, ObjectMeta, OwnerReference,
};
use serde_json::Value;

use super::{is_dns_label, is_dns_subdomain, is_path_segment, is_qualified_name, validate_labels};
use crate::field::{FieldErrors, Path};
use crate::names::{NameRule, Scope};

/// All annotations of an object together, keys and values.
pub(crate) const ANNOTATIONS_SIZE_MAX: usize = 256 * 1024;
const FIELD_MANAGER_LENGTH_MAX: usize = 128;
const SUBRESOURCE_LENGTH_MAX: usize = 256;
const IMMUTABLE: &str = "field is immutable";

/// Everything about metadata, for all kinds alike.
pub fn validate_metadata(
    meta: &ObjectMeta,
    scope: Scope,
    rule: NameRule,
    errors: &mut FieldErrors,
) {
    validate_metadata_at(&Path::new("metadata"), meta, scope, rule, errors);
}

/// Of an object that is within another.
pub fn validate_metadata_at(
    path: &Path,
    meta: &ObjectMeta,
    scope: Scope,
    rule: NameRule,
    errors: &mut FieldErrors,
) {
    validate_name(meta, rule, path, errors);
    validate_namespace(meta, scope, path, errors);
    if meta.generation.is_some_and(|it| it < 0) {
        let detail = "must be greater than or equal to 0";
        errors.invalid(&path.child("generation"), meta.generation, detail);
    }
    validate_maps_and_owners(path, meta, errors);
    let finalizers = meta.finalizers.as_deref().unwrap_or_default();
    validate_finalizers(finalizers, &path.child("finalizers"), errors);
    let managers = meta.managed_fields.as_deref().unwrap_or_default();
    validate_managed_fields(managers, &path.child("managedFields"), errors);
}

/// What upstream checks more than once in an update.
pub fn validate_metadata_again(meta: &ObjectMeta, errors: &mut FieldErrors) {
    validate_maps_and_owners(&Path::new("metadata"), meta, errors);
}

fn validate_maps_and_owners(path: &Path, meta: &ObjectMeta, errors: &mut FieldErrors) {
    if let Some(labels) = &meta.labels {
        validate_labels(labels, &path.child("labels"), errors);
    }
    if let Some(annotations) = &meta.annotations {
        validate_annotations(annotations, &path.child("annotations"), errors);
    }
    let owners = meta.owner_references.as_deref().unwrap_or_default();
    validate_owners(owners, &path.child("ownerReferences"), errors);
}

/// A name under a kind's rule.
pub fn is_name(text: &str, rule: NameRule) -> Vec<String> {
    match rule {
        NameRule::DnsSubdomain => is_dns_subdomain(text),
        NameRule::DnsLabel => is_dns_label(text),
        NameRule::PathSegment => is_path_segment(text),
    }
}

fn validate_name(meta: &ObjectMeta, rule: NameRule, path: &Path, errors: &mut FieldErrors) {
    let name = meta.name.as_deref().unwrap_or_default();
    let prefix = meta.generate_name.as_deref().unwrap_or_default();
    if !prefix.is_empty() {
        // The random end makes a trailing dash fine.
        let masked = match prefix.strip_suffix('-') {
            Some(rest) if !rest.is_empty() => format!("{rest}a"),
            _ => prefix.to_owned(),
        };
        for problem in is_name(&masked, rule) {
            errors.invalid(&path.child("generateName"), prefix, &problem);
        }
    }
    if name.is_empty() {
        if prefix.is_empty() {
            errors.required(&path.child("name"), "name or generateName is required");
        }
        return;
    }
    for problem in is_name(name, rule) {
        errors.invalid(&path.child("name"), name, &problem);
    }
}

fn validate_namespace(meta: &ObjectMeta, scope: Scope, path: &Path, errors: &mut FieldErrors) {
    let path = path.child("namespace");
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    match scope {
        Scope::Cluster if !namespace.is_empty() => {
            errors.forbidden(&path, "not allowed on this type");
        }
        Scope::Cluster => {}
        Scope::Namespaced if namespace.is_empty() => errors.required(&path, ""),
        Scope::Namespaced => {
            for problem in is_dns_label(namespace) {
                errors.invalid(&path, namespace, &problem);
            }
        }
    }
}

pub fn validate_annotations(
    annotations: &BTreeMap<String, String>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    for key in annotations.keys() {
        // Upper case is allowed in the prefix too, for annotations only.
        for problem in is_qualified_name(&key.to_ascii_lowercase()) {
            errors.invalid(path, key.as_str(), &problem);
        }
    }
    let size: usize = annotations.iter().map(|(key, value)| key.len() + value.len()).sum();
    if size > ANNOTATIONS_SIZE_MAX {
        errors.too_long(path, ANNOTATIONS_SIZE_MAX);
    }
}

fn validate_owners(owners: &[OwnerReference], path: &Path, errors: &mut FieldErrors) {
    let mut controller: Option<&OwnerReference> = None;
    for owner in owners {
        let version = owner.api_version.rsplit('/').next().unwrap_or_default();
        for (field, value, checked, detail) in [
            ("apiVersion", &owner.api_version, version, "version must not be empty"),
            ("kind", &owner.kind, owner.kind.as_str(), "kind must not be empty"),
            ("name", &owner.name, owner.name.as_str(), "name must not be empty"),
            ("uid", &owner.uid, owner.uid.as_str(), "uid must not be empty"),
        ] {
            if checked.is_empty() {
                errors.invalid(&path.child(field), value.as_str(), detail);
            }
        }
        if owner.kind == "Event" && owner.api_version == "v1" {
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            errors.invalid(path, as_json(owner), detail);
        }
        if owner.controller != Some(true) {
            continue;
        }
        match controller {
            None => controller = Some(owner),
            // Each shows all of them: enough have been shown when no more are kept.
            Some(_) if errors.is_full() => return,
            Some(first) => errors.invalid(
                path,
                as_json(owners),
                &format!(
                    "Only one reference can have Controller set to true. Found \"true\" in \
                     references for {}/{} and {}/{}",
                    first.kind, first.name, owner.kind, owner.name
                ),
            ),
        }
    }
}

fn validate_finalizers(finalizers: &[String], path: &Path, errors: &mut FieldErrors) {
    for finalizer in finalizers {
        for problem in is_qualified_name(finalizer) {
            errors.invalid(path, finalizer.as_str(), &problem);
        }
    }
    let has = |name: &str| finalizers.iter().any(|it| it == name);
    if has("orphan") && has("foregroundDeletion") {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.invalid(path, as_json(finalizers), detail);
    }
}

fn validate_managed_fields(entries: &[ManagedFieldsEntry], path: &Path, errors: &mut FieldErrors) {
    for (index, entry) in entries.iter().enumerate() {
        let path = path.index(index);
        let operation = entry.operation.as_deref().unwrap_or_default();
        if !matches!(operation, "Apply" | "Update") {
            errors.invalid(&path.child("operation"), operation, "must be `Apply` or `Update`");
        }
        let fields_type = entry.fields_type.as_deref().unwrap_or_default();
        if !matches!(fields_type, "" | "FieldsV1") {
            errors.invalid(&path.child("fieldsType"), fields_type, "must be `FieldsV1`");
        }
        let manager = entry.manager.as_deref().unwrap_or_default();
        validate_field_manager(manager, &path.child("manager"), errors);
        if entry.subresource.as_ref().is_some_and(|it| it.len() > SUBRESOURCE_LENGTH_MAX) {
            errors.too_long(&path.child("subresource"), SUBRESOURCE_LENGTH_MAX);
        }
    }
}

/// The name of whoever writes, as it stands in managedFields.
pub fn validate_field_manager(manager: &str, path: &Path, errors: &mut FieldErrors) {
    if manager.len() > FIELD_MANAGER_LENGTH_MAX {
        errors.too_long(path, FIELD_MANAGER_LENGTH_MAX);
    }
    let is_printable = |it: char| it == ' ' || !(it.is_control() || it.is_whitespace());
    for (position, letter) in manager.char_indices().filter(|(_, it)| !is_printable(*it)) {
        let code = u32::from(letter);
        let detail = format!("invalid character U+{code:04X} (at position {position})");
        errors.invalid(path, manager, &detail);
    }
}

/// What an update may not change in metadata. What the server fills in may be left out. Whether
/// resourceVersion is required differs by kind, so it is not checked here.
pub fn validate_metadata_update(meta: &ObjectMeta, stored: &ObjectMeta, errors: &mut FieldErrors) {
    let path = Path::new("metadata");
    if stored.deletion_timestamp.is_some() {
        validate_no_new_finalizers(meta, stored, &path, errors);
    }
    let (generation, generation_stored) =
        (meta.generation.unwrap_or(0), stored.generation.unwrap_or(0));
    if generation < generation_stored && meta.generation.is_some() {
        errors.invalid(&path.child("generation"), generation, "must not be decremented");
    }
    for (field, new, old) in [
        ("name", &meta.name, &stored.name),
        ("namespace", &meta.namespace, &stored.namespace),
        ("uid", &meta.uid, &stored.uid),
    ] {
        let is_filled = field == "uid" && new.is_none();
        if !is_filled && new.as_deref().unwrap_or("") != old.as_deref().unwrap_or("") {
            errors.invalid(&path.child(field), new.as_deref().unwrap_or(""), IMMUTABLE);
        }
    }
    for (field, new, old) in [
        ("creationTimestamp", &meta.creation_timestamp, &stored.creation_timestamp),
        ("deletionTimestamp", &meta.deletion_timestamp, &stored.deletion_timestamp),
    ] {
        if new.is_some() && new != old {
            errors.invalid(&path.child(field), as_json(new), IMMUTABLE);
        }
    }
    if meta.deletion_grace_period_seconds.is_some()
        && meta.deletion_grace_period_seconds != stored.deletion_grace_period_seconds
    {
        let value = meta.deletion_grace_period_seconds;
        errors.invalid(&path.child("deletionGracePeriodSeconds"), value, IMMUTABLE);
    }
}

fn validate_no_new_finalizers(
    meta: &ObjectMeta,
    stored: &ObjectMeta,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let old: BTreeSet<&String> = stored.finalizers.iter().flatten().collect();
    let mut added: Vec<String> = meta
        .finalizers
        .iter()
        .flatten()
        .filter(|it| !old.contains(it))
        .map(|it| format!("{it:?}"))
        .collect();
    added.sort();
    if !added.is_empty() {
        let detail = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers \
             []string{{{}}}",
            added.join(", ")
        );
        errors.forbidden(&path.child("finalizers"), &detail);
    }
}

fn as_json<T: serde::Serialize + ?Sized>(value: &T) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}
