//! Reservations: nothing is given twice, nothing leaks.

use api::core::Service;
use k8s_openapi::api::core::v1::{ServicePort, ServiceSpec};
use stdx::Random;

use super::{ServiceCidr, Services};

fn services() -> Services {
    let cidr = ServiceCidr::parse("10.0.0.0/28").expect("a CIDR");
    Services::new(cidr, 30_000..=30_003, Random::from_seed(1))
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
    first.expect("free").keep();
    let error = services.reserve(&mut service("ClusterIP", Some("10.0.0.3")), None, 1).err();
    assert!(error.expect("taken").message().contains("provided IP is already allocated"));
    let error = services.reserve(&mut service("ClusterIP", Some("10.1.0.3")), None, 1).err();
    assert!(error.expect("outside").message().contains("is not in the valid range"));
}
