//! What is wrong with the status of a ResourceClaim.

use std::collections::BTreeSet;
use std::net::IpAddr;

use k8s_openapi::api::resource::v1::{
    AllocatedDeviceStatus, AllocationResult, DeviceAllocationConfiguration,
    DeviceRequestAllocationResult, NetworkDeviceData, ResourceClaimConsumerReference,
    ResourceClaimStatus,
};

use apimachinery::FieldErrors;
use apimachinery::field::{Cause, Path};

use super::ResourceClaim;
use super::allocated::{DeviceId, devices_of};
use crate::core::pod_spec::validation::{Values, validate_node_selector};
use crate::resource::binding_conditions;
use crate::resource::claims::{REQUESTS_MAX, RequestNames};
use crate::resource::configuration::{self, CONFIGS_MAX, Seen};
use crate::resource::{bounded, names};
use crate::{check, codec, conditions, semantic};

const CONSUMERS_MAX: usize = 256;
const CONDITIONS_MAX: usize = 8;
const ADDRESSES_MAX: usize = 16;
const INTERFACE_NAME_BYTES_MAX: usize = 256;
const HARDWARE_ADDRESS_BYTES_MAX: usize = 128;
const SOURCES: &[&str] = &["FromClaim", "FromClass"];

pub(super) fn validate(claim: &ResourceClaim, stored: &ResourceClaim, errors: &mut FieldErrors) {
    let path = Path::new("status");
    let Some(status) = &claim.status else { return };
    let before = stored.status.clone().unwrap_or_default();
    let consumers = status.reserved_for.as_deref().unwrap_or_default();
    let consumers_path = path.child("reservedFor");
    let uid = |it: &ResourceClaimConsumerReference| it.uid.clone();
    let validate_one = validate_consumer;
    bounded::set(consumers, CONSUMERS_MAX, (&consumers_path, errors), uid, validate_one);

    let allocated = devices_of(claim);
    let devices = status.devices.as_deref().unwrap_or_default();
    let devices_path = path.child("devices");
    let id = |it: &AllocatedDeviceStatus| DeviceId::from(it).to_string();
    bounded::set(devices, usize::MAX, (&devices_path, errors), id, |it, path, errors| {
        validate_device(it, &allocated, path, errors);
    });
    validate_reservation(claim, status, &before, &consumers_path, errors);
    validate_allocation(claim, status, &before, &path.child("allocation"), errors);
}

fn validate_consumer(
    consumer: &ResourceClaimConsumerReference,
    path: &Path,
    errors: &mut FieldErrors,
) {
    for (field, value) in
        [("resource", &consumer.resource), ("name", &consumer.name), ("uid", &consumer.uid)]
    {
        if value.is_empty() {
            errors.required(&path.child(field), "");
        }
    }
}

/// Nobody uses what is not there, and nobody new what is going.
fn validate_reservation(
    claim: &ResourceClaim,
    status: &ResourceClaimStatus,
    before: &ResourceClaimStatus,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let consumers = status.reserved_for.as_deref().unwrap_or_default();
    if consumers.is_empty() {
        return;
    }
    let were = before.reserved_for.as_deref().unwrap_or_default();
    if status.allocation.is_none() {
        errors.forbidden(path, "may not be specified when `allocated` is not set");
    } else if claim.metadata.deletion_timestamp.is_some()
        && consumers.iter().any(|it| !were.contains(it))
    {
        let why = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
        errors.forbidden(path, why);
    }
}

/// An allocation comes and goes as a whole. One that stays is not looked at again.
fn validate_allocation(
    claim: &ResourceClaim,
    status: &ResourceClaimStatus,
    before: &ResourceClaimStatus,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let Some(allocation) = &status.allocation else { return };
    if before.allocation.is_some() {
        let is_same = semantic::equal(&status.allocation, &before.allocation);
        return check::immutable(is_same, codec::tree(allocation), path, errors);
    }
    let known = RequestNames::of(&claim.spec);
    validate_results(allocation, &known, &path.child("devices"), errors);
    if let Some(selector) = &allocation.node_selector {
        validate_node_selector(selector, Values::OfLabels, &path.child("nodeSelector"), errors);
    }
}

