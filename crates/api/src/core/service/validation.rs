//! What is wrong with a Service.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use serde_json::{Value, json};

use apimachinery::FieldErrors;
use apimachinery::field::Path;
use apimachinery::validation::{
    is_dns_label, is_dns_subdomain, is_ip, is_qualified_name, validate_labels,
};

use super::allocation::{is_externally_accessible, is_headless, needs_health_check_port};
use super::annotations;
use crate::addresses;
use crate::check::{self, text};

pub(super) const ONLY_BALANCER: &str = "may only be used when `type` is 'LoadBalancer'";
const ONCE: &str = "may not change once set";

/// What is `stored` may stay, though it would not be taken today.
pub(super) fn validate(service: &Service, stored: Option<&Service>, errors: &mut FieldErrors) {
    let path = Path::new("spec");
    annotations::validate_topology(service, errors);
    let absent = ServiceSpec::default();
    let spec = service.spec.as_ref().unwrap_or(&absent);
    let ports = spec.ports.as_deref().unwrap_or_default();
    let type_ = text(spec.type_.as_ref());
    if ports.is_empty() && !is_headless(service) && type_ != "ExternalName" {
        errors.required(&path.child("ports"), "");
    }
    validate_type(service, spec, &path, errors);
    let mut names = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let path = path.child("ports").index(index);
        validate_port(port, ports.len() > 1, &mut names, &path, errors);
    }
    if let Some(selector) = &spec.selector {
        validate_labels(selector, &path.child("selector"), errors);
    }
    validate_affinity(spec, &path, errors);
    if type_ != "ExternalName" {
        validate_cluster_ips(service, spec, &path, errors);
    }
    let old = stored.and_then(|it| it.spec.as_ref());
    let existing = old.and_then(|it| it.external_ips.as_deref()).unwrap_or_default();
    let existing: Vec<&str> = existing.iter().map(String::as_str).collect();
    for (index, address) in spec.external_ips.iter().flatten().enumerate() {
        let path = path.child("externalIPs").index(index);
        let mut found = FieldErrors::new();
        addresses::validate_older_ip(address, &existing, &path, &mut found);
        if found.is_empty() {
            check::non_special_ip(address, &path, &mut found);
        }
        errors.extend(found);
    }
    let types = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    check::one_of(type_, &types, &path.child("type"), errors);
    validate_duplicate_ports(ports, type_, &path.child("ports"), errors);
    validate_ranges(spec, old, &path.child("LoadBalancerSourceRanges"), errors);
    if spec.load_balancer_source_ranges.as_ref().is_none_or(Vec::is_empty) {
        annotations::validate_ranges(service, stored, errors);
    }
    validate_balancer(spec, &path, errors);
    validate_traffic(service, spec, &path, errors);
}

/// What one type allows and another needs.
fn validate_type(service: &Service, spec: &ServiceSpec, path: &Path, errors: &mut FieldErrors) {
    let type_ = text(spec.type_.as_ref());
    match type_ {
        "LoadBalancer" | "NodePort" if is_headless(service) => errors.invalid(
            &path.child("clusterIPs").index(0),
            "None",
            &format!("may not be set to 'None' for {type_} services"),
        ),
        "ExternalName" => {
            let detail = "may not be set for ExternalName services";
            if spec.cluster_ips.as_ref().is_some_and(|it| !it.is_empty()) {
                errors.forbidden(&path.child("clusterIPs"), detail);
            }
            if spec.ip_families.as_ref().is_some_and(|it| !it.is_empty()) {
                errors.forbidden(&path.child("ipFamilies"), detail);
            }
            if spec.ip_family_policy.is_some() {
                errors.forbidden(&path.child("ipFamilyPolicy"), detail);
            }
            let name = text(spec.external_name.as_ref()).trim_end_matches('.');
            let path = path.child("externalName");
            if name.is_empty() {
                errors.required(&path, "");
            } else {
                check::format(name, &is_dns_subdomain(name), &path, errors);
            }
        }
        _ => {}
    }
}

