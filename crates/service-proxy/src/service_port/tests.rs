//! Services and slices in, ports with their endpoints out.

use std::sync::Arc;

use api::Resource as _;
use api::core::service::Service;
use api::discovery::EndpointSlice;
use serde_json::{Value, json};

use super::{Place, ServicePort, service_ports};

const NODE: &str = "here";

/// Endpoints as `10.0.0.1@here ready,serving,!terminating`; a condition that is not named is not
/// set. Hints are named like conditions: `zone=a`, `node=here`.
fn slice(texts: &[&str]) -> Arc<EndpointSlice> {
    let endpoints: Vec<Value> = texts
        .iter()
        .map(|text| {
            let (place, words) = text.split_once(' ').unwrap_or((text, ""));
            let (address, node) = place.split_once('@').unwrap();
            let words = words.split(',').filter(|it| !it.is_empty());
            let hinted = |sort: &str| -> Vec<Value> {
                let named = words.clone().filter_map(|it| it.strip_prefix(sort));
                named.map(|it| json!({ "name": it })).collect()
            };
            let hints = json!({"forZones": hinted("zone="), "forNodes": hinted("node=")});
            let conditions: serde_json::Map<_, _> = words
                .clone()
                .filter(|it| !it.contains('='))
                .map(|it| (it.trim_start_matches('!').to_owned(), json!(!it.starts_with('!'))))
                .collect();
            json!({
                "addresses": [address], "nodeName": node, "conditions": conditions, "hints": hints,
            })
        })
        .collect();
    let is_ipv6 = |it: &&str| it.split('@').next().unwrap().contains(':');
    let family = if texts.iter().any(is_ipv6) { "IPv6" } else { "IPv4" };
    let json = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": family,
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
    let place = Place { node_name: NODE.to_owned(), zone: "a".to_owned() };
    service_ports(&service, slices, &place)
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
fn hints_count_when_all_ready_endpoints_have_them_and_one_is_for_this_place() {
    let (a, b) = ("10.0.0.1@here zone=a", "10.0.0.2@there zone=b");
    let all = "10.0.0.1:8080 10.0.0.2:8080";
    let (first, second) = ("10.0.0.1:8080", "10.0.0.2:8080");
    check_endpoints(&[a, b], first, first);
    check_endpoints(&[a, "10.0.0.2@there zone=a,zone=b"], all, first);
    // One without: nobody knows who gets what.
    check_endpoints(&[a, "10.0.0.2@there"], all, first);
    // None for this zone.
    check_endpoints(&["10.0.0.1@here zone=b", b], all, first);
    // What is not ready has no say, and gets nothing.
    check_endpoints(&[a, b, "10.0.0.3@here !ready"], first, first);
    check_endpoints(&["10.0.0.1@here zone=a,!ready,serving,terminating", b], second, first);
    check_endpoints(&["10.0.0.1@here zone=b,!ready,serving,terminating"], first, first);
}

#[test]
fn hints_for_nodes_come_before_those_for_zones() {
    let (first, all) = ("10.0.0.1:8080", "10.0.0.1:8080 10.0.0.2:8080");
    let here = "10.0.0.1@here zone=a,node=here";
    check_endpoints(&[here, "10.0.0.2@there zone=a,node=there"], first, first);
    // None of them is for this node: the zone's are.
    let other = "10.0.0.2@there zone=a,node=there";
    check_endpoints(&["10.0.0.1@else zone=a,node=else", other], all, "");
    check_endpoints(
        &["10.0.0.1@else zone=a,node=else", "10.0.0.2@there zone=b,node=there"],
        first,
        "",
    );
    // One has no node: the zone's are.
    check_endpoints(&[here, "10.0.0.2@there zone=a"], all, first);
}

#[test]
fn a_node_without_a_zone_has_no_hints_for_it() {
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"clusterIP": "10.96.0.10", "ports": [{"name": "http", "port": 80}]},
    });
    let service = Service::decode(service.to_string().as_bytes()).unwrap();
    let place = Place { node_name: NODE.to_owned(), zone: String::new() };
    let slices = [slice(&["10.0.0.1@here zone=a", "10.0.0.2@there zone=b"])];
    assert_eq!(service_ports(&service, &slices, &place)[0].endpoints.cluster.len(), 2);
}

