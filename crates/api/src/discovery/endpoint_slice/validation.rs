//! What is wrong with an EndpointSlice.

use std::collections::BTreeSet;

use k8s_openapi::api::discovery::v1::{Endpoint, EndpointHints, EndpointPort, EndpointSlice};

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::{
    is_dns_label, is_dns_subdomain, is_ip, is_label_value, is_qualified_name,
};

use crate::check::{self, text};

const ENDPOINTS_MAX: usize = 1000;
const ADDRESSES_MAX: usize = 100;
const PORTS_MAX: usize = 20_000;
const HINTS_MAX: usize = 8;

/// Endpoints that did not change are left as they are.
pub(super) fn validate_update(
    slice: &EndpointSlice,
    stored: &EndpointSlice,
    errors: &mut FieldErrors,
) {
    if slice.endpoints == stored.endpoints {
        let bare = EndpointSlice { endpoints: None, ..slice.clone() };
        return validate(&bare, errors);
    }
    validate(slice, errors);
}

pub(super) fn validate(slice: &EndpointSlice, errors: &mut FieldErrors) {
    let types = ["FQDN", "IPv4", "IPv6"];
    check::one_of(&slice.address_type, &types, &Path::new("addressType"), errors);
    validate_ports(slice.ports.as_deref().unwrap_or_default(), &Path::new("ports"), errors);
    let endpoints = slice.endpoints.as_deref().unwrap_or_default();
    let path = Path::new("endpoints");
    if endpoints.len() > ENDPOINTS_MAX {
        return errors.too_many(&path, endpoints.len(), ENDPOINTS_MAX);
    }
    for (index, endpoint) in endpoints.iter().enumerate() {
        validate_endpoint(endpoint, &slice.address_type, &path.index(index), errors);
    }
}

fn validate_endpoint(endpoint: &Endpoint, kind: &str, path: &Path, errors: &mut FieldErrors) {
    let path_addresses = path.child("addresses");
    if endpoint.addresses.is_empty() {
        errors.required(&path_addresses, "must contain at least 1 address");
    } else if endpoint.addresses.len() > ADDRESSES_MAX {
        errors.too_many(&path_addresses, endpoint.addresses.len(), ADDRESSES_MAX);
    }
    for (index, address) in endpoint.addresses.iter().enumerate() {
        let path = path_addresses.index(index);
        match kind {
            "IPv4" | "IPv6" => {
                let messages = is_ip(address);
                check::format(address, &messages, &path, errors);
                if messages.is_empty() {
                    if address.contains(':') != (kind == "IPv6") {
                        let detail = format!("must be an {kind} address");
                        errors.invalid(&path_addresses, address.as_str(), &detail);
                    }
                    check::non_special_ip(address, &path, errors);
                }
            }
            "FQDN" => {
                let name = address.strip_suffix('.').unwrap_or(address);
                check::format(address, &is_dns_subdomain(name), &path, errors);
                if name.split('.').count() < 2 {
                    let detail = "should be a domain with at least two segments separated by dots";
                    errors.invalid(&path, address.as_str(), detail);
                }
            }
            _ => {}
        }
    }
    if let Some(node) = &endpoint.node_name {
        check::format(node, &is_dns_subdomain(node), &path.child("nodeName"), errors);
    }
    if let Some(hostname) = &endpoint.hostname {
        check::format(hostname, &is_dns_label(hostname), &path.child("hostname"), errors);
    }
    if let Some(hints) = &endpoint.hints {
        validate_hints(hints, &path.child("hints"), errors);
    }
}

/// Whom an endpoint is for, each once.
fn validate_hints(hints: &EndpointHints, path: &Path, errors: &mut FieldErrors) {
    let zones: Vec<&str> = hints.for_zones.iter().flatten().map(|it| it.name.as_str()).collect();
    let nodes: Vec<&str> = hints.for_nodes.iter().flatten().map(|it| it.name.as_str()).collect();
    for (field, all) in [("forZones", zones), ("forNodes", nodes)] {
        let path = path.child(field);
        if all.len() > HINTS_MAX {
            errors.too_many(&path, all.len(), HINTS_MAX);
            continue;
        }
        let mut seen = BTreeSet::new();
        for (index, name) in all.into_iter().enumerate() {
            let path = path.index(index).child("name");
            if !seen.insert(name) {
                errors.duplicate(&path, name);
            }
            let problems =
                if field == "forZones" { is_label_value(name) } else { is_dns_subdomain(name) };
            check::format(name, &problems, &path, errors);
        }
    }
}

fn validate_ports(ports: &[EndpointPort], path: &Path, errors: &mut FieldErrors) {
    if ports.len() > PORTS_MAX {
        return errors.too_many(path, ports.len(), PORTS_MAX);
    }
    let mut names = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let path = path.index(index);
        let name = text(port.name.as_ref());
        if !name.is_empty() {
            check::format(name, &is_dns_label(name), &path.child("name"), errors);
        }
        if !names.insert(name) {
            errors.duplicate(&path.child("name"), name);
        }
        let protocols = ["SCTP", "TCP", "UDP"];
        check::one_of(text(port.protocol.as_ref()), &protocols, &path.child("protocol"), errors);
        if let Some(protocol) = &port.app_protocol {
            let messages = is_qualified_name(protocol);
            check::format(protocol, &messages, &path.child("appProtocol"), errors);
        }
    }
}
