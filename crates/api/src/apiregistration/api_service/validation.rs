//! What is wrong with an APIService.

use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIServiceSpec;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::{
    is_dns_subdomain, is_dns1035_label, is_path_segment, is_port_number,
};

use super::{APIService, name_of};
use crate::check::{self, text};

const GROUP_PRIORITY_MAX: i32 = 20_000;
const VERSION_PRIORITY_MAX: i32 = 1_000;
const STATUSES: &[&str] = &["True", "False", "Unknown"];

pub(super) fn validate(service: &APIService, errors: &mut FieldErrors) {
    let Some(spec) = &service.spec else { return };
    let (group, version) = (text(spec.group.as_ref()), text(spec.version.as_ref()));
    let (name, path) = (text(service.metadata.name.as_ref()), Path::new("spec"));
    let wanted = name_of(group, version);
    // A name that is none at all has been refused before.
    if !name.is_empty() && is_path_segment(name).is_empty() && name != wanted {
        let why = format!("must be `spec.version+\".\"+spec.group`: {wanted:?}");
        errors.invalid(&Path::new("metadata").child("name"), name, &why);
    }
    if group.is_empty() && version != "v1" {
        let why = "only v1 may have an empty group and it better be legacy kube";
        errors.required(&path.child("group"), why);
    }
    if !group.is_empty() {
        check::format(group, &is_dns_subdomain(group), &path.child("group"), errors);
    }
    check::format(version, &is_dns1035_label(version), &path.child("version"), errors);
    for (field, priority, max) in [
        ("groupPriorityMinimum", spec.group_priority_minimum, GROUP_PRIORITY_MAX),
        ("versionPriority", spec.version_priority, VERSION_PRIORITY_MAX),
    ] {
        if !(1..=max).contains(&priority) {
            let why = format!("must be positive and less than {max}");
            errors.invalid(&path.child(field), priority, &why);
        }
    }
    validate_trust(spec, &path, errors);
}

/// Where the other server is, and by what it is known.
fn validate_trust(spec: &APIServiceSpec, path: &Path, errors: &mut FieldErrors) {
    let is_insecure = spec.insecure_skip_tls_verify == Some(true);
    let insecure_path = path.child("insecureSkipTLSVerify");
    let n_bytes = spec.ca_bundle.as_ref().map_or(0, |it| it.0.len());
    let Some(service) = &spec.service else {
        if n_bytes > 0 {
            let why = "local APIServices may not have a caBundle";
            errors.invalid(&path.child("caBundle"), format!("{n_bytes} bytes"), why);
        }
        if is_insecure {
            let why = "local APIServices may not have insecureSkipTLSVerify";
            errors.invalid(&insecure_path, true, why);
        }
        return;
    };
    let path = path.child("service");
    for (field, value) in [("namespace", &service.namespace), ("name", &service.name)] {
        if text(value.as_ref()).is_empty() {
            errors.required(&path.child(field), "");
        }
    }
    let port = service.port.unwrap_or(0);
    let problems = is_port_number(i64::from(port));
    if !problems.is_empty() {
        let why = format!("port is not valid: {}", problems.join(", "));
        errors.invalid(&path.child("port"), port, &why);
    }
    if is_insecure && n_bytes > 0 {
        errors.invalid(&insecure_path, true, "may not be true if caBundle is present");
    }
}

pub(super) fn validate_status(service: &APIService, errors: &mut FieldErrors) {
    let conditions = service.status.as_ref().and_then(|it| it.conditions.as_ref());
    for (index, condition) in conditions.into_iter().flatten().enumerate() {
        if !STATUSES.contains(&condition.status.as_str()) {
            let path = Path::new("status").child("conditions").index(index).child("status");
            errors.not_supported_as_listed(&path, condition.status.as_str(), STATUSES);
        }
    }
}
