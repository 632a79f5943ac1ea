//! What is wrong with a Workload. Upstream's rules for it are declarative, and show no values of
//! what may not change.

use std::collections::BTreeSet;

use k8s_openapi::api::scheduling::v1alpha2::TypedLocalObjectReference;
use serde_json::Value;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::{is_dns_subdomain, is_path_segment};

use super::Workload;
use crate::check::{self, text};
use crate::scheduling::policies::{self, validate_template_name};
use crate::{codec, semantic};

const TEMPLATES_MAX: usize = 8;

pub(super) fn validate(workload: &Workload, errors: &mut FieldErrors) {
    let path = Path::new("spec");
    if let Some(controller) = &workload.spec.controller_ref {
        validate_controller(controller, &path.child("controllerRef"), errors);
    }
    let templates = &workload.spec.pod_group_templates;
    let path = path.child("podGroupTemplates");
    if templates.is_empty() {
        return errors.required(&path, "");
    }
    if templates.len() > TEMPLATES_MAX {
        return errors.too_many(&path, templates.len(), TEMPLATES_MAX);
    }
    let mut names = BTreeSet::new();
    for (index, template) in templates.iter().enumerate() {
        if !names.insert(&template.name) {
            errors.duplicate(&path.index(index), codec::tree(template));
        }
    }
    for (index, template) in templates.iter().enumerate() {
        let path = path.index(index);
        validate_template_name(&template.name, &path.child("name"), errors);
        policies::validate(&template.scheduling_policy, &path.child("schedulingPolicy"), errors);
    }
}

fn validate_controller(
    controller: &TypedLocalObjectReference,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let group = text(controller.api_group.as_ref());
    if !group.is_empty() {
        check::format(group, &is_dns_subdomain(group), &path.child("apiGroup"), errors);
    }
    for (field, value) in [("kind", &controller.kind), ("name", &controller.name)] {
        if value.is_empty() {
            errors.required(&path.child(field), "");
        } else {
            check::format(value, &is_path_segment(value), &path.child(field), errors);
        }
    }
}

pub(super) fn validate_update(workload: &Workload, stored: &Workload, errors: &mut FieldErrors) {
    let (spec, before, path) = (&workload.spec, &stored.spec, Path::new("spec"));
    for (field, is_same) in [
        ("controllerRef", semantic::equal(&spec.controller_ref, &before.controller_ref)),
        (
            "podGroupTemplates",
            semantic::equal(&spec.pod_group_templates, &before.pod_group_templates),
        ),
    ] {
        check::immutable(is_same, Value::Null, &path.child(field), errors);
    }
}
