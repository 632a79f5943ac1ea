//! Annotations of Services that mean something, from before there were fields for it.

use k8s_openapi::api::core::v1::Service;

use apimachinery::FieldErrors;
use apimachinery::field::Path;

use super::validation::ONLY_BALANCER;
use crate::addresses;
use crate::check::text;

const RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
pub(super) const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";
/// What the mode was called before.
pub(super) const TOPOLOGY_HINTS: &str = "service.kubernetes.io/topology-aware-hints";

fn value<'a>(service: &'a Service, key: &str) -> Option<&'a str> {
    service.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

fn path(key: &str) -> Path {
    Path::new("metadata").child("annotations").key(key)
}

/// Two names for one thing say the same.
pub(super) fn validate_topology(service: &Service, errors: &mut FieldErrors) {
    let (mode, hints) = (value(service, TOPOLOGY_MODE), value(service, TOPOLOGY_HINTS));
    if let (Some(mode), Some(hints)) = (mode, hints)
        && mode != hints
    {
        let detail = format!("must match annotations[{TOPOLOGY_HINTS}] when both are specified");
        errors.invalid(&path(TOPOLOGY_MODE), mode, &detail);
    }
}

/// Who may reach a load balancer, where the field does not say. What is `stored` may stay.
pub(super) fn validate_ranges(
    service: &Service,
    stored: Option<&Service>,
    errors: &mut FieldErrors,
) {
    let Some(ranges) = value(service, RANGES) else { return };
    let path = path(RANGES);
    let type_ = service.spec.as_ref().and_then(|it| it.type_.as_ref());
    if text(type_) != "LoadBalancer" {
        errors.forbidden(&path, ONLY_BALANCER);
    }
    let is_new = stored.is_none_or(|it| value(it, RANGES) != Some(ranges));
    if is_new && !ranges.trim().is_empty() {
        for range in ranges.split(',') {
            addresses::validate_older_cidr(range.trim(), &[], &path, errors);
        }
    }
}
