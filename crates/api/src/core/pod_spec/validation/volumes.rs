//! Volumes: names, one source each, and the fields of the common sources.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{KeyToPath, PodSpec, ProjectedVolumeSource, Volume};

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::is_dns_label;

use crate::check::{self, text};
use crate::codec;

/// Returns the names of all volumes, for mounts to refer to.
pub(super) fn validate_volumes(
    spec: &PodSpec,
    path: &Path,
    errors: &mut FieldErrors,
) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (index, volume) in spec.volumes.iter().flatten().enumerate() {
        let path = path.index(index);
        let path_name = path.child("name");
        if volume.name.is_empty() {
            errors.required(&path_name, "");
        } else {
            check::format(&volume.name, &is_dns_label(&volume.name), &path_name, errors);
        }
        if !names.insert(volume.name.clone()) {
            errors.duplicate(&path_name, volume.name.as_str());
        }
        validate_sources(volume, &path, errors);
        validate_fields(volume, &path, errors);
    }
    names
}

/// Counts sources in the JSON form, where each one is a key beside `name`.
fn validate_sources(volume: &Volume, path: &Path, errors: &mut FieldErrors) {
    let tree = codec::tree(volume);
    let sources: Vec<&String> =
        tree.as_object().into_iter().flat_map(|it| it.keys()).filter(|it| *it != "name").collect();
    if sources.is_empty() {
        errors.required(path, "must specify a volume type");
    }
    for source in sources.iter().skip(1) {
        errors.forbidden(&path.child(source), "may not specify more than 1 volume type");
    }
}

fn validate_fields(volume: &Volume, path: &Path, errors: &mut FieldErrors) {
    if let Some(secret) = &volume.secret {
        let path = path.child("secret");
        if text(secret.secret_name.as_ref()).is_empty() {
            errors.required(&path.child("secretName"), "");
        }
        validate_mode(secret.default_mode, &path.child("defaultMode"), errors);
        validate_items(secret.items.as_deref(), &path.child("items"), errors);
    }
    if let Some(config_map) = &volume.config_map {
        let path = path.child("configMap");
        if config_map.name.is_empty() {
            errors.required(&path.child("name"), "");
        }
        validate_mode(config_map.default_mode, &path.child("defaultMode"), errors);
        validate_items(config_map.items.as_deref(), &path.child("items"), errors);
    }
    if let Some(host_path) = &volume.host_path {
        let path = path.child("hostPath");
        if host_path.path.is_empty() {
            errors.required(&path.child("path"), "");
        } else if host_path.path.split('/').any(|it| it == "..") {
            errors.invalid(&path.child("path"), host_path.path.as_str(), "must not contain '..'");
        }
        let types = [
            "BlockDevice",
            "CharDevice",
            "Directory",
            "DirectoryOrCreate",
            "File",
            "FileOrCreate",
            "Socket",
        ];
        let path = path.child("type");
        check::one_of_if_set(text(host_path.type_.as_ref()), &types, &path, errors);
    }
    if volume.persistent_volume_claim.as_ref().is_some_and(|it| it.claim_name.is_empty()) {
        errors.required(&path.child("persistentVolumeClaim").child("claimName"), "");
    }
    if let Some(downward) = &volume.downward_api {
        validate_mode(
            downward.default_mode,
            &path.child("downwardAPI").child("defaultMode"),
            errors,
        );
    }
    if let Some(projected) = &volume.projected {
        validate_projected(projected, &path.child("projected"), errors);
    }
}

fn validate_projected(projected: &ProjectedVolumeSource, path: &Path, errors: &mut FieldErrors) {
    validate_mode(projected.default_mode, &path.child("defaultMode"), errors);
    for (index, source) in projected.sources.iter().flatten().enumerate() {
        let path = path.child("sources").index(index);
        if source.secret.as_ref().is_some_and(|it| it.name.is_empty()) {
            errors.required(&path.child("secret").child("name"), "");
        }
        if source.config_map.as_ref().is_some_and(|it| it.name.is_empty()) {
            errors.required(&path.child("configMap").child("name"), "");
        }
        let Some(token) = &source.service_account_token else { continue };
        let path = path.child("serviceAccountToken");
        let path_seconds = path.child("expirationSeconds");
        let seconds = token.expiration_seconds.unwrap_or_default();
        if seconds < 600 {
            errors.invalid(
                &path_seconds,
                seconds,
                "may not specify a duration less than 10 minutes",
            );
        } else if seconds > 1 << 32 {
            errors.invalid(
                &path_seconds,
                seconds,
                "may not specify a duration larger than 2^32 seconds",
            );
        }
        if token.path.is_empty() {
            errors.required(&path.child("path"), "");
        } else {
            validate_relative(&token.path, &path.child("path"), errors);
        }
    }
}

fn validate_items(items: Option<&[KeyToPath]>, path: &Path, errors: &mut FieldErrors) {
    for (index, item) in items.into_iter().flatten().enumerate() {
        let path = path.index(index);
        if item.key.is_empty() {
            errors.required(&path.child("key"), "");
        }
        if item.path.is_empty() {
            errors.required(&path.child("path"), "");
        } else {
            validate_relative(&item.path, &path.child("path"), errors);
        }
        validate_mode(item.mode, &path.child("mode"), errors);
    }
}

fn validate_mode(mode: Option<i32>, path: &Path, errors: &mut FieldErrors) {
    if let Some(mode) = mode.filter(|it| !(0..=0o777).contains(it)) {
        errors.invalid(path, mode, "must be a number between 0 and 0777 (octal), both inclusive");
    }
}

/// A path below something: not absolute, never upward.
pub(super) fn validate_relative(target: &str, path: &Path, errors: &mut FieldErrors) {
    if target.starts_with('/') {
        errors.invalid(path, target, "must be a relative path");
    }
    if target.split('/').any(|it| it == "..") {
        errors.invalid(path, target, "must not contain '..'");
    }
}
