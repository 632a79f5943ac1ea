//! Reservations: nothing is given twice, nothing leaks.

use admission::Reservation as _;
use api::core::Service;
use k8s_openapi::api::core::v1::{ServicePort, ServiceSpec};
use stdx::{Cidr, Random};

use super::allocator::Allocator;

fn services() -> Allocator {
    services_in(&["10.0.0.0/28"])
}

fn services_in(ranges: &[&str]) -> Allocator {
    let cidrs: Vec<Cidr> = ranges.iter().map(|it| it.parse().expect("a range")).collect();
    Allocator::new(&cidrs, 30_000..=30_003, Random::from_seed(1))
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

/// With the addresses that a write would give it.
fn allocated(services: &Allocator, policy: &str, old: Option<&Service>) -> Service {
    let mut service = old.cloned().unwrap_or_else(|| service("ClusterIP", None));
    service.spec.as_mut().expect("a spec").ip_family_policy = Some(policy.to_owned());
    services.reserve(&mut service, old, 1).map(Box::new).expect("free").keep();
    service
}

fn addresses(service: &Service) -> Vec<String> {
    let spec = service.spec.clone().expect("a spec");
    assert_eq!(spec.cluster_ip.as_ref(), spec.cluster_ips.iter().flatten().next());
    spec.cluster_ips.unwrap_or_default()
}

#[test]
fn a_service_of_two_families_has_an_address_of_each_the_clusters_first_one_first() {
    let is_in = |address: &str, range: &str| {
        let range: Cidr = range.parse().expect("a range");
        range.contains(address.parse().expect("an address"))
    };
    let (v4, v6) = ("10.0.0.0/28", "fd00:10:96::/108");
    for ranges in [[v4, v6], [v6, v4]] {
        let services = services_in(&ranges);
        let single = allocated(&services, "SingleStack", None);
        let both = allocated(&services, "RequireDualStack", None);
        let (one, two) = (addresses(&single), addresses(&both));
        assert_eq!((one.len(), two.len()), (1, 2));
        assert!(
            is_in(&one[0], ranges[0]) && is_in(&two[0], ranges[0]) && is_in(&two[1], ranges[1])
        );
        assert_ne!(one[0], two[0]);
        // A second address comes and goes; the first one stays.
        let more = allocated(&services, "PreferDualStack", Some(&single));
        assert_eq!(addresses(&more).first(), one.first());
        assert!(is_in(&addresses(&more)[1], ranges[1]));
        let less = allocated(&services, "SingleStack", Some(&more));
        assert_eq!(addresses(&less), one);
    }
}

#[test]
fn a_range_of_ipv6_may_be_larger_than_what_could_be_walked() {
    let services = services_in(&["fd00::/8"]);
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..100 {
        assert!(seen.insert(addresses(&allocated(&services, "SingleStack", None))));
    }
    let named = |address: &str| {
        let error = services.reserve(&mut service("ClusterIP", Some(address)), None, 1).err();
        error.map(|it| it.message().to_owned()).unwrap_or_default()
    };
    assert_eq!(named("fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"), "", "there are no broadcasts");
    let own = named("fd00::");
    assert!(own.contains("the provided IP (fd00::) is not in the valid range"), "{own}");
    let other = named("10.0.0.3");
    assert!(other.contains("IPv4 is not configured on this cluster"), "{other}");
}

#[test]
fn one_family_that_is_full_gives_nothing_of_the_other() {
    let services = services_in(&["10.0.0.0/28", "fd00::/126"]);
    let held: Vec<_> = (0..3).map(|_| allocated(&services, "RequireDualStack", None)).collect();
    let mut another = service("ClusterIP", None);
    another.spec.as_mut().expect("a spec").ip_family_policy = Some("RequireDualStack".to_owned());
    let error = services.reserve(&mut another, None, 1).err().expect("full");
    assert!(error.message().contains("failed to allocate IP: range is full"), "{error}");
    // Of fourteen addresses three are held, and the one that was taken beside came back.
    for _ in 0..11 {
        drop(allocated(&services, "SingleStack", None));
    }
    assert!(services.reserve(&mut service("ClusterIP", None), None, 1).is_err());
    drop(held);
}
