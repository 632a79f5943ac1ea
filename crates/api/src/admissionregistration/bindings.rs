//! What both kinds of bindings say: which policy, with which parameters, for what.

use k8s_openapi::api::admissionregistration::v1::{MatchResources, ParamRef};

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::is_dns_subdomain;

use super::{match_resources, parameters};
use crate::check;

pub(super) fn validate(
    policy_name: &str,
    param_ref: Option<&ParamRef>,
    resources: Option<&MatchResources>,
    errors: &mut FieldErrors,
) {
    let path = Path::new("spec");
    let name_path = path.child("policyName");
    if policy_name.is_empty() {
        errors.required(&name_path, "");
    } else {
        check::format(policy_name, &is_dns_subdomain(policy_name), &name_path, errors);
    }
    if let Some(reference) = param_ref {
        parameters::validate_ref(reference, &path.child("paramRef"), errors);
    }
    if let Some(resources) = resources {
        match_resources::validate(resources, &path.child("matchResources"), errors);
    }
}
