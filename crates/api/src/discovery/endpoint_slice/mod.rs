//! EndpointSlice: some of the addresses behind a Service.

#[cfg(test)]
mod tests;
mod validation;

use apimachinery::FieldErrors;

use crate::kind::Resource;

use apimachinery::field::Path;
use apimachinery::table::Column;
use jiff::Timestamp;
use serde_json::Value;

use crate::{addresses, cell};

use crate::check::text;
use crate::kind::Part;
use crate::semantic;

pub use k8s_openapi::api::discovery::v1::EndpointSlice;

/// Label: who writes a slice.
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const CONTROLLERS: [&str; 2] =
    ["endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"];

impl Resource for EndpointSlice {
    codec!();

    fn apply_defaults(&mut self) {
        for port in self.ports.iter_mut().flatten() {
            port.name.get_or_insert_default();
            port.protocol.get_or_insert_with(|| "TCP".to_owned());
        }
    }

    fn prepare_create(&mut self) {
        drop_topology(self);
    }

    fn prepare_update(&mut self, stored: &Self, _part: Part) {
        // What v1beta1 wrote stays until somebody changes the endpoints.
        if !semantic::equal(&self.endpoints, &stored.endpoints) {
            drop_topology(self);
        }
    }

    /// There is no spec: everything but metadata is, and of that the labels.
    fn is_new_generation(&self, stored: &Self) -> bool {
        self.address_type != stored.address_type
            || !semantic::equal_at("endpoints", self, stored)
            || !semantic::equal_at("ports", self, stored)
            || !semantic::equal(&self.metadata.labels, &stored.metadata.labels)
    }

    fn generation_counts_lost() -> bool {
        true
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.address_type == "FQDN" {
            warnings.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
        }
        warnings.extend(address_warnings(self));
        warnings
    }

    fn update_warnings(&self, _stored: &Self, _part: Part) -> Vec<String> {
        address_warnings(self)
    }

    fn validate(&self, _errors: &mut FieldErrors) {}

    fn validate_create(&self, errors: &mut FieldErrors) {
        validation::validate(self, errors);
    }

    fn validate_update(&self, stored: &Self, _part: Part, errors: &mut FieldErrors) {
        validation::validate_update(self, stored, errors);
        let path = Path::new("addressType");
        let is_same = self.address_type == stored.address_type;
        crate::check::immutable(is_same, self.address_type.as_str(), &path, errors);
    }

    fn columns() -> &'static [Column] {
        const {
            &[
                Column::name(),
                Column::new("AddressType", "string"),
                Column::new("Ports", "string"),
                Column::new("Endpoints", "string"),
                Column::new("Age", "string"),
            ]
        }
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        let ports: Vec<String> = self
            .ports
            .iter()
            .flatten()
            .map(|it| match (it.port, text(it.name.as_ref())) {
                (Some(port), _) => port.to_string(),
                (None, "") => "*".to_owned(),
                (None, name) => name.to_owned(),
            })
            .collect();
        let addresses: Vec<String> =
            self.endpoints.iter().flatten().flat_map(|it| it.addresses.clone()).collect();
        vec![
            cell::name(&self.metadata),
            Value::from(self.address_type.as_str()),
            cell::or(&cell::first_three(&ports), "<unset>"),
            cell::or(&cell::first_three(&addresses), "<unset>"),
            cell::age(&self.metadata, now),
        ]
    }
}

/// Slices that controllers here write need no second look.
fn address_warnings(slice: &EndpointSlice) -> Vec<String> {
    let labels = slice.metadata.labels.as_ref();
    let writer = labels.and_then(|it| it.get(MANAGED_BY));
    if writer.is_some_and(|it| CONTROLLERS.contains(&it.as_str())) {
        return Vec::new();
    }
    let mut warnings = Vec::new();
    for (index, endpoint) in slice.endpoints.iter().flatten().enumerate() {
        let path = Path::new("endpoints").index(index).child("addresses");
        for (index, address) in endpoint.addresses.iter().enumerate() {
            warnings.extend(addresses::ip_warnings(address, &path.index(index)));
        }
    }
    warnings
}

/// `deprecatedTopology` is what v1 shows of objects of v1beta1; it cannot be written
/// (`dropTopologyOnV1` of upstream).
fn drop_topology(slice: &mut EndpointSlice) {
    slice.endpoints.iter_mut().flatten().for_each(|it| it.deprecated_topology = None);
}
