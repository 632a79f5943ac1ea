//! The rules around what the server allocates for a Service: addresses and ports. Pure: it says
//! what is needed and what is kept; the allocators are the server's.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{LoadBalancerStatus, Service, ServiceSpec};

use crate::check::text;

const HEADLESS: &str = "None";

pub(super) fn spec(service: &Service) -> &ServiceSpec {
    static ABSENT: std::sync::LazyLock<ServiceSpec> =
        std::sync::LazyLock::new(ServiceSpec::default);
    service.spec.as_ref().unwrap_or(&ABSENT)
}

pub(super) fn type_of(service: &Service) -> &str {
    text(spec(service).type_.as_ref())
}

/// `clusterIP: None`: names resolve to the pods, there is no address in front of them.
pub fn is_headless(service: &Service) -> bool {
    spec(service)
        .cluster_ips
        .iter()
        .flatten()
        .next()
        .or_else(|| spec(service).cluster_ip.as_ref())
        .is_some_and(|it| it == HEADLESS)
}

/// Whether the fields around `clusterIP` mean something for this type; `None` counts as a value.
pub(super) fn uses_cluster_ips(service: &Service) -> bool {
    type_of(service) != "ExternalName"
}

/// Whether there is to be an address: one must be allocated when `clusterIP` is empty.
pub fn needs_cluster_ip(service: &Service) -> bool {
    uses_cluster_ips(service) && !is_headless(service)
}

/// Whether every port is to have a node port.
pub fn needs_node_port(service: &Service) -> bool {
    match type_of(service) {
        "NodePort" => true,
        "LoadBalancer" => spec(service).allocate_load_balancer_node_ports != Some(false),
        _ => false,
    }
}

/// Whether load balancers need a port to ask which nodes have endpoints.
pub fn needs_health_check_port(service: &Service) -> bool {
    type_of(service) == "LoadBalancer"
        && spec(service).external_traffic_policy.as_deref() == Some("Local")
}

pub(super) fn is_externally_accessible(spec: &ServiceSpec) -> bool {
    let type_ = text(spec.type_.as_ref());
    ["NodePort", "LoadBalancer"].contains(&type_)
        || (type_ == "ClusterIP" && spec.external_ips.as_ref().is_some_and(|it| !it.is_empty()))
}

/// Writes allocated addresses, the primary one first.
pub fn set_cluster_ips(service: &mut Service, addresses: Vec<String>) {
    let spec = service.spec.get_or_insert_default();
    spec.cluster_ip = addresses.first().cloned();
    spec.cluster_ips = Some(addresses);
}

/// On create: clients may give only the singular field.
pub(super) fn normalize_new(service: &mut Service) {
    let spec = service.spec.get_or_insert_default();
    let is_unset = spec.cluster_ips.as_ref().is_none_or(Vec::is_empty);
    if let Some(address) = spec.cluster_ip.clone().filter(|it| is_unset && !it.is_empty()) {
        spec.cluster_ips = Some(vec![address]);
    }
}

pub(super) fn addresses(service: &Service) -> &[String] {
    spec(service).cluster_ips.as_deref().unwrap_or_default()
}

/// On update: a client that changes only the singular field means both.
pub(super) fn normalize(service: &mut Service, stored: &Service) {
    let old_first = text(spec(stored).cluster_ip.as_ref());
    let new_first = text(spec(service).cluster_ip.as_ref()).to_owned();
    let old = addresses(stored);
    let is_same_first = old_first == new_first;
    if !old.is_empty() && addresses(service).is_empty() && is_same_first {
        service.spec.get_or_insert_default().cluster_ips = Some(old.to_vec());
    }
    if !is_same_first && addresses(service) == old {
        let cleared = new_first.is_empty();
        let spec = service.spec.get_or_insert_default();
        spec.cluster_ips = if cleared { None } else { Some(vec![new_first]) };
    }
}

fn node_ports(service: &Service) -> BTreeSet<i32> {
    let ports = spec(service).ports.iter().flatten();
    ports.filter_map(|it| it.node_port).filter(|it| *it != 0).collect()
}

