//! The Service `kube-system/kube-dns`, which points to the DNS server of this process.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use apimachinery::{ApiError, User};
use apiserver::Server;
use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

const NAMESPACE: &str = "kube-system";
const NAME: &str = "kube-dns";
/// `kubectl cluster-info` says of Services with this label that they answer at
/// `services/NAME/proxy`. There is no such path here.
const ANSWERS_BY_PROXY: &str = "kubernetes.io/cluster-service";
/// (port's name, protocol)
const PORTS: &[(&str, &str)] = &[("dns", "UDP"), ("dns-tcp", "TCP")];

/// Makes both objects, or corrects them.
pub(crate) async fn publish(
    server: &Arc<Server>,
    cluster_ip: Ipv4Addr,
    listens: SocketAddr,
) -> Result<(), ApiError> {
    let client = server.client(User::new("xebec:up", &["system:masters"]), "xebec");
    let services = client.api::<Service>();
    match services.get(NAMESPACE, NAME).await {
        Ok(known) => {
            if let Some(corrected) = without_claim(&known) {
                services.update(corrected).await?;
            }
        }
        Err(err) if err.is_not_found() => {
            services.create(service(cluster_ip, listens.port())).await?;
        }
        Err(err) => return Err(err),
    }
    let slices = client.api::<EndpointSlice>();
    let wanted = endpoint_slice(listens);
    match slices.get(NAMESPACE, NAME).await {
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

/// The Service of a cluster from when it had the label.
fn without_claim(service: &Service) -> Option<Service> {
    let mut service = service.clone();
    service.metadata.labels.as_mut()?.remove(ANSWERS_BY_PROXY)?;
    Some(service)
}

/// Without a selector: its endpoints are ours to write.
fn service(cluster_ip: Ipv4Addr, port: u16) -> Service {
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
            ports: Some(PORTS.iter().map(port_of).collect()),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

fn endpoint_slice(listens: SocketAddr) -> EndpointSlice {
    let port_of = |(name, protocol): &(&str, &str)| EndpointPort {
        name: Some((*name).to_owned()),
        port: Some(listens.port().into()),
        protocol: Some((*protocol).to_owned()),
        ..EndpointPort::default()
    };
    EndpointSlice {
        metadata: metadata(&[
            ("kubernetes.io/service-name", NAME),
            ("endpointslice.kubernetes.io/managed-by", "xebec"),
        ]),
        address_type: "IPv4".to_owned(),
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
    use super::{ANSWERS_BY_PROXY, Ipv4Addr, labels, service, without_claim};

    #[test]
    fn the_service_does_not_claim_to_answer_by_proxy() {
        let made = service(Ipv4Addr::new(10, 96, 0, 10), 53);
        assert_eq!(without_claim(&made), None);
        let mut old = made.clone();
        let claim = labels(&[(ANSWERS_BY_PROXY, "true")]).into_iter().flatten();
        old.metadata.labels.get_or_insert_default().extend(claim);
        assert_eq!(without_claim(&old), Some(made));
    }
}
