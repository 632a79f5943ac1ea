//! What is wrong with a NetworkPolicy.

use k8s_openapi::api::networking::v1::{
    IPBlock, NetworkPolicy, NetworkPolicyPeer, NetworkPolicyPort, NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::Value;

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::{
    is_port_name, validate_label_selector, validate_older_label_selector,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::blocks;
use crate::addresses::{self, Range};
use crate::check;

const PROTOCOLS: &[&str] = &["TCP", "UDP", "SCTP"];
const TYPES: &[&str] = &["Ingress", "Egress"];

/// What was stored before it was checked may stay.
#[derive(Default)]
struct Tolerated<'a> {
    /// Wherever they stand now.
    ranges: Vec<&'a str>,
    label_values: bool,
}

impl<'a> Tolerated<'a> {
    fn of(stored: &'a NetworkPolicySpec) -> Self {
        let ranges_of = |it: &'a IPBlock| [&it.cidr].into_iter().chain(it.except.iter().flatten());
        let blocks = blocks(stored).into_iter();
        let mut errors = FieldErrors::new();
        if let Some(selector) = &stored.pod_selector {
            validate_label_selector(selector, &Path::root(), &mut errors);
        }
        Self {
            ranges: blocks.flat_map(|(_, it)| ranges_of(it)).map(String::as_str).collect(),
            label_values: !errors.is_empty(),
        }
    }

    fn validate_selector(&self, it: &LabelSelector, path: &Path, errors: &mut FieldErrors) {
        match self.label_values {
            true => validate_older_label_selector(it, path, errors),
            false => validate_label_selector(it, path, errors),
        }
    }
}

pub(super) fn validate(
    policy: &NetworkPolicy,
    stored: Option<&NetworkPolicy>,
    errors: &mut FieldErrors,
) {
    let stored = stored.and_then(|it| it.spec.as_ref());
    let stored = stored.map(Tolerated::of).unwrap_or_default();
    let absent = NetworkPolicySpec::default();
    let spec = policy.spec.as_ref().unwrap_or(&absent);
    let path = Path::new("spec");
    if let Some(selector) = &spec.pod_selector {
        stored.validate_selector(selector, &path.child("podSelector"), errors);
    }
    for (index, rule) in spec.ingress.iter().flatten().enumerate() {
        let path = path.child("ingress").index(index);
        validate_ports(rule.ports.as_deref().unwrap_or_default(), &path, errors);
        let from = rule.from.as_deref().unwrap_or_default();
        validate_peers(from, &stored, &path.child("from"), errors);
    }
    for (index, rule) in spec.egress.iter().flatten().enumerate() {
        let path = path.child("egress").index(index);
        validate_ports(rule.ports.as_deref().unwrap_or_default(), &path, errors);
        let to = rule.to.as_deref().unwrap_or_default();
        validate_peers(to, &stored, &path.child("to"), errors);
    }
    let types = spec.policy_types.as_deref().unwrap_or_default();
    validate_types(types, &path.child("policyTypes"), errors);
}

fn validate_types(types: &[String], path: &Path, errors: &mut FieldErrors) {
    if types.len() > TYPES.len() {
        let detail = "may not specify more than two policyTypes";
        return errors.invalid(path, Value::from(types), detail);
    }
    for (index, it) in types.iter().enumerate() {
        if !TYPES.contains(&it.as_str()) {
            errors.not_supported_as_listed(&path.index(index), it.as_str(), TYPES);
        }
    }
}

fn validate_ports(ports: &[NetworkPolicyPort], path: &Path, errors: &mut FieldErrors) {
    for (index, port) in ports.iter().enumerate() {
        validate_port(port, &path.child("ports").index(index), errors);
    }
}

fn validate_port(port: &NetworkPolicyPort, path: &Path, errors: &mut FieldErrors) {
    if let Some(protocol) = port.protocol.as_deref()
        && !PROTOCOLS.contains(&protocol)
    {
        errors.not_supported_as_listed(&path.child("protocol"), protocol, PROTOCOLS);
    }
    let (path_port, path_end) = (path.child("port"), path.child("endPort"));
    match (&port.port, port.end_port) {
        (None, None) => {}
        (None, Some(end)) => {
            errors.invalid(&path_end, end, "may not be specified when `port` is not specified");
        }
        (Some(IntOrString::Int(first)), end) => {
            check::port_number(*first, &path_port, errors);
            let Some(end) = end else { return };
            if end < *first {
                errors.invalid(&path_end, *first, "must be greater than or equal to `port`");
            }
            check::port_number(end, &path_end, errors);
        }
        (Some(IntOrString::String(name)), end) => {
            if let Some(end) = end {
                errors.invalid(&path_end, end, "may not be specified when `port` is non-numeric");
            }
            check::format(name, &is_port_name(name), &path_port, errors);
        }
    }
}

fn validate_peers(
    peers: &[NetworkPolicyPeer],
    stored: &Tolerated<'_>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    for (index, peer) in peers.iter().enumerate() {
        let path = path.index(index);
        let selectors =
            [("podSelector", &peer.pod_selector), ("namespaceSelector", &peer.namespace_selector)];
        for (field, selector) in &selectors {
            if let Some(selector) = selector {
                stored.validate_selector(selector, &path.child(field), errors);
            }
        }
        let is_selecting = selectors.iter().any(|(_, it)| it.is_some());
        if let Some(block) = &peer.ip_block {
            validate_block(block, &stored.ranges, &path.child("ipBlock"), errors);
        }
        match (&peer.ip_block, is_selecting) {
            (None, false) => errors.required(&path, "must specify a peer"),
            (Some(_), true) => {
                errors.forbidden(&path, "may not specify both ipBlock and another peer");
            }
            (None, true) | (Some(_), false) => {}
        }
    }
}

fn validate_block(block: &IPBlock, stored: &[&str], path: &Path, errors: &mut FieldErrors) {
    let path_cidr = path.child("cidr");
    if block.cidr.is_empty() {
        return errors.required(&path_cidr, "");
    }
    addresses::validate_older_cidr(&block.cidr, stored, &path_cidr, errors);
    let Some(range) = Range::read(&block.cidr) else { return };
    for (index, text) in block.except.iter().flatten().enumerate() {
        let path = path.child("except").index(index);
        addresses::validate_older_cidr(text, stored, &path, errors);
        if Range::read(text).is_some_and(|it| !range.is_strictly_around(it)) {
            errors.invalid(&path, text.as_str(), "must be a strict subset of `cidr`");
        }
    }
}
