//! Endpoints: the addresses behind a Service, in the form that came before EndpointSlice.

#[cfg(test)]
mod tests;

use apimachinery::FieldErrors;

use crate::kind::Resource;

use apimachinery::table::Column;
use jiff::Timestamp;
use serde_json::Value;

use crate::{addresses, cell};

use apimachinery::field::Path;
use apimachinery::validation::{is_dns_label, is_dns_subdomain, is_qualified_name};
use k8s_openapi::api::core::v1::{EndpointAddress, EndpointSubset};

use crate::check::{self, text};

pub use k8s_openapi::api::core::v1::Endpoints;

/// Label: who writes these Endpoints.
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const CONTROLLER: &str = "endpoint-controller";

impl Resource for Endpoints {
    codec!();

    fn apply_defaults(&mut self) {
        for subset in self.subsets.iter_mut().flatten() {
            for port in subset.ports.iter_mut().flatten() {
                port.protocol.get_or_insert_with(|| "TCP".to_owned());
            }
        }
    }

    fn validate(&self, errors: &mut FieldErrors) {
        for (index, subset) in self.subsets.iter().flatten().enumerate() {
            validate_subset(subset, &Path::new("subsets").index(index), errors);
        }
    }

    fn deprecation() -> Option<&'static str> {
        Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
    }

    /// Those that the controller here writes need no second look.
    fn warnings(&self) -> Vec<String> {
        let labels = self.metadata.labels.as_ref();
        if labels.and_then(|it| it.get(MANAGED_BY)).is_some_and(|it| it == CONTROLLER) {
            return Vec::new();
        }
        let mut warnings = Vec::new();
        for (index, subset) in self.subsets.iter().flatten().enumerate() {
            let path = Path::new("subsets").index(index);
            for (field, all) in [
                ("addresses", &subset.addresses),
                ("notReadyAddresses", &subset.not_ready_addresses),
            ] {
                for (index, address) in all.iter().flatten().enumerate() {
                    let path = path.child(field).index(index).child("ip");
                    warnings.extend(addresses::ip_warnings(&address.ip, &path));
                }
            }
        }
        warnings
    }

    fn columns() -> &'static [Column] {
        const { &[Column::name(), Column::new("Endpoints", "string"), Column::new("Age", "string")] }
    }

    fn row(&self, now: Timestamp) -> Vec<Value> {
        let subsets = self.subsets.as_deref().unwrap_or_default();
        let addresses: Vec<String> = subsets.iter().flat_map(addresses).collect();
        let text = cell::first_three(&addresses);
        vec![
            cell::name(&self.metadata),
            if subsets.is_empty() { Value::from("<none>") } else { Value::from(text) },
            cell::age(&self.metadata, now),
        ]
    }
}

/// Every ready address with every port; the address alone when there are no ports.
fn addresses(subset: &EndpointSubset) -> Vec<String> {
    let ready = subset.addresses.as_deref().unwrap_or_default();
    match subset.ports.as_deref().unwrap_or_default() {
        [] => ready.iter().map(|it| it.ip.clone()).collect(),
        ports => ports
            .iter()
            .flat_map(|port| ready.iter().map(|it| join_host_port(&it.ip, port.port)))
            .collect(),
    }
}

fn join_host_port(host: &str, port: i32) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

fn validate_subset(subset: &EndpointSubset, path: &Path, errors: &mut FieldErrors) {
    let ready = subset.addresses.as_deref().unwrap_or_default();
    let not_ready = subset.not_ready_addresses.as_deref().unwrap_or_default();
    if ready.is_empty() && not_ready.is_empty() {
        errors.required(path, "must specify `addresses` or `notReadyAddresses`");
    }
    for (index, address) in ready.iter().enumerate() {
        validate_address(address, &path.child("addresses").index(index), errors);
    }
    for (index, address) in not_ready.iter().enumerate() {
        validate_address(address, &path.child("notReadyAddresses").index(index), errors);
    }
    let ports = subset.ports.as_deref().unwrap_or_default();
    for (index, port) in ports.iter().enumerate() {
        let path = path.child("ports").index(index);
        let name = text(port.name.as_ref());
        if !name.is_empty() {
            check::format(name, &is_dns_label(name), &path.child("name"), errors);
        } else if ports.len() > 1 {
            errors.required(&path.child("name"), "");
        }
        check::port_number(port.port, &path.child("port"), errors);
        let protocols = ["SCTP", "TCP", "UDP"];
        check::one_of(text(port.protocol.as_ref()), &protocols, &path.child("protocol"), errors);
        if let Some(protocol) = &port.app_protocol {
            let messages = is_qualified_name(protocol);
            check::format(protocol, &messages, &path.child("appProtocol"), errors);
        }
    }
}

fn validate_address(address: &EndpointAddress, path: &Path, errors: &mut FieldErrors) {
    addresses::validate_older_ip(&address.ip, &[], &path.child("ip"), errors);
    check::non_special_ip(&address.ip, &path.child("ip"), errors);
    let hostname = text(address.hostname.as_ref());
    if !hostname.is_empty() {
        check::format(hostname, &is_dns_label(hostname), &path.child("hostname"), errors);
    }
    if let Some(node) = &address.node_name {
        check::format(node, &is_dns_subdomain(node), &path.child("nodeName"), errors);
    }
}
