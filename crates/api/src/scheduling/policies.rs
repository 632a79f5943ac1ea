//! How a group of pods is scheduled: as they come, or all together.

use k8s_openapi::api::scheduling::v1alpha2::PodGroupSchedulingPolicy;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::is_dns_label;

use crate::check;

pub(super) fn validate(policy: &PodGroupSchedulingPolicy, path: &Path, errors: &mut FieldErrors) {
    match (&policy.basic, &policy.gang) {
        (None, None) => errors.invalid(path, "", "must specify one of: `basic`, `gang`"),
        (Some(_), Some(_)) => {
            let why = "must specify exactly one of: `basic`, `gang`";
            errors.invalid(path, "{basic, gang}", why);
        }
        (Some(_), None) | (None, Some(_)) => {}
    }
    let Some(gang) = &policy.gang else { return };
    let path = path.child("gang").child("minCount");
    match gang.min_count {
        0 => errors.required(&path, ""),
        count @ ..0 => errors.invalid(&path, count, "must be greater than or equal to 1"),
        _ => {}
    }
}

/// Of a template within its workload.
pub(super) fn validate_template_name(name: &str, path: &Path, errors: &mut FieldErrors) {
    if name.is_empty() {
        errors.required(path, "");
    } else {
        check::format(name, &is_dns_label(name), path, errors);
    }
}