/// What was allocated stays when the same manifest, which does not have it, is applied again.
pub(super) fn keep_allocated(service: &mut Service, stored: &Service) {
    let old = spec(stored);
    if uses_cluster_ips(service) && uses_cluster_ips(stored) {
        let is_unset = addresses(service).is_empty();
        let spec = service.spec.get_or_insert_default();
        if text(spec.cluster_ip.as_ref()).is_empty() {
            spec.cluster_ip.clone_from(&old.cluster_ip);
        }
        if is_unset {
            spec.cluster_ips.clone_from(&old.cluster_ips);
        }
        if spec.ip_family_policy.is_none() {
            spec.ip_family_policy.clone_from(&old.ip_family_policy);
        }
        if spec.ip_families.as_ref().is_none_or(Vec::is_empty) {
            spec.ip_families.clone_from(&old.ip_families);
        }
    }
    if needs_node_port(service) && needs_node_port(stored) {
        let mut taken: BTreeSet<i32> =
            node_ports(service).intersection(&node_ports(stored)).copied().collect();
        let by_name: BTreeMap<&str, i32> = old
            .ports
            .iter()
            .flatten()
            .filter_map(|it| Some((text(it.name.as_ref()), it.node_port?)))
            .collect();
        for port in service.spec.get_or_insert_default().ports.iter_mut().flatten() {
            if port.node_port.is_none_or(|it| it == 0) {
                let known = by_name.get(text(port.name.as_ref())).copied();
                port.node_port = known.filter(|it| taken.insert(*it));
            }
        }
    }
    if needs_health_check_port(service) && needs_health_check_port(stored) {
        let spec = service.spec.get_or_insert_default();
        spec.health_check_node_port =
            spec.health_check_node_port.filter(|it| *it != 0).or(old.health_check_node_port);
    }
}

/// After a change of type: what no longer applies goes, unless the client changed it as well, which
/// validation then refuses.
pub(super) fn drop_type_dependent(service: &mut Service, stored: &Service) {
    let old = spec(stored);
    let loses_addresses = uses_cluster_ips(stored) && !uses_cluster_ips(service);
    let has_node_ports = |it: &Service| ["NodePort", "LoadBalancer"].contains(&type_of(it));
    let loses_node_ports = has_node_ports(stored)
        && !has_node_ports(service)
        && node_ports(service).is_subset(&node_ports(stored));
    let loses_health_check = needs_health_check_port(stored) && !needs_health_check_port(service);
    let is_balanced = type_of(service) == "LoadBalancer";
    let loses_balancer = type_of(stored) == "LoadBalancer" && !is_balanced;
    let loses_policy = is_externally_accessible(old) && !is_externally_accessible(spec(service));
    let is_same_addresses =
        spec(service).cluster_ip == old.cluster_ip && addresses(service) == addresses(stored);

    let spec = service.spec.get_or_insert_default();
    if loses_addresses {
        if is_same_addresses {
            spec.cluster_ip = None;
            spec.cluster_ips = None;
        }
        drop_same(&mut spec.ip_families, &old.ip_families);
        drop_same(&mut spec.ip_family_policy, &old.ip_family_policy);
    }
    if loses_node_ports {
        spec.ports.iter_mut().flatten().for_each(|it| it.node_port = None);
    }
    if loses_health_check {
        drop_same(&mut spec.health_check_node_port, &old.health_check_node_port);
    }
    if loses_balancer {
        let flag = &old.allocate_load_balancer_node_ports;
        drop_same(&mut spec.allocate_load_balancer_node_ports, flag);
        drop_same(&mut spec.load_balancer_class, &old.load_balancer_class);
    }
    if loses_policy {
        drop_same(&mut spec.external_traffic_policy, &old.external_traffic_policy);
    }
    if !is_balanced {
        let status = service.status.get_or_insert_default();
        status.load_balancer = Some(LoadBalancerStatus::default());
    }
}

fn drop_same<T: PartialEq>(field: &mut Option<T>, stored: &Option<T>) {
    if field == stored {
        *field = None;
    }
}
