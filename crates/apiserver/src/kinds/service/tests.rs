//! Reservations: nothing is given twice, nothing leaks.

use admission::Reservation as _;
use api::core::Service;
use k8s_openapi::api::core::v1::{ServicePort, ServiceSpec};
use stdx::Random;

use super::allocator::Allocator;
use crate::config::ServiceCidr;

fn services() -> Allocator {
    let cidr = ServiceCidr::parse("10.0.0.0/28").expect("a CIDR");
    Allocator::new(cidr, 30_000..=30_003, Random::from_seed(1))
}

fn service(kind: &str, address: Option<&str>) -> Service {
    let spec = ServiceSpec {
        type_: Some(kind.to_owned()),
        cluster_ip: address.map(str::to_owned),
        ports: Some(vec![ServicePort { port: 80, ..ServicePort::default() }]),
        ..ServiceSpec::default()
    };
    Service { spec: Some(spec), ..Service::default() }
}

#[test]
fn addresses_and_ports_are_given_once_and_come_back_when_the_write_fails() {
    let services = services();
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push(services.reserve(&mut service("NodePort", None), None, 1).expect("free"));
    }
    let error = services.reserve(&mut service("NodePort", None), None, 1).err().expect("full");
    assert!(error.message().contains("failed to allocate a nodePort"), "{error}");
    drop(held);
    assert!(services.reserve(&mut service("NodePort", None), None, 1).is_ok());
}

#[test]
fn an_address_that_somebody_has_is_refused() {
    let services = services();
    let first = services.reserve(&mut service("ClusterIP", Some("10.0.0.3")), None, 1);
    first.map(Box::new).expect("free").keep();
    let error = services.reserve(&mut service("ClusterIP", Some("10.0.0.3")), None, 1).err();
    assert!(error.expect("taken").message().contains("provided IP is already allocated"));
    let error = services.reserve(&mut service("ClusterIP", Some("10.1.0.3")), None, 1).err();
    assert!(error.expect("outside").message().contains("is not in the valid range"));
}

#[test]
fn a_balanced_service_with_local_traffic_has_a_port_for_health_checks() {
    let services = services();
    let balanced = |health_check: Option<i32>| {
        let mut service = service("LoadBalancer", None);
        let spec = service.spec.as_mut().expect("a spec");
        spec.external_traffic_policy = Some("Local".to_owned());
        spec.health_check_node_port = health_check;
        service
    };
    let mut first = balanced(None);
    services.reserve(&mut first, None, 1).map(Box::new).expect("free").keep();
    let spec = first.spec.clone().expect("a spec");
    let node_port = spec.ports.expect("ports")[0].node_port;
    let health_check = spec.health_check_node_port;
    assert!(health_check.is_some_and(|it| (30_000..=30_003).contains(&it)), "{health_check:?}");
    assert_ne!(health_check, node_port);

    // It stays, nobody else gets it, and it takes no node port of its own Service.
    services.reserve(&mut first.clone(), Some(&first), 2).map(Box::new).expect("kept").keep();
    let error = services.reserve(&mut balanced(health_check), None, 2).err().expect("taken");
    let message = error.message();
    assert!(message.contains("healthCheckNodePort") && message.contains("already allocated"));
    let error = services.reserve(&mut balanced(Some(80)), None, 2).err().expect("outside");
    assert!(error.message().contains("The range of valid ports is 30000-30003"), "{error}");
}

#[test]
fn a_service_without_address_and_selector_may_have_endpoints_of_both_families() {
    let services = services();
    let families = |mut service: Service| {
        services.reserve(&mut service, None, 1).map(Box::new).expect("free").keep();
        let spec = service.spec.expect("a spec");
        (spec.ip_family_policy.unwrap_or_default(), spec.ip_families.unwrap_or_default().join(","))
    };
    let pair = |policy: &str, families: &str| (policy.to_owned(), families.to_owned());
    assert_eq!(families(service("ClusterIP", None)), pair("SingleStack", "IPv4"));
    let headless = service("ClusterIP", Some("None"));
    assert_eq!(families(headless.clone()), pair("RequireDualStack", "IPv4,IPv6"));
    let mut selecting = headless;
    let labels = [("a".to_owned(), "b".to_owned())];
    selecting.spec.as_mut().expect("a spec").selector = Some(labels.into());
    assert_eq!(families(selecting), pair("SingleStack", "IPv4"));
}
