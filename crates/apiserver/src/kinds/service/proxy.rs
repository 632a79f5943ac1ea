//! HTTP to one of the pods behind a Service: `services/[https:]name[:port]/proxy/path`, where the
//! port is one of the Service, by number or by name.

use std::sync::Arc;

use api::core::{Endpoints, Node, Pod, Service};
use apimachinery::{ApiError, Reason};
use http::Response;
use k8s_openapi::api::core::v1::{EndpointAddress, EndpointSubset};
use stdx::Random;

use crate::kubelets::refuse_simulated;
use crate::pipeline::Core;
use crate::pipeline::hooks::{Exchange, StreamBody};
use crate::proxy::{self, Named, Target};

pub(super) async fn connect(
    core: &Arc<Core>,
    exchange: Exchange,
) -> Result<Response<StreamBody>, ApiError> {
    let asked = exchange.request.name().to_owned();
    let namespace = exchange.request.namespace().to_owned();
    let named = Named::parse(&asked)
        .ok_or_else(|| ApiError::bad_request(format!("invalid service request {asked:?}")))?;
    core.cache.wait_current().await?;
    let port = match named.port.parse::<i64>() {
        Err(_) => named.port.to_owned(),
        Ok(number) => {
            let service = core.find_shared::<Service>(&namespace, named.name)?;
            name_of(&service, number).ok_or_else(|| {
                let name = named.name;
                unavailable(format!("no service port {number} found for service {name:?}"))
            })?
        }
    };
    let endpoints = core.find_shared::<Endpoints>(&namespace, named.name)?;
    let subsets = endpoints.subsets.as_deref().unwrap_or_default();
    if subsets.is_empty() {
        return Err(unavailable(format!("no endpoints available for service {:?}", named.name)));
    }
    let is_pod = |it: &EndpointAddress| is_pod(core, &namespace, it);
    let (address, port) = pick(subsets, &port, &core.world.random, is_pod)
        .ok_or_else(|| unavailable(format!("no endpoints available for service {asked:?}")))?;
    let target = Target::new(&address, Some(port), proxy::tls(named.is_https)?)?;
    proxy::forward(core, &target, exchange).await
}

fn unavailable(why: String) -> ApiError {
    ApiError::new(Reason::ServiceUnavailable, why)
}

fn name_of(service: &Service, number: i64) -> Option<String> {
    let mut ports = service.spec.iter().flat_map(|it| it.ports.iter().flatten());
    let port = ports.find(|it| i64::from(it.port) == number)?;
    Some(port.name.clone().unwrap_or_default())
}

/// One of those that have the port, by chance.
fn pick(
    subsets: &[EndpointSubset],
    port: &str,
    random: &Random,
    is_pod: impl Fn(&EndpointAddress) -> bool,
) -> Option<(String, u16)> {
    let with_port = subsets.iter().filter_map(|subset| {
        let ports = subset.ports.as_deref().unwrap_or_default();
        let found = ports.iter().find(|it| it.name.as_deref().unwrap_or_default() == port)?;
        Some((subset.addresses.as_deref()?, u16::try_from(found.port).ok()?))
    });
    let all: Vec<_> = with_port
        .flat_map(|(addresses, port)| addresses.iter().map(move |it| (it, port)))
        .collect();
    let start = random.below(all.len().max(1) as u64) as usize;
    let in_turn = all[start..].iter().chain(&all[..start]);
    in_turn.filter(|it| is_pod(it.0)).map(|it| (it.0.ip.clone(), it.1)).next()
}

/// Whoever writes endpoints does not decide what this server calls: only a pod's own address is
/// called, of a pod that is there.
fn is_pod(core: &Core, namespace: &str, address: &EndpointAddress) -> bool {
    let Some(target) = &address.target_ref else { return false };
    if target.namespace.as_deref() != Some(namespace) {
        return false;
    }
    let name = target.name.as_deref().unwrap_or_default();
    let Ok(pod) = core.find_shared::<Pod>(namespace, name) else { return false };
    let node = pod.spec.as_ref().and_then(|it| it.node_name.as_deref()).unwrap_or_default();
    let node = core.find_shared::<Node>("", node);
    if node.is_ok_and(|it| refuse_simulated(&it).is_err()) {
        return false;
    }
    let addresses = pod.status.iter().flat_map(|it| it.pod_ips.iter().flatten());
    addresses.into_iter().any(|it| it.ip == address.ip)
}

#[cfg(test)]
mod tests {
    use api::Resource as _;
    use serde_json::json;

    use super::*;

    #[test]
    fn only_pods_with_the_port_are_picked() {
        let endpoints = Endpoints::decode(
            json!({"subsets": [
                {"addresses": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}], "ports": [{"name": "web", "port": 80}]},
                {"addresses": [{"ip": "10.0.0.3"}], "ports": [{"name": "web", "port": 81}, {"port": 82}]},
                {"notReadyAddresses": [{"ip": "10.0.0.4"}], "ports": [{"name": "web", "port": 80}]},
            ]})
            .to_string()
            .as_bytes(),
        )
        .unwrap();
        let subsets = endpoints.subsets.unwrap();
        let random = Random::from_seed(7);
        let picked = |port: &str, except: &str| {
            let mut seen: Vec<String> = (0..200)
                .filter_map(|_| pick(&subsets, port, &random, |it| it.ip != except))
                .map(|(address, port)| format!("{address}:{port}"))
                .collect();
            seen.sort();
            seen.dedup();
            seen.join(" ")
        };
        assert_eq!(picked("web", ""), "10.0.0.1:80 10.0.0.2:80 10.0.0.3:81");
        assert_eq!(picked("web", "10.0.0.1"), "10.0.0.2:80 10.0.0.3:81");
        assert_eq!(picked("", ""), "10.0.0.3:82");
        assert_eq!(picked("other", ""), "");
    }

    #[test]
    fn a_number_is_a_port_of_the_service() {
        let service = Service::decode(
            json!({"spec": {"ports": [{"name": "web", "port": 80, "targetPort": 8080}]}})
                .to_string()
                .as_bytes(),
        )
        .unwrap();
        assert_eq!(name_of(&service, 80).as_deref(), Some("web"));
        assert_eq!(name_of(&service, 8080), None);
    }
}
