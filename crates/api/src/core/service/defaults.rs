//! What a Service is when it does not say.

use k8s_openapi::api::core::v1::{ClientIPConfig, Service, SessionAffinityConfig};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::allocation::is_externally_accessible;
use crate::check::text;

const AFFINITY_SECONDS: i32 = 10_800;

pub(super) fn apply(service: &mut Service) {
    let spec = service.spec.get_or_insert_default();
    if text(spec.type_.as_ref()).is_empty() {
        spec.type_ = Some("ClusterIP".to_owned());
    }
    if text(spec.session_affinity.as_ref()).is_empty() {
        spec.session_affinity = Some("None".to_owned());
    }
    match text(spec.session_affinity.as_ref()) {
        "None" => spec.session_affinity_config = None,
        "ClientIP" => {
            let client = spec
                .session_affinity_config
                .get_or_insert_with(SessionAffinityConfig::default)
                .client_ip
                .get_or_insert_with(ClientIPConfig::default);
            client.timeout_seconds.get_or_insert(AFFINITY_SECONDS);
        }
        _ => {}
    }
    for port in spec.ports.iter_mut().flatten() {
        if text(port.protocol.as_ref()).is_empty() {
            port.protocol = Some("TCP".to_owned());
        }
        let is_unset = match &port.target_port {
            None | Some(IntOrString::Int(0)) => true,
            Some(IntOrString::String(name)) => name.is_empty(),
            Some(IntOrString::Int(_)) => false,
        };
        if is_unset {
            port.target_port = Some(IntOrString::Int(port.port));
        }
        port.node_port = port.node_port.filter(|it| *it != 0);
        port.name = port.name.take().filter(|it| !it.is_empty());
    }
    spec.cluster_ip = spec.cluster_ip.take().filter(|it| !it.is_empty());
    let type_ = text(spec.type_.as_ref()).to_owned();
    if ["ClusterIP", "NodePort", "LoadBalancer"].contains(&type_.as_str()) {
        spec.internal_traffic_policy.get_or_insert_with(|| "Cluster".to_owned());
    }
    if type_ == "LoadBalancer" {
        spec.allocate_load_balancer_node_ports.get_or_insert(true);
    }
    if is_externally_accessible(spec) && text(spec.external_traffic_policy.as_ref()).is_empty() {
        spec.external_traffic_policy = Some("Cluster".to_owned());
    }
    let balancer = service.status.as_mut().and_then(|it| it.load_balancer.as_mut());
    for ingress in balancer.into_iter().flat_map(|it| it.ingress.iter_mut().flatten()) {
        if type_ == "LoadBalancer" && !text(ingress.ip.as_ref()).is_empty() {
            ingress.ip_mode.get_or_insert_with(|| "VIP".to_owned());
        }
    }
}