fn validate_results(
    allocation: &AllocationResult,
    known: &RequestNames<'_>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let Some(devices) = &allocation.devices else { return };
    let results = devices.results.as_deref().unwrap_or_default();
    bounded::list(results, REQUESTS_MAX, &path.child("results"), errors, |it, path, errors| {
        validate_result(it, known, path, errors);
    });
    // From the class and from the claim.
    let (configs, max) = (devices.config.as_deref().unwrap_or_default(), 2 * CONFIGS_MAX);
    bounded::list(configs, max, &path.child("config"), errors, |it, path, errors| {
        let DeviceAllocationConfiguration { opaque, requests, source } = it;
        check::one_of(source, SOURCES, &path.child("source"), errors);
        known.validate_all(requests.as_ref(), &path.child("requests"), errors);
        configuration::validate_opaque(opaque.as_ref(), Seen::New, path, errors);
    });
}

fn validate_result(
    result: &DeviceRequestAllocationResult,
    known: &RequestNames<'_>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    known.validate(&result.request, &path.child("request"), errors);
    names::validate_driver(&result.driver, &path.child("driver"), errors);
    names::validate_pool(&result.pool, &path.child("pool"), errors);
    names::validate_label(&result.device, &path.child("device"), errors);
    binding_conditions::validate(
        result.binding_conditions.as_deref(),
        result.binding_failure_conditions.as_deref(),
        path,
        errors,
    );
    if let Some(id) = &result.share_id {
        names::validate_share_id(id, &path.child("shareID"), errors);
    }
}

fn validate_device(
    device: &AllocatedDeviceStatus,
    allocated: &BTreeSet<DeviceId<'_>>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    names::validate_driver(&device.driver, &path.child("driver"), errors);
    names::validate_pool(&device.pool, &path.child("pool"), errors);
    names::validate_label(&device.device, &path.child("device"), errors);
    if let Some(id) = &device.share_id {
        names::validate_share_id(id, &path.child("shareID"), errors);
    }
    let id = DeviceId::from(device);
    if !allocated.contains(&id) {
        let share = device.share_id.as_deref().unwrap_or_default();
        let shown = format!(
            "{{\"Driver\":{:?},\"Pool\":{:?},\"Device\":{:?},\"ShareID\":{share:?}}}",
            device.driver, device.pool, device.device
        );
        let message = format!("Invalid value: {shown}: must be an allocated device in the claim");
        errors.push(path, Cause::Invalid, message);
    }
    let all = device.conditions.as_deref().unwrap_or_default();
    let conditions_path = path.child("conditions");
    if all.len() > CONDITIONS_MAX {
        errors.too_many(&conditions_path, all.len(), CONDITIONS_MAX);
    }
    conditions::validate(all, &conditions_path, errors);
    if let Some(data) = &device.data {
        configuration::validate_raw(data, Seen::New, &path.child("data"), errors);
    }
    if let Some(network) = &device.network_data {
        validate_network(network, &path.child("networkData"), errors);
    }
}

fn validate_network(network: &NetworkDeviceData, path: &Path, errors: &mut FieldErrors) {
    for (field, value, max) in [
        ("interfaceName", &network.interface_name, INTERFACE_NAME_BYTES_MAX),
        ("hardwareAddress", &network.hardware_address, HARDWARE_ADDRESS_BYTES_MAX),
    ] {
        if check::text(value.as_ref()).len() > max {
            errors.too_long(&path.child(field), max);
        }
    }
    let addresses = network.ips.as_deref().unwrap_or_default();
    let path = path.child("ips");
    let validate = |it: &String, path: &Path, errors: &mut FieldErrors| {
        validate_address(it, path, errors);
    };
    bounded::set(addresses, ADDRESSES_MAX, (&path, errors), String::clone, validate);
}

/// `10.9.8.7/24`: an address with the length of its network's prefix.
fn validate_address(text: &str, path: &Path, errors: &mut FieldErrors) {
    let parts = text.split_once('/').filter(|it| it.1.bytes().all(|it| it.is_ascii_digit()));
    let parsed = parts.and_then(|(address, bits)| {
        let (address, bits) = (address.parse::<IpAddr>().ok()?, bits.parse::<u8>().ok()?);
        let max = if address.is_ipv4() { 32 } else { 128 };
        (bits <= max).then_some((address, bits))
    });
    let Some((address, bits)) = parsed else {
        let why = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)";
        return errors.invalid(path, text, why);
    };
    let canonical = match address.to_canonical() {
        short @ IpAddr::V4(_) if address.is_ipv6() && bits >= 96 => {
            format!("{short}/{}", bits - 96)
        }
        _ => format!("{address}/{bits}"),
    };
    if canonical != text {
        errors.invalid(path, text, &format!("must be in canonical form ({canonical:?})"));
    }
}
