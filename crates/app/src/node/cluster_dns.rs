//! The Service `kube-system/kube-dns`, which points to the DNS server of this process.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use apimachinery::{ApiError, User};
use apiserver::Server;
use client::{Api, Client};
use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use stdx::Family;

const NAMESPACE: &str = "kube-system";
const NAME: &str = "kube-dns";
const DNS_PORT: u16 = 53;
/// `kubectl cluster-info` says of Services with this label that they answer at
/// `services/NAME/proxy`. There is no such path here.
const ANSWERS_BY_PROXY: &str = "kubernetes.io/cluster-service";
/// (port's name, protocol)
const PORTS: &[(&str, &str)] = &[("dns", "UDP"), ("dns-tcp", "TCP")];

/// Makes the Service and a slice for each address where DNS listens, or corrects them. The first
/// address is of the family of the ClusterIP.
pub(crate) async fn publish(
    server: &Arc<Server>,
    cluster_ip: IpAddr,
    listens: &[SocketAddr],
) -> Result<(), ApiError> {
    let client: Client = server.client(User::new("xebec:up", &["system:masters"]), "xebec");
    let services = client.api::<Service>();
    match services.get(NAMESPACE, NAME).await {
        Ok(known) => {
            if let Some(corrected) = corrected(&known, listens) {
                services.update(corrected).await?;
            }
        }
        Err(err) if err.is_not_found() => {
            services.create(service(cluster_ip, listens)).await?;
        }
        Err(err) => return Err(err),
    }
    let slices = client.api::<EndpointSlice>();
    for (index, address) in listens.iter().enumerate() {
        publish_slice(&slices, endpoint_slice(index, *address)).await?;
    }
    Ok(())
}

async fn publish_slice(slices: &Api<EndpointSlice>, wanted: EndpointSlice) -> Result<(), ApiError> {
    let name = wanted.metadata.name.clone().unwrap_or_default();
    match slices.get(NAMESPACE, &name).await {
        Ok(known) if known.endpoints == wanted.endpoints && known.ports == wanted.ports => Ok(()),
        Ok(known) => {
            let mut changed = Arc::unwrap_or_clone(known);
            changed.endpoints = wanted.endpoints;
            changed.ports = wanted.ports;
            slices.update(changed).await.map(|_| ())
        }
        Err(err) if err.is_not_found() => slices.create(wanted).await.map(|_| ()),
        Err(err) => Err(err),
    }
}

fn labels(pairs: &[(&str, &str)]) -> Option<BTreeMap<String, String>> {
    Some(pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
}

fn metadata(pairs: &[(&str, &str)]) -> ObjectMeta {
    ObjectMeta {
        name: Some(NAME.to_owned()),
        namespace: Some(NAMESPACE.to_owned()),
        labels: labels(pairs),
        ..ObjectMeta::default()
    }
}

/// The Service of a cluster from when it had the label, or one family.
fn corrected(known: &Service, listens: &[SocketAddr]) -> Option<Service> {
    let mut service = known.clone();
    service.metadata.labels.get_or_insert_default().remove(ANSWERS_BY_PROXY);
    let spec = service.spec.get_or_insert_default();
    if let Some(policy) = policy(listens) {
        spec.ip_family_policy = Some(policy);
    }
    (service != *known).then_some(service)
}

/// `None`: one family, as Services have without saying so.
fn policy(listens: &[SocketAddr]) -> Option<String> {
    (listens.len() > 1).then(|| "PreferDualStack".to_owned())
}

/// Without a selector: its endpoints are ours to write.
fn service(cluster_ip: IpAddr, listens: &[SocketAddr]) -> Service {
    let port = listens.first().map_or(DNS_PORT, SocketAddr::port);
    let port_of = |(name, protocol): &(&str, &str)| ServicePort {
        name: Some((*name).to_owned()),
        port: 53,
        protocol: Some((*protocol).to_owned()),
        target_port: Some(IntOrString::Int(port.into())),
        ..ServicePort::default()
    };
    Service {
        metadata: metadata(&[("k8s-app", "kube-dns"), ("kubernetes.io/name", "CoreDNS")]),
        spec: Some(ServiceSpec {
            cluster_ip: Some(cluster_ip.to_string()),
            ip_family_policy: policy(listens),
            ports: Some(PORTS.iter().map(port_of).collect()),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

/// The first has the name that it had when there was one.
fn endpoint_slice(index: usize, listens: SocketAddr) -> EndpointSlice {
    let port_of = |(name, protocol): &(&str, &str)| EndpointPort {
        name: Some((*name).to_owned()),
        port: Some(listens.port().into()),
        protocol: Some((*protocol).to_owned()),
        ..EndpointPort::default()
    };
    let family = Family::of(listens.ip()).to_string();
    let suffix = if index == 0 { String::new() } else { format!("-{}", family.to_lowercase()) };
    let labels =
        [("kubernetes.io/service-name", NAME), ("endpointslice.kubernetes.io/managed-by", "xebec")];
    EndpointSlice {
        metadata: ObjectMeta { name: Some(format!("{NAME}{suffix}")), ..metadata(&labels) },
        address_type: family,
        endpoints: Some(vec![Endpoint {
            addresses: vec![listens.ip().to_string()],
            conditions: Some(EndpointConditions {
                ready: Some(true),
                serving: Some(true),
                terminating: Some(false),
            }),
            ..Endpoint::default()
        }]),
        ports: Some(PORTS.iter().map(port_of).collect()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::{ANSWERS_BY_PROXY, corrected, endpoint_slice, labels, service};

    fn listens(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|it| it.parse().unwrap()).collect()
    }

    #[test]
    fn the_service_does_not_claim_to_answer_by_proxy() {
        let listens = listens(&["10.244.0.1:53"]);
        let made = service([10, 96, 0, 10].into(), &listens);
        assert_eq!(corrected(&made, &listens), None);
        let mut old = made.clone();
        let claim = labels(&[(ANSWERS_BY_PROXY, "true")]).into_iter().flatten();
        old.metadata.labels.get_or_insert_default().extend(claim);
        assert_eq!(corrected(&old, &listens), Some(made));
    }

    #[test]
    fn a_service_gets_the_family_that_its_cluster_gets() {
        let before = service([10, 96, 0, 10].into(), &listens(&["10.244.0.1:53"]));
        let both = listens(&["10.244.0.1:53", "[fd00::1]:53"]);
        let after = corrected(&before, &both).unwrap();
        assert_eq!(after.spec.unwrap().ip_family_policy.as_deref(), Some("PreferDualStack"));
        let slices = both.iter().enumerate().map(|(index, it)| endpoint_slice(index, *it));
        let names: Vec<_> =
            slices.map(|it| format!("{} {}", it.metadata.name.unwrap(), it.address_type)).collect();
        assert_eq!(names, ["kube-dns IPv4", "kube-dns-ipv6 IPv6"]);
    }
}
