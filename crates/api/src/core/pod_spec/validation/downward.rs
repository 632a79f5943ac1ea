//! What containers learn about their pod and themselves, by variables and by files.

use k8s_openapi::api::core::v1::{
    DownwardAPIVolumeFile, ObjectFieldSelector, ResourceFieldSelector,
};

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::quantity;
use apimachinery::validation::is_qualified_name;

use super::volumes::validate_mode;
use crate::check::{self, text};
use crate::core::volume_sources::relative;
use crate::quantities;

/// What there is to be learned of a pod at all.
const FIELDS: [&str; 15] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.host",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.phase",
    "status.podIP",
    "status.podIPs",
];
const OF_VARIABLES: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
const OF_FILES: &[&str] = &[
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
];
const RESOURCES: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const BYTES: [&str; 13] =
    ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reader {
    Variable,
    File,
}

/// Upstream names the list that a file is in, not the file.
pub(super) fn validate_file(file: &DownwardAPIVolumeFile, path: &Path, errors: &mut FieldErrors) {
    let path_file = path.child("path");
    if file.path.is_empty() {
        errors.required(&path_file, "");
    }
    relative(&file.path, &path_file, errors);
    if file.path.starts_with("..") && !file.path.starts_with("../") {
        errors.invalid(&path_file, file.path.as_str(), "must not start with '..'");
    }
    match (&file.field_ref, &file.resource_field_ref) {
        (Some(field), resource) => {
            validate_field(field, Reader::File, &path.child("fieldRef"), errors);
            if resource.is_some() {
                let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
                errors.invalid(path, "resource", detail);
            }
        }
        (None, Some(resource)) => {
            let path = path.child("resourceFieldRef");
            validate_resource(resource, Reader::File, &path, errors);
        }
        (None, None) => errors.required(path, "one of fieldRef and resourceFieldRef is required"),
    }
    validate_mode(file.mode, &path.child("mode"), errors);
}

pub(super) fn validate_field(
    field: &ObjectFieldSelector,
    reader: Reader,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let version = text(field.api_version.as_ref());
    if version.is_empty() {
        return errors.required(&path.child("apiVersion"), "");
    }
    let path_field = path.child("fieldPath");
    let name = field.field_path.as_str();
    if name.is_empty() {
        return errors.required(&path_field, "");
    }
    let subscripted = subscripted(name);
    let problem = match subscripted {
        _ if version != "v1" => Some(format!("unsupported pod version: {version}")),
        Some(("metadata.annotations" | "metadata.labels", _)) => None,
        Some(_) => Some(format!("field label does not support subscript: {name}")),
        None if FIELDS.contains(&name) => None,
        None => Some(format!("field label not supported: {name}")),
    };
    if let Some(problem) = problem {
        let detail = format!("error converting fieldPath: {problem}");
        return errors.invalid(&path_field, name, &detail);
    }
    if let Some((map, key)) = subscripted {
        let key = if map == "metadata.annotations" { key.to_lowercase() } else { key.to_owned() };
        check::format(&key, &is_qualified_name(&key), path, errors);
        return;
    }
    let known = if reader == Reader::Variable { OF_VARIABLES } else { OF_FILES };
    let name = if name == "spec.host" { "spec.nodeName" } else { name };
    if !known.contains(&name) {
        errors.not_supported(&path_field, name, known);
    }
}

/// `metadata.labels['app']`: the map and the key.
fn subscripted(name: &str) -> Option<(&str, &str)> {
    let (map, key) = name.strip_suffix("']")?.split_once("['")?;
    (!map.is_empty()).then_some((map, key))
}

pub(super) fn validate_resource(
    field: &ResourceFieldSelector,
    reader: Reader,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let name = field.resource.as_str();
    let path_resource = path.child("resource");
    let of_pages = ["limits.hugepages-", "requests.hugepages-"];
    let has_pages = of_pages.iter().any(|it| name.starts_with(it));
    if reader == Reader::File && text(field.container_name.as_ref()).is_empty() {
        errors.required(&path.child("containerName"), "");
    } else if name.is_empty() {
        errors.required(&path_resource, "");
    } else if !RESOURCES.contains(&name) && !has_pages {
        errors.not_supported(&path_resource, name, RESOURCES);
    }
    if quantities::amount(field.divisor.as_ref()).is_zero() {
        return;
    }
    let (supported, resource): (&[&str], _) = match name {
        "limits.cpu" | "requests.cpu" => (&["1m", "1"], "cpu"),
        "limits.memory" | "requests.memory" => (&BYTES, "memory"),
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => {
            (&BYTES, "local ephemeral storage")
        }
        _ if has_pages => (&BYTES, "hugepages"),
        _ => return,
    };
    let divisor = field.divisor.as_ref().and_then(|it| quantity::canonical(&it.0));
    if divisor.is_none_or(|it| !supported.contains(&it.as_str())) {
        let last = supported.join(if resource == "cpu" { " and " } else { ", " });
        let detail =
            format!("only divisor's values {last} are supported with the {resource} resource");
        errors.invalid(&path.child("divisor"), name, &detail);
    }
}
