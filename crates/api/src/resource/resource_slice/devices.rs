//! What is wrong with a device.

use k8s_openapi::api::resource::v1::{Device, DeviceCounterConsumption};

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::quantity::Amount;
use apimachinery::validation::is_dns_subdomain;

use super::validation::validate_counters;
use super::{amount, attributes, capacity};
use crate::core::pod_spec::validation::{Values, validate_node_selector};
use crate::resource::names::QUALIFIED_BYTES_MAX;
use crate::resource::{binding_conditions, bounded, names, taints};
use crate::{check, semantic};

const ATTRIBUTES_AND_CAPACITIES_MAX: usize = 32;
const ATTRIBUTE_VALUES_MAX: usize = 48;
const TAINTS_MAX: usize = 16;
const CONSUMPTIONS_MAX: usize = 2;

/// What a device is and has. Taints that stay are not looked at again.
pub(super) fn validate(
    device: &Device,
    stored: Option<&Device>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    names::validate_label(&device.name, &path.child("name"), errors);
    let n_named = device.attributes.as_ref().map_or(0, |it| it.len())
        + device.capacity.as_ref().map_or(0, |it| it.len());
    let n_values: usize =
        device.attributes.iter().flatten().map(|(_, it)| attributes::n_values(it)).sum();
    for (number, max, what) in [
        (n_named, ATTRIBUTES_AND_CAPACITIES_MAX, "attributes and capacities"),
        (n_values, ATTRIBUTE_VALUES_MAX, "attribute values"),
    ] {
        if number > max {
            let why = format!("the total number of {what} must not exceed {max}");
            errors.invalid(path, number, &why);
        }
    }
    let (bounds, validate_key) = ((usize::MAX, QUALIFIED_BYTES_MAX), names::validate_qualified);
    if let Some(all) = &device.attributes {
        let path = path.child("attributes");
        bounded::map(all, bounds, (&path, errors), validate_key, attributes::validate);
    }
    if let Some(all) = &device.capacity {
        let path = path.child("capacity");
        let validate = match device.allow_multiple_allocations {
            Some(true) => capacity::validate_shared,
            Some(false) | None => capacity::validate_whole,
        };
        bounded::map(all, bounds, (&path, errors), validate_key, validate);
    }
    if stored.is_none_or(|it| !semantic::equal(&it.taints, &device.taints)) {
        let (all, path) = (device.taints.as_deref().unwrap_or_default(), path.child("taints"));
        bounded::list(all, TAINTS_MAX, &path, errors, |it, path, errors| {
            taints::validate(it, None, path, errors);
        });
    }
    let all = device.consumes_counters.as_deref().unwrap_or_default();
    let path = path.child("consumesCounters");
    let set = |it: &DeviceCounterConsumption| it.counter_set.clone();
    bounded::set(all, CONSUMPTIONS_MAX, (&path, errors), set, |it, path, errors| {
        validate_counters(("counterSet", &it.counter_set), &it.counters, path, errors);
    });
}

/// Where it is, if that is not the same for all devices of the slice.
pub(super) fn validate_nodes(
    device: &Device,
    selects_per_device: bool,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let Device { node_name, node_selector, all_nodes, .. } = device;
    if !selects_per_device {
        if node_name.is_some() || node_selector.is_some() || all_nodes.is_some() {
            let why = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
            errors.invalid(path, serde_json::Value::Null, why);
        }
        return;
    }
    let mut said = Vec::new();
    match node_name.as_deref() {
        Some("") => errors.invalid(&path.child("nodeName"), "", "must not be empty"),
        Some(name) => {
            said.push("`nodeName`");
            check::format(name, &is_dns_subdomain(name), &path.child("nodeName"), errors);
        }
        None => {}
    }
    if let Some(selector) = node_selector {
        said.push("`nodeSelector`");
        validate_node_selector(selector, Values::OfLabels, &path.child("nodeSelector"), errors);
    }
    match all_nodes {
        Some(true) => said.push("`allNodes`"),
        Some(false) => {
            let why = "must be either unset or set to true";
            errors.invalid(&path.child("allNodes"), false, why);
        }
        None => {}
    }
    let one = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
    match said.len() {
        0 => errors.required(path, one),
        1 => {}
        _ => errors.invalid(path, format!("{{{}}}", said.join(", ")), one),
    }
}

/// What a pod waits for before it is bound to the device, and what it takes of the node.
pub(super) fn validate_binding(device: &Device, path: &Path, errors: &mut FieldErrors) {
    binding_conditions::validate(
        device.binding_conditions.as_deref(),
        device.binding_failure_conditions.as_deref(),
        path,
        errors,
    );
    let path = path.child("nodeAllocatableResourceMappings");
    for (name, mapping) in device.node_allocatable_resource_mappings.iter().flatten() {
        let path = path.key(name);
        if name.contains('/') && !name.contains("kubernetes.io/") {
            errors.invalid(&path, name.as_str(), "must be a node allocatable resource name");
        }
        if mapping.allocation_multiplier.is_none() && mapping.capacity_key.is_none() {
            let why = "at least one of allocationMultiplier or capacityKey must be set";
            errors.invalid(&path, "", why);
        }
        if let Some(by) = mapping.allocation_multiplier.as_ref()
            && amount(by) <= Amount::ZERO
        {
            let path = path.child("allocationMultiplier");
            errors.invalid(&path, by.0.as_str(), "must be positive");
        }
        let key_path = path.child("capacityKey");
        match mapping.capacity_key.as_deref() {
            Some("") => errors.invalid(&key_path, "", "capacityKey must not be an empty string"),
            Some(key) if !device.capacity.as_ref().is_some_and(|it| it.contains_key(key)) => {
                errors.not_found(&key_path, key);
            }
            Some(_) | None => {}
        }
    }
}
