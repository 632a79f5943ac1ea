//! What is wrong with an IngressClass.

use k8s_openapi::api::networking::v1::{IngressClass, IngressClassParametersReference};

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::{
    is_dns_label, is_dns_subdomain, is_path_segment, validate_domain_prefixed_path,
};

use crate::check::{self, text};

const CONTROLLER_LENGTH_MAX: usize = 250;
const SCOPES: &[&str] = &["Cluster", "Namespace"];

fn controller(class: &IngressClass) -> &str {
    text(class.spec.as_ref().and_then(|it| it.controller.as_ref()))
}

pub(super) fn validate(class: &IngressClass, errors: &mut FieldErrors) {
    let path = Path::new("spec");
    let path_controller = path.child("controller");
    let name = controller(class);
    if name.len() > CONTROLLER_LENGTH_MAX {
        errors.too_long(&path_controller, CONTROLLER_LENGTH_MAX);
    }
    validate_domain_prefixed_path(name, &path_controller, errors);
    if let Some(parameters) = class.spec.as_ref().and_then(|it| it.parameters.as_ref()) {
        validate_parameters(parameters, &path.child("parameters"), errors);
    }
}

pub(super) fn validate_update(
    class: &IngressClass,
    stored: &IngressClass,
    errors: &mut FieldErrors,
) {
    let name = controller(class);
    let path = Path::new("spec").child("controller");
    check::immutable(name == controller(stored), name, &path, errors);
}

fn validate_parameters(
    parameters: &IngressClassParametersReference,
    path: &Path,
    errors: &mut FieldErrors,
) {
    if let Some(group) = &parameters.api_group {
        check::format(group, &is_dns_subdomain(group), &path.child("apiGroup"), errors);
    }
    for (field, value) in [("kind", &parameters.kind), ("name", &parameters.name)] {
        let path = path.child(field);
        if value.is_empty() {
            errors.required(&path, "");
        } else {
            check::format(value, &is_path_segment(value), &path, errors);
        }
    }
    let path_namespace = path.child("namespace");
    match (parameters.scope.as_deref(), &parameters.namespace) {
        (None, _) => errors.required(&path.child("scope"), ""),
        (Some("Namespace"), None) => {
            errors.required(&path_namespace, "`parameters.scope` is set to 'Namespace'");
        }
        (Some("Namespace"), Some(namespace)) => {
            check::format(namespace, &is_dns_label(namespace), &path_namespace, errors);
        }
        (Some("Cluster"), Some(_)) => {
            errors.forbidden(&path_namespace, "`parameters.scope` is set to 'Cluster'");
        }
        (Some("Cluster"), None) => {}
        (Some(other), _) => errors.not_supported(&path.child("scope"), other, SCOPES),
    }
}
