//! EndpointSlice: some of the addresses behind a Service.

#[cfg(test)]
mod tests;
mod validation;

use apimachinery::FieldErrors;

use crate::kind::Resource;

use apimachinery::table::Column;
use jiff::Timestamp;
use serde_json::Value;

use crate::cell;

use crate::check::text;
use crate::kind::Part;
use crate::semantic;

pub use k8s_openapi::api::discovery::v1::EndpointSlice;

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

    fn validate(&self, _errors: &mut FieldErrors) {}

    fn validate_create(&self, errors: &mut FieldErrors) {
        validation::validate(self, errors);
    }

    fn validate_update(&self, stored: &Self, _part: Part, errors: &mut FieldErrors) {
        validation::validate_update(self, stored, errors);
        let path = apimachinery::field::Path::new("addressType");
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

/// `deprecatedTopology` is what v1 shows of objects of v1beta1; it cannot be written
/// (`dropTopologyOnV1` of upstream).
fn drop_topology(slice: &mut EndpointSlice) {
    slice.endpoints.iter_mut().flatten().for_each(|it| it.deprecated_topology = None);
}
