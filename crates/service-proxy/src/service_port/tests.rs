//! Services and slices in, ports with their endpoints out.

use std::sync::Arc;

use api::Resource as _;
use api::core::service::Service;
use api::discovery::EndpointSlice;
use serde_json::{Value, json};

use super::{ServicePort, service_ports};

const NODE: &str = "here";

/// Endpoints as `10.0.0.1@here ready,serving,!terminating`; a condition that is not named is not
/// set.
fn slice(endpoints: &[&str]) -> Arc<EndpointSlice> {
    let endpoints: Vec<Value> = endpoints
        .iter()
        .map(|text| {
            let (place, words) = text.split_once(' ').unwrap_or((text, ""));
            let (address, node) = place.split_once('@').unwrap();
            let conditions: serde_json::Map<_, _> = words
                .split(',')
                .filter(|it| !it.is_empty())
                .map(|it| (it.trim_start_matches('!').to_owned(), json!(!it.starts_with('!'))))
                .collect();
            json!({"addresses": [address], "nodeName": node, "conditions": conditions})
        })
        .collect();
    let json = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "web-1", "namespace": "default"},
        "ports": [{"name": "http", "port": 8080}, {"name": "other", "port": 1}],
        "endpoints": endpoints,
    });
    Arc::new(EndpointSlice::decode(json.to_string().as_bytes()).unwrap())
}

/// A Service with one port; `spec` is merged into the defaults.
fn ports(spec: Value, status: Value, slices: &[Arc<EndpointSlice>]) -> Vec<ServicePort> {
    let mut whole = json!({
        "type": "ClusterIP", "clusterIP": "10.96.0.10", "clusterIPs": ["10.96.0.10"],
        "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
    });
    let Value::Object(spec) = spec else { panic!("an object") };
    whole.as_object_mut().unwrap().extend(spec);
    let json = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": whole, "status": status,
    });
    let service = Service::decode(json.to_string().as_bytes()).unwrap();
    service_ports(&service, slices, NODE)
}

fn check_endpoints(endpoints: &[&str], cluster: &str, local: &str) {
    let ports = ports(json!({}), json!({}), &[slice(endpoints)]);
    let text = |it: &std::collections::BTreeSet<super::Endpoint>| {
        it.iter().map(|it| format!("{}:{}", it.address, it.port)).collect::<Vec<_>>().join(" ")
    };
    let found = &ports[0].endpoints;
    assert_eq!((text(&found.cluster).as_str(), text(&found.local).as_str()), (cluster, local));
}

#[test]
fn ready_endpoints_take_part_and_terminating_ones_only_if_there_are_no_others() {
    check_endpoints(&[], "", "");
    check_endpoints(
        &["10.0.0.1@here ready", "10.0.0.2@there"],
        "10.0.0.1:8080 10.0.0.2:8080",
        "10.0.0.1:8080",
    );
    check_endpoints(&["10.0.0.1@here !ready", "10.0.0.2@there"], "10.0.0.2:8080", "");
    let leaving = "10.0.0.1@here !ready,serving,terminating";
    check_endpoints(&[leaving], "10.0.0.1:8080", "10.0.0.1:8080");
    check_endpoints(&[leaving, "10.0.0.2@there ready"], "10.0.0.2:8080", "10.0.0.1:8080");
    check_endpoints(&[leaving, "10.0.0.2@here ready"], "10.0.0.2:8080", "10.0.0.2:8080");
    check_endpoints(&["10.0.0.1@here !ready,!serving,terminating"], "", "");
}

#[test]
fn services_that_are_not_ours_have_no_ports() {
    let check = |spec: Value, expected: usize| {
        assert_eq!(ports(spec.clone(), json!({}), &[]).len(), expected, "{spec}");
    };
    check(json!({}), 1);
    check(json!({"clusterIP": "None", "clusterIPs": ["None"]}), 0);
    check(json!({"type": "ExternalName", "externalName": "example.org"}), 0);
    check(json!({"clusterIP": "fd00::1", "clusterIPs": ["fd00::1"]}), 0);
    check(json!({"clusterIP": "fd00::1", "clusterIPs": ["fd00::1", "10.96.0.9"]}), 1);
    let many = json!([{"port": 53, "protocol": "UDP"}, {"port": 9, "protocol": "SCTP"}]);
    check(json!({"ports": many}), 2);
}

#[test]
fn what_a_service_asks_for_is_read() {
    let spec = json!({
        "type": "LoadBalancer", "externalIPs": ["192.0.2.1", "fd00::2"],
        "loadBalancerSourceRanges": ["192.0.2.0/24", " 10.0.0.0/8 ", "fd00::/8"],
        "ports": [{"name": "http", "port": 80, "nodePort": 30080}],
        "sessionAffinity": "ClientIP", "externalTrafficPolicy": "Local",
        "internalTrafficPolicy": "Local",
    });
    let ingress = json!([{"ip": "192.0.2.9"}, {"ip": "192.0.2.8", "ipMode": "Proxy"}]);
    let port = &ports(spec, json!({"loadBalancer": {"ingress": ingress}}), &[])[0];
    let (external, balancer) = (&port.external_ips, &port.load_balancer_ips);
    assert_eq!(format!("{external:?} {balancer:?}"), "{192.0.2.1} {192.0.2.9}");
    assert_eq!(port.source_ranges.len(), 2);
    assert_eq!(port.node_port, Some(30080));
    assert_eq!(port.affinity.map(|it| it.as_secs()), Some(10_800));
    let policies = format!("{:?} {:?}", port.internal_policy, port.external_policy);
    assert_eq!(policies, "Local Local");
}
