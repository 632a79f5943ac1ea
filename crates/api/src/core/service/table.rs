//! Services in `kubectl get`.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use serde_json::Value;

use apimachinery::table::Column;

use crate::cell;
use crate::check::text;

pub(super) const COLUMNS: &[Column] = &[
    Column::name(),
    Column::new("Type", "string"),
    Column::new("Cluster-IP", "string"),
    Column::new("External-IP", "string"),
    Column::new("Port(s)", "string"),
    Column::new("Age", "string"),
    Column::new("Selector", "string").wide(),
];

pub(super) fn row(service: &Service, now: Timestamp) -> Vec<Value> {
    let absent = ServiceSpec::default();
    let spec = service.spec.as_ref().unwrap_or(&absent);
    let ports: Vec<String> = spec.ports.iter().flatten().map(port).collect();
    vec![
        cell::name(&service.metadata),
        Value::from(text(spec.type_.as_ref())),
        cell::or_none(text(spec.cluster_ips.iter().flatten().next())),
        Value::from(external(service, spec)),
        cell::or_none(&ports.join(",")),
        cell::age(&service.metadata, now),
        cell::labels(spec.selector.as_ref()),
    ]
}

fn port(port: &ServicePort) -> String {
    let protocol = text(port.protocol.as_ref());
    match port.node_port.unwrap_or(0) {
        0 => format!("{}/{protocol}", port.port),
        node_port => format!("{}:{node_port}/{protocol}", port.port),
    }
}

fn external(service: &Service, spec: &ServiceSpec) -> String {
    let own = spec.external_ips.as_deref().unwrap_or_default();
    let or = |addresses: Vec<String>, absent: &str| match addresses.join(",") {
        text if text.is_empty() => absent.to_owned(),
        text => text,
    };
    match text(spec.type_.as_ref()) {
        "ClusterIP" | "NodePort" => or(own.to_vec(), "<none>"),
        "LoadBalancer" => {
            let mut addresses = balanced(service);
            addresses.extend_from_slice(own);
            or(addresses, "<pending>")
        }
        "ExternalName" => text(spec.external_name.as_ref()).to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

/// Addresses and host names of load balancers, sorted, each once.
fn balanced(service: &Service) -> Vec<String> {
    let balancer = service.status.iter().filter_map(|it| it.load_balancer.as_ref());
    let mut addresses: Vec<String> = balancer
        .flat_map(|it| it.ingress.iter().flatten())
        .filter_map(|it| match text(it.ip.as_ref()) {
            "" => it.hostname.clone(),
            ip => Some(ip.to_owned()),
        })
        .filter(|it| !it.is_empty())
        .collect();
    addresses.sort();
    addresses.dedup();
    addresses
}
