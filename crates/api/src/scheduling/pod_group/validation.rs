//! What is wrong with a PodGroup. Upstream's rules for it are declarative, and show no values of
//! what may not change.

use std::collections::BTreeSet;

use k8s_openapi::api::scheduling::v1alpha2::PodGroupTemplateReference;
use serde_json::Value;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::is_dns_subdomain;

use super::PodGroup;
use crate::scheduling::gates::Gated;
use crate::scheduling::policies::{self, validate_template_name};
use crate::{check, codec, conditions, semantic};

const CLAIMS_MAX: usize = 4;

pub(super) fn validate(group: &PodGroup, errors: &mut FieldErrors) {
    let (spec, path) = (&group.spec, Path::new("spec"));
    if let Some(reference) = &spec.pod_group_template_ref {
        validate_reference(reference, &path.child("podGroupTemplateRef"), errors);
    }
    policies::validate(&spec.scheduling_policy, &path.child("schedulingPolicy"), errors);
}

fn validate_reference(
    reference: &PodGroupTemplateReference,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let Some(workload) = &reference.workload else {
        return errors.invalid(path, "", "must specify one of: `workload`");
    };
    let path = path.child("workload");
    let (name, name_path) = (workload.workload_name.as_str(), path.child("workloadName"));
    if name.is_empty() {
        errors.required(&name_path, "");
    } else {
        check::format(name, &is_dns_subdomain(name), &name_path, errors);
    }
    let template_path = path.child("podGroupTemplateName");
    validate_template_name(&workload.pod_group_template_name, &template_path, errors);
}

pub(super) fn validate_update(group: &PodGroup, stored: &PodGroup, errors: &mut FieldErrors) {
    let (spec, before, path) = (&group.spec, &stored.spec, Path::new("spec"));
    for (field, is_same) in [
        (
            "podGroupTemplateRef",
            semantic::equal(&spec.pod_group_template_ref, &before.pod_group_template_ref),
        ),
        ("schedulingPolicy", semantic::equal(&spec.scheduling_policy, &before.scheduling_policy)),
    ] {
        check::immutable(is_same, Value::Null, &path.child(field), errors);
    }
    Gated::from(spec).validate_update(&Gated::from(before), &path, errors);
}

pub(super) fn validate_status(group: &PodGroup, errors: &mut FieldErrors) {
    let Some(status) = &group.status else { return };
    let path = Path::new("status");
    let all = status.conditions.as_deref().unwrap_or_default();
    conditions::validate(all, &path.child("conditions"), errors);
    let claims = group.spec.resource_claims.as_deref().unwrap_or_default();
    let statuses = status.resource_claim_statuses.as_deref().unwrap_or_default();
    let path = path.child("resourceClaimStatuses");
    let mut names = BTreeSet::new();
    for (index, it) in statuses.iter().enumerate() {
        let path = path.index(index);
        if claims.iter().all(|claim| claim.name != it.name) {
            let why = "must match the name of an entry in `spec.resourceClaims`";
            errors.invalid(&path.child("name"), it.name.as_str(), why);
        }
        if !names.insert(&it.name) {
            errors.duplicate(&path, codec::tree(it));
        }
        if let Some(name) = &it.resource_claim_name {
            let path = path.child("resourceClaimName");
            check::format(name, &is_dns_subdomain(name), &path, errors);
        }
    }
    if statuses.len() > CLAIMS_MAX {
        errors.too_many(&path, statuses.len(), CLAIMS_MAX);
    }
}
