//! ResourceClaims: how many, and the most devices of each class that they may get.

use std::collections::BTreeMap;

use apimachinery::{GroupResource, ObjectKey};
use k8s_openapi::api::resource::v1::{DeviceRequest, ResourceClaim};

use super::{count_name, one};
use crate::amounts::{Amounts, Written, add, raise};
use crate::core::resource_names::{REQUESTS, is_native};

pub(super) const GROUP: &str = "resource.k8s.io";
/// After the name of a class.
const DEVICES: &str = ".deviceclass.resource.k8s.io/devices";
/// Before the name of a class: the extended resource that every class is.
pub(super) const IMPLICIT: &str = "deviceclass.resource.kubernetes.io/";
/// On claims that were made for a pod's extended resources.
const EXTENDED: &str = "resource.kubernetes.io/extended-resource-claim";
/// The most devices that one claim can get.
const DEVICES_MAX: i64 = 32;

/// DeviceClasses that are extended resources as well: by the name of the class.
pub type Classes = BTreeMap<String, String>;

pub(super) fn counts(name: &str, classes: &Classes) -> bool {
    if name.ends_with(DEVICES) {
        return true;
    }
    let Some(extended) = name.strip_prefix(REQUESTS) else { return false };
    match extended.strip_prefix(IMPLICIT) {
        Some(class) => classes.contains_key(class),
        None => !is_native(name) && classes.values().any(|it| it == extended),
    }
}

fn n_devices(mode: Option<&str>, count: Option<i64>) -> Written {
    let n = match mode {
        None | Some("ExactCount") => count.unwrap_or(1),
        Some("All") => DEVICES_MAX,
        Some(_) => 0,
    };
    Written::count(usize::try_from(n).unwrap_or(0))
}

/// By class. Of alternatives, the most of each class.
fn of_request(request: &DeviceRequest) -> Amounts {
    let name = |class: &str| format!("{class}{DEVICES}");
    let mut most = Amounts::new();
    for it in request.first_available.iter().flatten() {
        let n = n_devices(it.allocation_mode.as_deref(), it.count);
        raise(&mut most, &Amounts::from([(name(&it.device_class_name), n)]));
    }
    if let Some(it) = request.exactly.as_ref().filter(|_| most.is_empty()) {
        let n = n_devices(it.allocation_mode.as_deref(), it.count);
        most.insert(name(&it.device_class_name), n);
    }
    most
}

pub(super) fn usage(claim: &ResourceClaim, classes: &Classes, of_pod: Option<&Amounts>) -> Amounts {
    let mut devices = Amounts::new();
    for request in claim.spec.devices.iter().flat_map(|it| it.requests.iter().flatten()) {
        add(&mut devices, &of_request(request));
    }
    let mut extended = Amounts::new();
    for (name, n) in &devices {
        let class = name.strip_suffix(DEVICES).unwrap_or_default();
        extended.insert(format!("{REQUESTS}{IMPLICIT}{class}"), *n);
        if let Some(name) = classes.get(class) {
            extended.insert(format!("{REQUESTS}{name}"), *n);
        }
    }
    for (name, n) in &mut extended {
        let counted = of_pod.and_then(|it| it.get(name)).copied().unwrap_or_default();
        *n = n.minus(counted);
    }
    extended.retain(|_, n| !n.amount.is_zero());
    devices.extend(extended);
    devices.insert(count_name(&GroupResource::new(GROUP, "resourceclaims")), one());
    devices
}

/// Whether the claim stands for extended resources that its pod asks for.
pub fn is_for_extended_resource(claim: &ResourceClaim) -> bool {
    let annotations = claim.metadata.annotations.as_ref();
    annotations.and_then(|it| it.get(EXTENDED)).is_some_and(|it| it == "true")
}

/// The pod that such a claim is for, and its uid.
pub fn owner_pod(claim: &ResourceClaim) -> Option<(ObjectKey, &str)> {
    let owners = claim.metadata.owner_references.iter().flatten();
    let mut controllers = owners.filter(|it| it.controller == Some(true));
    let owner = controllers.next().filter(|it| it.kind == "Pod" && it.api_version == "v1")?;
    let namespace = claim.metadata.namespace.clone().unwrap_or_default();
    Some((ObjectKey::new(namespace, owner.name.clone()), owner.uid.as_str()))
}