#[test]
fn services_that_are_not_ours_have_no_ports() {
    let check = |spec: Value, expected: usize| {
        assert_eq!(ports(spec.clone(), json!({}), &[]).len(), expected, "{spec}");
    };
    check(json!({}), 1);
    check(json!({"clusterIP": "None", "clusterIPs": ["None"]}), 0);
    check(json!({"type": "ExternalName", "externalName": "example.org"}), 0);
    check(json!({"clusterIP": "fd00::1", "clusterIPs": ["fd00::1"]}), 1);
    check(json!({"clusterIP": "fd00::1", "clusterIPs": ["fd00::1", "10.96.0.9"]}), 2);
    check(json!({"clusterIP": "10.96.0.9", "clusterIPs": null}), 1);
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
    let status = json!({"loadBalancer": {"ingress": ingress}});
    let port = &ports(spec, status, &[])[0];
    let (external, balancer) = (&port.external_ips, &port.load_balancer_ips);
    assert_eq!(format!("{external:?} {balancer:?}"), "{192.0.2.1} {192.0.2.9}");
    let ranges: Vec<_> = port.source_ranges.iter().flatten().map(ToString::to_string).collect();
    assert_eq!(ranges, ["10.0.0.0/8", "192.0.2.0/24"]);
    assert_eq!(port.node_port, Some(30080));
    assert_eq!(port.affinity.map(|it| it.as_secs()), Some(10_800));
    let policies = format!("{:?} {:?}", port.internal_policy, port.external_policy);
    assert_eq!(policies, "Local Local");
}

#[test]
fn each_family_has_its_own_addresses_and_endpoints() {
    let spec = json!({
        "type": "LoadBalancer", "clusterIP": "fd00::a", "clusterIPs": ["fd00::a", "10.96.0.10"],
        "externalIPs": ["192.0.2.1", "2001:db8::1"], "loadBalancerSourceRanges": ["192.0.2.7/24"],
        "ports": [{"name": "http", "port": 80, "nodePort": 30080}],
    });
    let ingress = json!([{"ip": "192.0.2.9"}, {"ip": "2001:db8::9"}]);
    let slices = [slice(&["10.0.0.1@here"]), slice(&["fd01::1@here", "fd01::2@there"])];
    let ports = ports(spec, json!({"loadBalancer": {"ingress": ingress}}), &slices);
    let text = |it: &ServicePort| {
        let ranges: Option<Vec<_>> =
            it.source_ranges.as_ref().map(|it| it.iter().map(ToString::to_string).collect());
        let endpoints: Vec<_> = it.endpoints.cluster.iter().map(|it| it.address).collect();
        format!(
            "{} node {:?} external {:?} balancer {:?} from {ranges:?} to {endpoints:?}",
            it.cluster_ip, it.node_port, it.external_ips, it.load_balancer_ips
        )
    };
    assert_eq!(
        ports.iter().map(text).collect::<Vec<_>>(),
        [
            "fd00::a node Some(30080) external {2001:db8::1} balancer {2001:db8::9} \
             from Some([]) to [fd01::1, fd01::2]",
            "10.96.0.10 node Some(30080) external {192.0.2.1} balancer {192.0.2.9} \
             from Some([\"192.0.2.0/24\"]) to [10.0.0.1]",
        ]
    );
}

#[test]
fn an_endpoint_of_two_families_counts_once() {
    let ipv4 = slice(&["10.0.0.1@here", "10.0.0.2@here", "10.0.0.3@there"]);
    let ipv6 = slice(&["fd01::1@here", "fd01::2@here !ready"]);
    assert_eq!(super::n_ready_local(&[ipv4, ipv6.clone()], NODE), 2);
    assert_eq!(super::n_ready_local(&[ipv6], NODE), 1);
    assert_eq!(super::n_ready_local(&[], NODE), 0);
}
