//! resource.k8s.io/v1beta1, where what a device has is one level deeper, and empty is as good as
//! absent.

use apimachinery::FieldErrors;
use k8s_openapi::api::resource::{v1, v1beta1};

use super::ResourceSlice as Hub;
use crate::kind::Resource;
use crate::version::{Version, same_fields};

pub use k8s_openapi::api::resource::v1beta1::ResourceSlice;

impl Resource for ResourceSlice {
    codec!();

    fn apply_defaults(&mut self) {
        let mut hub: Hub = self.clone().into_hub();
        hub.apply_defaults();
        *self = Self::from_hub(&hub);
    }

    fn deprecation() -> Option<&'static str> {
        Some("resource.k8s.io/v1beta1 ResourceSlice is deprecated in v1.35+, unavailable in v1.38+")
    }

    fn validate(&self, errors: &mut FieldErrors) {
        let hub: Hub = self.clone().into_hub();
        hub.validate(errors);
    }

    fn field_names() -> &'static [(&'static str, &'static str)] {
        Hub::field_names()
    }
}

impl Version<Hub> for ResourceSlice {
    fn into_hub(self) -> Hub {
        let spec = self.spec;
        Hub {
            metadata: self.metadata,
            spec: v1::ResourceSliceSpec {
                all_nodes: spec.all_nodes.filter(|it| *it),
                devices: spec.devices.map(|all| all.into_iter().map(device_into_hub).collect()),
                driver: spec.driver,
                node_name: spec.node_name.filter(|it| !it.is_empty()),
                node_selector: spec.node_selector,
                per_device_node_selection: spec.per_device_node_selection,
                pool: same_fields(&spec.pool),
                shared_counters: same_fields(&spec.shared_counters),
            },
        }
    }

    fn from_hub(hub: &Hub) -> Self {
        let (spec, all) = (&hub.spec, hub.spec.devices.as_ref());
        Self {
            metadata: hub.metadata.clone(),
            spec: v1beta1::ResourceSliceSpec {
                all_nodes: spec.all_nodes,
                devices: all.map(|all| all.iter().map(device_from_hub).collect()),
                driver: spec.driver.clone(),
                node_name: spec.node_name.clone(),
                node_selector: spec.node_selector.clone(),
                per_device_node_selection: spec.per_device_node_selection,
                pool: same_fields(&spec.pool),
                shared_counters: same_fields(&spec.shared_counters),
            },
        }
    }
}

/// All fields but the name are those of a basic device.
fn device_into_hub(device: v1beta1::Device) -> v1::Device {
    let hub: v1::Device = device.basic.as_ref().map(same_fields).unwrap_or_default();
    v1::Device { name: device.name, ..hub }
}

fn device_from_hub(device: &v1::Device) -> v1beta1::Device {
    v1beta1::Device { name: device.name.clone(), basic: Some(same_fields(device)) }
}
