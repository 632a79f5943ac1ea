//! Fields of features that are off in this version of Kubernetes: what is new is dropped, what was
//! there already stays.

use k8s_openapi::api::resource::v1::{Device, DeviceAttribute};

use super::ResourceSlice;

pub(super) fn drop_disabled(slice: &mut ResourceSlice, stored: Option<&ResourceSlice>) {
    let had = |is_used: fn(&Device) -> bool| {
        stored.is_some_and(|it| it.spec.devices.iter().flatten().any(is_used))
    };
    let (keeps_mappings, keeps_lists) = (had(has_mappings), had(has_lists));
    for device in slice.spec.devices.iter_mut().flatten() {
        // The gate DRANodeAllocatableResources.
        if !keeps_mappings {
            device.node_allocatable_resource_mappings = None;
        }
        // The gate DRAListTypeAttributes.
        for (_, attribute) in device.attributes.iter_mut().flatten().filter(|_| !keeps_lists) {
            attribute.bools = None;
            attribute.ints = None;
            attribute.strings = None;
            attribute.versions = None;
        }
    }
}

fn has_mappings(device: &Device) -> bool {
    device.node_allocatable_resource_mappings.as_ref().is_some_and(|it| !it.is_empty())
}

pub(super) fn has_lists(device: &Device) -> bool {
    let is_list = |it: &DeviceAttribute| {
        it.bools.is_some() || it.ints.is_some() || it.strings.is_some() || it.versions.is_some()
    };
    device.attributes.iter().flatten().any(|(_, it)| is_list(it))
}
