//! Requests and limits of a pod as a whole, beside those of its containers.

use k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};

use apimachinery::FieldErrors;
use apimachinery::field::Path;

use super::{claims, resources};
use crate::amounts::{self, Amounts};
use crate::core::pod_spec::totals;
use crate::core::resource_names;

pub(super) fn validate(spec: &PodSpec, path: &Path, errors: &mut FieldErrors) {
    let Some(of_pod) = &spec.resources else { return };
    if spec.os.as_ref().is_some_and(|it| it.name == "windows") {
        return errors.forbidden(path, "may not be set for a windows pod");
    }
    if of_pod.claims.is_some() {
        let detail = "claims may not be set for Resources at pod-level";
        errors.forbidden(&path.child("claims"), detail);
    }
    resources::validate_of_pod(of_pod, path, errors);
    let used = of_pod.claims.as_deref().unwrap_or_default();
    claims::validate_used(used, &claims::names(spec), &path.child("claims"), errors);
    let requests = amounts::parse(of_pod.requests.as_ref());
    let limits = amounts::parse(of_pod.limits.as_ref());
    let together = totals::requests(spec);
    validate_sum(&requests, &together, "requests", path, errors);
    // Nobody is promised more huge pages than there are, so limits of them add up as well.
    let mut together = totals::limits(spec);
    together.retain(|name, _| resource_names::is_huge_pages(name));
    validate_sum(&limits, &together, "limits", path, errors);
    for (index, container) in spec.containers.iter().enumerate() {
        validate_limits(container, &limits, &path.child("containers").index(index), errors);
    }
}

/// What the pod has is enough for all its containers; `what` are requests or limits.
fn validate_sum(
    of_pod: &Amounts,
    together: &Amounts,
    what: &str,
    path: &Path,
    errors: &mut FieldErrors,
) {
    for (name, sum) in together {
        if let Some(own) = of_pod.get(name).filter(|it| sum.amount > it.amount) {
            let detail = format!(
                "must be greater than or equal to aggregate container {what} of {}",
                sum.shown()
            );
            errors.invalid(&path.child(what).key(name), own.shown(), &detail);
        }
    }
}

/// The path, upstream's, is below the resources of the pod.
fn validate_limits(container: &Container, of_pod: &Amounts, path: &Path, errors: &mut FieldErrors) {
    let none = ResourceRequirements::default();
    let resources = container.resources.as_ref().unwrap_or(&none);
    for (name, limit) in amounts::parse(resources.limits.as_ref()) {
        if let Some(most) = of_pod.get(&name).filter(|it| limit.amount > it.amount) {
            let detail = format!("must be less than or equal to pod limits of {}", most.shown());
            errors.invalid(&path.key(&name).child("limits"), limit.shown(), &detail);
        }
    }
}
