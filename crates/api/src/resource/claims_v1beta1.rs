//! What a claim asks for in v1beta1, where a request that is not a list of alternatives has its
//! fields beside its name.

use k8s_openapi::api::resource::{v1, v1beta1};

use super::claims::default_count;
use crate::check::text;
use crate::version::same_fields;

pub(super) fn apply_defaults(spec: &mut v1beta1::ResourceClaimSpec) {
    let claim = spec.devices.get_or_insert_default();
    for request in claim.requests.iter_mut().flatten() {
        // Without a class it is a list of alternatives, or wrong.
        if !text(request.device_class_name.as_ref()).is_empty() {
            default_count(&mut request.allocation_mode, &mut request.count);
        }
        default_operators(&mut request.tolerations);
        for alternative in request.first_available.iter_mut().flatten() {
            default_count(&mut alternative.allocation_mode, &mut alternative.count);
            default_operators(&mut alternative.tolerations);
        }
    }
}

fn default_operators(tolerations: &mut Option<Vec<v1beta1::DeviceToleration>>) {
    for toleration in tolerations.iter_mut().flatten() {
        toleration.operator.get_or_insert_with(|| "Equal".to_owned());
    }
}

pub(super) fn into_hub(spec: v1beta1::ResourceClaimSpec) -> v1::ResourceClaimSpec {
    let devices = spec.devices.map(|it| v1::DeviceClaim {
        requests: it.requests.map(|all| all.into_iter().map(request_into_hub).collect()),
        constraints: same_fields(&it.constraints),
        config: same_fields(&it.config),
    });
    v1::ResourceClaimSpec { devices }
}

pub(super) fn from_hub(spec: &v1::ResourceClaimSpec) -> v1beta1::ResourceClaimSpec {
    let devices = spec.devices.as_ref().map(|it| v1beta1::DeviceClaim {
        requests: it.requests.as_ref().map(|all| all.iter().map(request_from_hub).collect()),
        constraints: same_fields(&it.constraints),
        config: same_fields(&it.config),
    });
    v1beta1::ResourceClaimSpec { devices }
}

fn request_into_hub(request: v1beta1::DeviceRequest) -> v1::DeviceRequest {
    let class = request.device_class_name.unwrap_or_default();
    let is_exact = !class.is_empty()
        || request.selectors.is_some()
        || !text(request.allocation_mode.as_ref()).is_empty()
        || request.count.unwrap_or(0) != 0
        || request.admin_access.is_some()
        || request.tolerations.is_some()
        || request.capacity.is_some();
    let exactly = is_exact.then(|| v1::ExactDeviceRequest {
        device_class_name: class,
        selectors: same_fields(&request.selectors),
        allocation_mode: request.allocation_mode,
        count: request.count,
        admin_access: request.admin_access,
        tolerations: same_fields(&request.tolerations),
        capacity: same_fields(&request.capacity),
    });
    v1::DeviceRequest {
        name: request.name,
        exactly,
        first_available: same_fields(&request.first_available),
    }
}

fn request_from_hub(request: &v1::DeviceRequest) -> v1beta1::DeviceRequest {
    let alone = v1beta1::DeviceRequest {
        name: request.name.clone(),
        first_available: same_fields(&request.first_available),
        ..v1beta1::DeviceRequest::default()
    };
    let Some(exactly) = &request.exactly else { return alone };
    v1beta1::DeviceRequest {
        device_class_name: Some(exactly.device_class_name.clone()),
        selectors: same_fields(&exactly.selectors),
        allocation_mode: exactly.allocation_mode.clone(),
        count: exactly.count,
        admin_access: exactly.admin_access,
        tolerations: same_fields(&exactly.tolerations),
        capacity: same_fields(&exactly.capacity),
        ..alone
    }
}
