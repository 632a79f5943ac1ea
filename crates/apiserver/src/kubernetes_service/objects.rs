//! The Service `kubernetes` and what it points to.

use api::core::{Endpoints, Service};
use api::discovery::EndpointSlice;
use k8s_openapi::api::core::v1::{
    EndpointAddress, EndpointPort as CorePort, EndpointSubset, ServicePort, ServiceSpec,
};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use stdx::Family;

use super::Servers;
use crate::pipeline::Core;

fn metadata(pairs: &[(&str, &str)]) -> ObjectMeta {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    ObjectMeta {
        name: Some("kubernetes".to_owned()),
        namespace: Some("default".to_owned()),
        labels: Some(pairs.iter().map(owned).collect()),
        ..ObjectMeta::default()
    }
}

pub(crate) fn service(core: &Core) -> Service {
    let address = core.config.kubernetes_address();
    let family = address.map_or(Family::V4, Family::of);
    let address = address.map(|it| it.to_string());
    Service {
        metadata: metadata(&[("component", "apiserver"), ("provider", "kubernetes")]),
        spec: Some(ServiceSpec {
            cluster_ip: address.clone(),
            cluster_ips: address.map(|it| vec![it]),
            internal_traffic_policy: Some("Cluster".to_owned()),
            ip_families: Some(vec![family.to_string()]),
            ip_family_policy: Some("SingleStack".to_owned()),
            ports: Some(vec![ServicePort {
                name: Some("https".to_owned()),
                port: 443,
                protocol: Some("TCP".to_owned()),
                target_port: Some(IntOrString::Int(core.config.advertise.port().into())),
                ..ServicePort::default()
            }]),
            session_affinity: Some("None".to_owned()),
            type_: Some("ClusterIP".to_owned()),
            ..ServiceSpec::default()
        }),
        status: Some(Default::default()),
    }
}

pub(super) fn endpoints(servers: &Servers) -> Endpoints {
    let addresses = servers
        .addresses
        .iter()
        .map(|it| EndpointAddress { ip: it.to_string(), ..EndpointAddress::default() });
    Endpoints {
        metadata: metadata(&[("endpointslice.kubernetes.io/skip-mirror", "true")]),
        subsets: Some(vec![EndpointSubset {
            addresses: Some(addresses.collect()),
            not_ready_addresses: None,
            ports: Some(vec![CorePort {
                name: Some("https".to_owned()),
                port: servers.port.into(),
                protocol: Some("TCP".to_owned()),
                ..CorePort::default()
            }]),
        }]),
    }
}

pub(super) fn endpoint_slice(servers: &Servers) -> EndpointSlice {
    let endpoints = servers.addresses.iter().map(|it| Endpoint {
        addresses: vec![it.to_string()],
        conditions: Some(EndpointConditions { ready: Some(true), ..EndpointConditions::default() }),
        ..Endpoint::default()
    });
    EndpointSlice {
        metadata: metadata(&[("kubernetes.io/service-name", "kubernetes")]),
        address_type: servers.family().to_string(),
        endpoints: Some(endpoints.collect()),
        ports: Some(vec![EndpointPort {
            name: Some("https".to_owned()),
            port: Some(servers.port.into()),
            protocol: Some("TCP".to_owned()),
            ..EndpointPort::default()
        }]),
    }
}
