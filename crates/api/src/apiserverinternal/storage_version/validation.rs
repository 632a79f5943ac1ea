//! What is wrong with a StorageVersion.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::apiserverinternal::v1alpha1::{
    ServerStorageVersion, StorageVersionCondition, StorageVersionStatus,
};
use serde_json::Value;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::{is_dns_subdomain, is_dns1035_label, is_qualified_name};

use super::StorageVersion;
use crate::check::{self, text};

/// `<group>.<resource>`; the core group is called `core`.
pub(super) fn validate_name(version: &StorageVersion, errors: &mut FieldErrors) {
    let (name, path) = (text(version.metadata.name.as_ref()), Path::new("metadata").child("name"));
    let Some((group, resource)) = name.rsplit_once('.') else {
        return errors.invalid(&path, name, "name must be in the form of <group>.<resource>");
    };
    for problem in is_dns_subdomain(group) {
        errors.invalid(&path, name, &format!("the group segment {problem}"));
    }
    for problem in is_dns1035_label(resource) {
        errors.invalid(&path, name, &format!("the resource segment {problem}"));
    }
}

pub(super) fn validate_status(version: &StorageVersion, errors: &mut FieldErrors) {
    let Some(status) = &version.status else { return };
    let path = Path::new("status");
    let mut ids = BTreeSet::new();
    for (index, server) in status.storage_versions.iter().flatten().enumerate() {
        let path = path.child("storageVersions").index(index);
        if !ids.insert(&server.api_server_id) {
            errors.duplicate(&path.child("apiServerID"), server.api_server_id.as_str());
        }
        validate_server(server, &path, errors);
    }
    validate_common(status, &path.child("commonEncodingVersion"), errors);
    let conditions = status.conditions.as_deref().unwrap_or_default();
    validate_conditions(conditions, &path, errors);
}

/// What is written and served can be read.
fn validate_server(server: &ServerStorageVersion, path: &Path, errors: &mut FieldErrors) {
    let id = server.api_server_id.as_str();
    check::format(id, &is_dns_subdomain(id), &path.child("apiServerID"), errors);
    let encoding = server.encoding_version.as_str();
    validate_api_version(encoding, &path.child("encodingVersion"), errors);
    let (readable, readable_path) = (&server.decodable_versions, path.child("decodableVersions"));
    for (index, it) in readable.iter().enumerate() {
        validate_api_version(it, &readable_path.index(index), errors);
    }
    if readable.iter().all(|it| it != encoding) {
        let why = format!("decodableVersions must include encodingVersion {encoding}");
        errors.invalid(&readable_path, readable.clone(), &why);
    }
    for (index, it) in server.served_versions.iter().flatten().enumerate() {
        let path = path.child("servedVersions").index(index);
        validate_api_version(it, &path, errors);
        if !readable.contains(it) {
            let all = readable.join(" ");
            let why = format!(
                "individual served version : {it} must be included in decodableVersions : [{all}]"
            );
            errors.invalid(&path, it.as_str(), &why);
        }
    }
}

/// The version that all servers write, if it is one.
fn validate_common(status: &StorageVersionStatus, path: &Path, errors: &mut FieldErrors) {
    let servers = status.storage_versions.as_deref().unwrap_or_default();
    let first = servers.first().map(|it| it.encoding_version.as_str());
    let actual = first.filter(|it| servers.iter().all(|other| other.encoding_version == *it));
    match (actual, status.common_encoding_version.as_deref()) {
        (None, Some(said)) => errors.invalid(
            path,
            said,
            "should be nil if servers do not agree on the same encoding version, or if there is no server reporting the supported versions yet",
        ),
        (Some(actual), None) => {
            let why = format!("the common encoding version is {actual}");
            errors.invalid(path, Value::Null, &why);
        }
        (Some(actual), Some(said)) if actual != said => {
            let why = format!("the actual common encoding version is {actual}");
            errors.invalid(path, said, &why);
        }
        (None, None) | (Some(_), Some(_)) => {}
    }
}

/// Upstream leaves the field's name out of their paths.
fn validate_conditions(
    conditions: &[StorageVersionCondition],
    path: &Path,
    errors: &mut FieldErrors,
) {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, condition) in conditions.iter().enumerate() {
        let path = path.index(index);
        let kind = condition.type_.as_str();
        if let Some(before) = seen.insert(kind, index) {
            let why = format!(
                "the type of the condition is not unique, it also appears in conditions[{before}]"
            );
            errors.invalid(&path.child("type"), kind, &why);
        }
        for (field, value) in [("type", kind), ("status", condition.status.as_str())] {
            check::format(value, &is_qualified_name(value), &path.child(field), errors);
        }
        for (field, value) in [("reason", &condition.reason), ("message", &condition.message)] {
            if value.is_empty() {
                errors.required(&path.child(field), "");
            }
        }
    }
}

/// `v1`, `apps/v1`.
fn validate_api_version(text: &str, path: &Path, errors: &mut FieldErrors) {
    let (group, version) = match text.split('/').collect::<Vec<_>>()[..] {
        [version] => (None, version),
        [group, version] => (Some(group), version),
        _ => {
            let why = "an apiVersion is a DNS-1035 label, which must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character \
                       (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyVersion')";
            return errors.invalid(path, text, why);
        }
    };
    let mut problems = Vec::new();
    let mut add = |part: &str, value: &str, found: Vec<String>| match value {
        "" => problems.push(format!("{part} part: must be non-empty")),
        _ => problems.extend(found.iter().map(|it| format!("{part} part: {it}"))),
    };
    if let Some(group) = group {
        add("group", group, is_dns_subdomain(group));
    }
    add("version", version, is_dns1035_label(version));
    if !problems.is_empty() {
        errors.invalid(path, text, &problems.join(","));
    }
}