fn validate_port(
    port: &ServicePort,
    needs_name: bool,
    names: &mut BTreeSet<String>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let name = text(port.name.as_ref());
    let path_name = path.child("name");
    if !name.is_empty() {
        check::format(name, &is_dns_label(name), &path_name, errors);
        if !names.insert(name.to_owned()) {
            errors.duplicate(&path_name, name);
        }
    } else if needs_name {
        errors.required(&path_name, "");
    }
    check::port_number(port.port, &path.child("port"), errors);
    let protocols = ["SCTP", "TCP", "UDP"];
    check::one_of(text(port.protocol.as_ref()), &protocols, &path.child("protocol"), errors);
    if let Some(target) = &port.target_port {
        check::port_number_or_name(target, &path.child("targetPort"), errors);
    }
    if let Some(protocol) = &port.app_protocol {
        let messages = is_qualified_name(protocol);
        check::format(protocol, &messages, &path.child("appProtocol"), errors);
    }
}

fn validate_affinity(spec: &ServiceSpec, path: &Path, errors: &mut FieldErrors) {
    let affinity = text(spec.session_affinity.as_ref());
    check::one_of(affinity, &["ClientIP", "None"], &path.child("sessionAffinity"), errors);
    let path = path.child("sessionAffinityConfig");
    if affinity == "None" && spec.session_affinity_config.is_some() {
        errors.forbidden(&path, "must not be set when session affinity is None");
    }
    if affinity == "ClientIP" {
        let client = spec.session_affinity_config.as_ref().and_then(|it| it.client_ip.as_ref());
        let seconds = client.and_then(|it| it.timeout_seconds);
        let path = path.child("clientIP").child("timeoutSeconds");
        match seconds {
            None => errors.required(&path, "when session affinity type is ClientIP"),
            Some(seconds) if !(1..=86_400).contains(&seconds) => {
                let detail = "must be greater than 0 and less than 86400";
                errors.invalid(&path, seconds, detail);
            }
            Some(_) => {}
        }
    }
}

pub(super) fn list(values: &[String]) -> Value {
    Value::from(values.to_vec())
}

pub(super) fn validate_cluster_ips(
    service: &Service,
    spec: &ServiceSpec,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let first = text(spec.cluster_ip.as_ref());
    let all = spec.cluster_ips.as_deref().unwrap_or_default();
    let families = spec.ip_families.as_deref().unwrap_or_default();
    let path_ips = path.child("clusterIPs");
    match (first, all.first()) {
        ("", Some(_)) => {
            errors.invalid(&path_ips, list(all), "must be empty when `clusterIP` is not specified");
        }
        ("", None) => {}
        (_, None) => errors.required(&path_ips, ""),
        (first, Some(it)) if first != it => {
            errors.invalid(&path_ips, list(all), "first value must match `clusterIP`");
        }
        _ => {}
    }
    validate_families(spec, path, errors);
    let mut has_bad = false;
    for (index, address) in all.iter().enumerate() {
        if index == 0 && address == "None" {
            if all.len() > 1 {
                has_bad = true;
                errors.invalid(&path_ips, list(all), "'None' must be the first and only value");
            }
            continue;
        }
        let messages = is_ip(address);
        has_bad |= !messages.is_empty();
        check::format(address, &messages, &path_ips.index(index), errors);
    }
    if all.len() > 2 {
        errors.invalid(&path_ips, list(all), "may only hold up to 2 values");
    }
    if has_bad {
        return;
    }
    let n_v6 = all.iter().filter(|it| it.contains(':')).count();
    if all.len() > 1 && (n_v6 != 1 || all.len() != 2) {
        let detail = "may specify no more than one IP for each IP family";
        errors.invalid(&path_ips, list(all), detail);
    }
    if is_headless(service) {
        return;
    }
    for (index, (address, family)) in all.iter().zip(families).enumerate() {
        if address.contains(':') != (family == "IPv6") {
            let detail =
                format!("expected an {family} value as indicated by `ipFamilies[{index}]`");
            errors.invalid(&path_ips.index(index), address.as_str(), &detail);
        }
    }
}

fn validate_families(spec: &ServiceSpec, path: &Path, errors: &mut FieldErrors) {
    let mut seen = BTreeSet::new();
    for (index, family) in spec.ip_families.iter().flatten().enumerate() {
        let path = path.child("ipFamilies").index(index);
        if !["IPv4", "IPv6"].contains(&family.as_str()) {
            errors.not_supported(&path, family.as_str(), &["IPv4", "IPv6"]);
        }
        if !seen.insert(family) {
            errors.duplicate(&path, family.as_str());
        }
    }
    check::one_of_if_set(
        text(spec.ip_family_policy.as_ref()),
        &["PreferDualStack", "RequireDualStack", "SingleStack"],
        &path.child("ipFamilyPolicy"),
        errors,
    );
}

