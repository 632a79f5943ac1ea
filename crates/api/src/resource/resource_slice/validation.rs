//! What is wrong with a ResourceSlice, but for its devices.

use k8s_openapi::api::core::v1::NodeSelector;
use k8s_openapi::api::resource::v1::{CounterSet, Device, ResourcePool, ResourceSliceSpec};

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::is_dns_subdomain;

use super::{ResourceSlice, devices, gates};
use crate::core::pod_spec::validation::{Values, validate_node_selector};
use crate::resource::{bounded, names};
use crate::{check, codec};

const DEVICES_MAX: usize = 128;
/// If any of them is tainted, has lists of attributes or uses counters.
const DEVICES_MAX_ADVANCED: usize = 64;
const COUNTER_SETS_MAX: usize = 8;
const COUNTERS_MAX: usize = 32;
/// Of the name of a counter, as it is shown in a path.
const LABEL_BYTES_MAX: usize = 63;

pub(super) fn validate(
    slice: &ResourceSlice,
    stored: Option<&ResourceSlice>,
    errors: &mut FieldErrors,
) {
    let (spec, path) = (&slice.spec, Path::new("spec"));
    names::validate_driver(&spec.driver, &path.child("driver"), errors);
    validate_pool(&spec.pool, &path.child("pool"), errors);
    if let Some(stored) = stored {
        validate_same(spec, &stored.spec, &path, errors);
    }
    validate_nodes(spec, &path, errors);
    if spec.shared_counters.is_some() && spec.devices.is_some() {
        errors.invalid(&path, "", "only one of `sharedCounters` or `devices` is allowed");
    }
    validate_devices(spec, stored.map(|it| &it.spec), &path.child("devices"), errors);
    let sets = spec.shared_counters.as_deref().unwrap_or_default();
    let sets_path = path.child("sharedCounters");
    let name = |it: &CounterSet| it.name.clone();
    bounded::set(sets, COUNTER_SETS_MAX, (&sets_path, errors), name, |it, path, errors| {
        validate_counters(("name", &it.name), &it.counters, path, errors);
    });
}

fn validate_pool(pool: &ResourcePool, path: &Path, errors: &mut FieldErrors) {
    names::validate_pool(&pool.name, &path.child("name"), errors);
    if pool.resource_slice_count <= 0 {
        let path = path.child("resourceSliceCount");
        errors.invalid(&path, pool.resource_slice_count, "must be greater than zero");
    }
    if pool.generation < 0 {
        let why = "must be greater than or equal to zero";
        errors.invalid(&path.child("generation"), pool.generation, why);
    }
}

fn validate_same(
    spec: &ResourceSliceSpec,
    stored: &ResourceSliceSpec,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let (pool, driver) = (spec.pool.name.as_str(), spec.driver.as_str());
    let pool_path = path.child("pool").child("name");
    check::immutable(pool == stored.pool.name, pool, &pool_path, errors);
    check::immutable(driver == stored.driver, driver, &path.child("driver"), errors);
    let is_same = spec.node_name == stored.node_name;
    check::immutable(is_same, spec.node_name.clone(), &path.child("nodeName"), errors);
}

/// Where the devices are is said in one way.
fn validate_nodes(spec: &ResourceSliceSpec, path: &Path, errors: &mut FieldErrors) {
    let mut said = Vec::new();
    match spec.node_name.as_deref() {
        Some("") => errors.invalid(
            &path.child("nodeName"),
            "",
            "must be either unset or set to a non-empty string",
        ),
        Some(name) => {
            said.push("`nodeName`");
            check::format(name, &is_dns_subdomain(name), &path.child("nodeName"), errors);
        }
        None => {}
    }
    if let Some(selector) = &spec.node_selector {
        said.push("`nodeSelector`");
        validate_one_term(selector, &path.child("nodeSelector"), errors);
    }
    for (field, name, value) in [
        ("allNodes", "`allNodes`", spec.all_nodes),
        ("perDeviceNodeSelection", "`perDeviceNodeSelection`", spec.per_device_node_selection),
    ] {
        match value {
            Some(true) => said.push(name),
            Some(false) => {
                errors.invalid(&path.child(field), false, "must be either unset or set to true");
            }
            None => {}
        }
    }
    let one = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    match said.len() {
        0 => errors.required(path, one),
        1 => {}
        _ => {
            let why = format!("{one}, but multiple fields are set");
            errors.invalid(path, format!("{{{}}}", said.join(", ")), &why);
        }
    }
}

/// One term, so that selectors of several slices can be joined.
fn validate_one_term(selector: &NodeSelector, path: &Path, errors: &mut FieldErrors) {
    validate_node_selector(selector, Values::OfLabels, path, errors);
    let terms = &selector.node_selector_terms;
    if terms.len() != 1 {
        let why = "must have exactly one node selector term";
        errors.invalid(&path.child("nodeSelectorTerms"), codec::tree(terms), why);
    }
}

fn validate_devices(
    spec: &ResourceSliceSpec,
    stored: Option<&ResourceSliceSpec>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let all = spec.devices.as_deref().unwrap_or_default();
    let has = |list: Option<usize>| list.is_some_and(|it| it > 0);
    let is_advanced = |it: &Device| {
        has(it.taints.as_ref().map(Vec::len))
            || has(it.consumes_counters.as_ref().map(Vec::len))
            || gates::has_lists(it)
    };
    let max = if all.iter().any(is_advanced) { DEVICES_MAX_ADVANCED } else { DEVICES_MAX };
    let selects_per_device = spec.per_device_node_selection == Some(true);
    let name = |it: &Device| it.name.clone();
    bounded::set(all, max, (path, errors), name, |device, path, errors| {
        let before = stored.and_then(|it| it.devices.as_ref());
        let before = before.into_iter().flatten().find(|it| it.name == device.name);
        devices::validate(device, before, path, errors);
        devices::validate_nodes(device, selects_per_device, path, errors);
        devices::validate_binding(device, path, errors);
    });
}

/// Of a set of counters, or of what a device takes from one; `name` is the field that names it.
pub(super) fn validate_counters<T>(
    (field, name): (&str, &str),
    counters: &std::collections::BTreeMap<String, T>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let name_path = path.child(field);
    if name.is_empty() {
        errors.required(&name_path, "");
    } else {
        names::validate_label(name, &name_path, errors);
    }
    let path = path.child("counters");
    if counters.is_empty() {
        return errors.required(&path, "");
    }
    // Any quantity will do.
    let (bounds, validate_key) = ((COUNTERS_MAX, LABEL_BYTES_MAX), names::validate_label);
    bounded::map(counters, bounds, (&path, errors), validate_key, |_, _, _| {});
}
