//! What is allowed in a Service but does nothing, or not for long: upstream's rules, in its words
//! and order (pkg/api/service/warnings.go).

use apimachinery::field::Path;

use super::Service;
use super::annotations::{TOPOLOGY_HINTS, TOPOLOGY_MODE};
use crate::addresses;
use crate::check::text;

const EXTERNAL_NAME: &str = "ExternalName";

pub(super) fn of(service: &Service) -> Vec<String> {
    let mut warnings = Vec::new();
    if service.metadata.annotations.as_ref().is_some_and(|it| it.contains_key(TOPOLOGY_HINTS)) {
        warnings.push(format!(
            "annotation {TOPOLOGY_HINTS} is deprecated, please use {TOPOLOGY_MODE} instead"
        ));
    }
    let Some(spec) = &service.spec else { return warnings };
    let path = Path::new("spec");
    let (type_, cluster_ip) = (text(spec.type_.as_ref()), text(spec.cluster_ip.as_ref()));
    let external_ips = spec.external_ips.as_deref().unwrap_or_default();
    let load_balancer_ip = text(spec.load_balancer_ip.as_ref());
    let is_headless = type_ == "ClusterIP" && cluster_ip == "None";
    let of_ips = |field: &str, ips: &[String], warnings: &mut Vec<String>| {
        for (index, ip) in ips.iter().enumerate() {
            warnings.extend(addresses::ip_warnings(ip, &path.child(field).index(index)));
        }
    };
    if !cluster_ip.is_empty() && cluster_ip != "None" {
        of_ips("clusterIPs", spec.cluster_ips.as_deref().unwrap_or_default(), &mut warnings);
    }
    if is_headless {
        let ignored = [
            (!load_balancer_ip.is_empty(), "loadBalancerIP"),
            (!external_ips.is_empty(), "externalIPs"),
            (text(spec.session_affinity.as_ref()) != "None", "SessionAffinity"),
        ];
        for (_, field) in ignored.into_iter().filter(|it| it.0) {
            warnings.push(format!("spec.{field} is ignored for headless services"));
        }
    }
    of_ips("externalIPs", external_ips, &mut warnings);
    if !external_ips.is_empty() && !is_headless && type_ != EXTERNAL_NAME {
        let why = "is deprecated and may no longer be implemented in some clusters";
        warnings.push(format!("spec.externalIPs {why}"));
    }
    if !load_balancer_ip.is_empty() {
        let path = path.child("loadBalancerIP");
        warnings.extend(addresses::ip_warnings(load_balancer_ip, &path));
    }
    for (index, range) in spec.load_balancer_source_ranges.iter().flatten().enumerate() {
        let path = path.child("loadBalancerSourceRanges").index(index);
        warnings.extend(addresses::cidr_warnings(range, &path));
    }
    if type_ == EXTERNAL_NAME && !external_ips.is_empty() {
        warnings.push(format!("spec.externalIPs is ignored when spec.type is {EXTERNAL_NAME:?}"));
    }
    if type_ != EXTERNAL_NAME && !text(spec.external_name.as_ref()).is_empty() {
        warnings
            .push(format!("spec.externalName is ignored when spec.type is not {EXTERNAL_NAME:?}"));
    }
    if spec.traffic_distribution.as_deref() == Some("PreferClose") {
        let why = "\"PreferClose\" is deprecated; use \"PreferSameZone\"";
        warnings.push(format!("spec.trafficDistribution: {why}"));
    }
    warnings
}

pub(super) fn of_status(service: &Service) -> Vec<String> {
    let status = service.status.as_ref().and_then(|it| it.load_balancer.as_ref());
    let points = status.into_iter().flat_map(|it| it.ingress.iter().flatten()).enumerate();
    let path = Path::new("status.loadBalancer.ingress");
    let addresses = points.map(|(index, it)| (index, text(it.ip.as_ref())));
    addresses.flat_map(|(index, ip)| addresses::ip_warnings(ip, &path.index(index))).collect()
}