fn validate_duplicate_ports(
    ports: &[ServicePort],
    type_: &str,
    path: &Path,
    errors: &mut FieldErrors,
) {
    for (index, port) in ports.iter().enumerate() {
        if type_ == "ClusterIP" && port.node_port.unwrap_or(0) != 0 {
            let detail = "may not be used when `type` is 'ClusterIP'";
            errors.forbidden(&path.index(index).child("nodePort"), detail);
        }
    }
    let (mut node_ports, mut pairs) = (BTreeSet::new(), BTreeSet::new());
    for (index, port) in ports.iter().enumerate() {
        let node_port = port.node_port.unwrap_or(0);
        if node_port != 0 && !node_ports.insert((&port.protocol, node_port)) {
            errors.duplicate(&path.index(index).child("nodePort"), node_port);
        }
    }
    for (index, port) in ports.iter().enumerate() {
        if !pairs.insert((&port.protocol, port.port)) {
            let shown = json!({"port": port.port, "protocol": port.protocol});
            errors.duplicate(&path.index(index), shown);
        }
    }
}

/// Spaces around them are as old as the annotation that was there before the field.
fn validate_ranges(
    spec: &ServiceSpec,
    old: Option<&ServiceSpec>,
    path: &Path,
    errors: &mut FieldErrors,
) {
    fn of(spec: &ServiceSpec) -> Vec<&str> {
        spec.load_balancer_source_ranges.iter().flatten().map(|it| it.trim()).collect()
    }
    let (ranges, existing) = (of(spec), old.map(of).unwrap_or_default());
    if !ranges.is_empty() && text(spec.type_.as_ref()) != "LoadBalancer" {
        errors.forbidden(path, ONLY_BALANCER);
    }
    for (index, range) in ranges.into_iter().enumerate() {
        addresses::validate_older_cidr(range, &existing, &path.index(index), errors);
    }
}

fn validate_balancer(spec: &ServiceSpec, path: &Path, errors: &mut FieldErrors) {
    let is_balancer = text(spec.type_.as_ref()) == "LoadBalancer";
    if spec.allocate_load_balancer_node_ports.is_some() && !is_balancer {
        errors.forbidden(&path.child("allocateLoadBalancerNodePorts"), ONLY_BALANCER);
    }
    if let Some(class) = &spec.load_balancer_class {
        let path = path.child("loadBalancerClass");
        if is_balancer {
            check::format(class, &is_qualified_name(class), &path, errors);
        } else {
            errors.forbidden(&path, ONLY_BALANCER);
        }
    }
}

fn validate_traffic(service: &Service, spec: &ServiceSpec, path: &Path, errors: &mut FieldErrors) {
    let policy = text(spec.external_traffic_policy.as_ref());
    let path_policy = path.child("externalTrafficPolicy");
    if is_externally_accessible(spec) {
        check::one_of(policy, &["Cluster", "Local"], &path_policy, errors);
    } else if !policy.is_empty() {
        errors.invalid(&path_policy, policy, "may only be set for externally-accessible services");
    }
    let health_port = spec.health_check_node_port.unwrap_or(0);
    let path_health = path.child("healthCheckNodePort");
    if health_port != 0 && !needs_health_check_port(service) {
        let detail =
            "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        errors.invalid(&path_health, health_port, detail);
    } else if health_port != 0 {
        check::port_number(health_port, &path_health, errors);
    }
    check::one_of_if_set(
        text(spec.internal_traffic_policy.as_ref()),
        &["Cluster", "Local"],
        &path.child("internalTrafficPolicy"),
        errors,
    );
    let distribution = text(spec.traffic_distribution.as_ref());
    let known = ["PreferClose", "PreferSameZone", "PreferSameNode"];
    if !distribution.is_empty() && !known.contains(&distribution) {
        let path = path.child("trafficDistribution");
        errors.not_supported_as_listed(&path, distribution, &known);
    }
}

pub(super) fn validate_update(service: &Service, stored: &Service, errors: &mut FieldErrors) {
    let path = Path::new("spec");
    let (Some(spec), Some(old)) = (&service.spec, &stored.spec) else { return };
    let is_external = |it: &ServiceSpec| text(it.type_.as_ref()) == "ExternalName";
    if !is_external(spec) && !is_external(old) {
        validate_addresses_kept(service, stored, &path, errors);
    }
    let is_balancer = |it: &ServiceSpec| text(it.type_.as_ref()) == "LoadBalancer";
    let is_same_class = spec.load_balancer_class == old.load_balancer_class;
    if is_balancer(spec) && is_balancer(old) && !is_same_class {
        let class = spec.load_balancer_class.clone();
        errors.invalid(&path.child("loadBalancerClass"), class, ONCE);
    }
    if needs_health_check_port(service)
        && needs_health_check_port(stored)
        && spec.health_check_node_port != old.health_check_node_port
    {
        errors.forbidden(&path.child("healthCheckNodePort"), "field is immutable");
    }
}

/// Addresses and families that were allocated stay; a second one may come and go.
fn validate_addresses_kept(
    service: &Service,
    stored: &Service,
    path: &Path,
    errors: &mut FieldErrors,
) {
    let (Some(spec), Some(old)) = (&service.spec, &stored.spec) else { return };
    if is_headless(service) && is_headless(stored) {
        return;
    }
    let is_headless_changed = is_headless(service) != is_headless(stored);
    let fields = [
        ("clusterIPs", "clusterIP", &spec.cluster_ips, &old.cluster_ips),
        ("ipFamilies", "ipFamily", &spec.ip_families, &old.ip_families),
    ];
    for (field, singular, new, old) in fields {
        if field == "ipFamilies" && is_headless_changed {
            continue;
        }
        let new = new.as_deref().unwrap_or_default();
        let old = old.as_deref().unwrap_or_default();
        let path_field = path.child(field);
        if new.is_empty() && !old.is_empty() {
            let detail = format!("primary {singular} can not be unset");
            errors.invalid(&path_field.index(0), list(new), &detail);
        }
        for (index, (new_value, old_value)) in new.iter().zip(old).enumerate() {
            if new_value != old_value && (index == 0 || new.len() == old.len()) {
                // Of families upstream names the first, whichever it is.
                let index = if field == "ipFamilies" { 0 } else { index };
                errors.invalid(&path_field.index(index), list(new), ONCE);
            }
        }
        let policy = text(spec.ip_family_policy.as_ref());
        if new.len() == 1 && old.len() > 1 && policy != "SingleStack" {
            let detail =
                format!("must be set to 'SingleStack' when releasing the secondary {singular}");
            errors.invalid(&path.child("ipFamilyPolicy"), policy, &detail);
        }
    }
}

/// Of a Service whose status alone is written.
pub(super) fn validate_status(service: &Service, stored: &Service, errors: &mut FieldErrors) {
    let of = |it: &Service| {
        let status = it.status.as_ref().and_then(|it| it.load_balancer.as_ref());
        status.and_then(|it| it.ingress.clone()).unwrap_or_default()
    };
    let path = Path::new("status").child("loadBalancer").child("ingress");
    let kind = service.spec.as_ref().and_then(|it| it.type_.as_ref());
    let ingress = of(service);
    if text(kind) != "LoadBalancer" {
        if !ingress.is_empty() {
            errors.forbidden(&path, "may only be used when `spec.type` is 'LoadBalancer'");
        }
        return;
    }
    let before = of(stored);
    let before: Vec<&str> = before.iter().map(|it| text(it.ip.as_ref())).collect();
    for (index, it) in ingress.iter().enumerate() {
        let path = path.index(index);
        let (ip, hostname) = (text(it.ip.as_ref()), text(it.hostname.as_ref()));
        let path_mode = path.child("ipMode");
        if !ip.is_empty() {
            addresses::validate_older_ip(ip, &before, &path.child("ip"), errors);
        }
        match &it.ip_mode {
            None if ip.is_empty() => {}
            None => errors.required(&path_mode, "must be specified when `ip` is set"),
            Some(_) if ip.is_empty() => {
                errors.forbidden(&path_mode, "may not be specified when `ip` is not set");
            }
            Some(mode) => check::one_of_if_set(mode, &["Proxy", "VIP"], &path_mode, errors),
        }
        if !hostname.is_empty() {
            let path = path.child("hostname");
            check::format(hostname, &is_dns_subdomain(hostname), &path, errors);
            if addresses::read_ip(hostname).is_some() {
                errors.invalid(&path, hostname, "must be a DNS name, not an IP address");
            }
        }
    }
}
