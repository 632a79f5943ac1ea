//! Where a server behind a Service is, or what is missing. Pure.

use api::apiregistration::api_service::availability::Verdict;
use api::core::Service;
use api::discovery::EndpointSlice;

use crate::aggregated::Remote;

/// One address that a Service leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    pub(super) address: String,
    pub(super) port: u16,
    /// The pod whose address it is said to be.
    pub(super) pod: Option<String>,
}

/// Those that are ready, of which there is at least one.
pub(super) fn find(
    remote: &Remote,
    service: Option<&Service>,
    slices: &[impl AsRef<EndpointSlice>],
) -> Result<Vec<Endpoint>, Verdict> {
    let (name, namespace, port) = (&remote.service, &remote.namespace, remote.port);
    let Some(service) = service else {
        let message = format!("service/{name} in {namespace:?} is not present");
        return Err(Verdict::refused("ServiceNotFound", message));
    };
    let spec = service.spec.as_ref();
    if spec.and_then(|it| it.type_.as_deref()) == Some("ExternalName") {
        let message = format!(
            "service/{name} in {namespace:?} is of the type ExternalName, which is not called"
        );
        return Err(Verdict::refused("FailedDiscoveryCheck", message));
    }
    let mut ports = spec.into_iter().flat_map(|it| it.ports.iter().flatten());
    let Some(found) = ports.find(|it| it.port == i32::from(port)) else {
        let message = format!("service/{name} in {namespace:?} is not listening on port {port}");
        return Err(Verdict::refused("ServicePortError", message));
    };
    if slices.is_empty() {
        let message = format!("cannot find endpointslices for service/{name} in {namespace:?}");
        return Err(Verdict::refused("EndpointsNotFound", message));
    }
    let port_name = found.name.as_deref().unwrap_or_default();
    let endpoints: Vec<Endpoint> =
        slices.iter().flat_map(|it| ready(it.as_ref(), port_name)).collect();
    if endpoints.is_empty() {
        let message = format!(
            "endpointslices for service/{name} in {namespace:?} have no addresses with port name {port_name:?}"
        );
        return Err(Verdict::refused("MissingEndpoints", message));
    }
    Ok(endpoints)
}

fn ready(slice: &EndpointSlice, port_name: &str) -> Vec<Endpoint> {
    let mut ports = slice.ports.iter().flatten();
    let port = ports.find(|it| it.name.as_deref().unwrap_or_default() == port_name);
    let port = port.and_then(|it| it.port).and_then(|it| u16::try_from(it).ok());
    let Some(port) = port else { return Vec::new() };
    let ready = slice
        .endpoints
        .iter()
        .flatten()
        .filter(|it| it.conditions.as_ref().and_then(|it| it.ready).unwrap_or(true));
    let each = ready.filter_map(|it| {
        let target = it.target_ref.as_ref().filter(|it| it.kind.as_deref() == Some("Pod"));
        let pod = target.and_then(|it| it.name.clone());
        Some(Endpoint { address: it.addresses.first()?.clone(), port, pod })
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use api::Resource as _;
    use api::apiregistration::APIService;
    use apimachinery::GroupVersion;
    use serde_json::{Value, json};

    use super::*;
    use crate::aggregated::Aggregated;

    fn remote() -> Arc<Remote> {
        let service = json!({"metadata": {"name": "v1.example.org"}, "spec": {
            "group": "example.org", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1,
            "service": {"namespace": "n", "name": "s", "port": 443}, "insecureSkipTLSVerify": true,
        }});
        let aggregated = Aggregated::new(None, &telemetry::Registry::default());
        aggregated.set(&APIService::decode(service.to_string().as_bytes()).unwrap(), false);
        aggregated.find(&GroupVersion::new("example.org", "v1")).unwrap()
    }

    fn check(service: Option<Value>, slices: &[Value], expected: &str) {
        let service =
            service.map(|it| Service::decode(json!({"spec": it}).to_string().as_bytes()).unwrap());
        let slices: Vec<Arc<EndpointSlice>> = slices
            .iter()
            .map(|it| Arc::new(EndpointSlice::decode(it.to_string().as_bytes()).unwrap()))
            .collect();
        let seen = match find(&remote(), service.as_ref(), &slices) {
            Ok(found) => {
                let each = found.iter().map(|it| {
                    let pod = it.pod.as_deref().map(|it| format!(" {it}")).unwrap_or_default();
                    format!("{}:{}{pod}", it.address, it.port)
                });
                each.collect::<Vec<_>>().join(", ")
            }
            Err(verdict) => {
                assert!(!verdict.is_available);
                format!("{}: {}", verdict.reason, verdict.message)
            }
        };
        assert_eq!(seen, expected);
    }

    #[test]
    fn what_is_missing_is_named() {
        let service = || Some(json!({"ports": [{"name": "api", "port": 443, "targetPort": 8443}]}));
        let slice = |port: Value, endpoints: Value| json!({"addressType": "IPv4", "ports": [port], "endpoints": endpoints});
        let port = || json!({"name": "api", "port": 8443});
        check(None, &[], "ServiceNotFound: service/s in \"n\" is not present");
        check(
            Some(json!({"ports": [{"port": 80}]})),
            &[],
            "ServicePortError: service/s in \"n\" is not listening on port 443",
        );
        check(
            service(),
            &[],
            "EndpointsNotFound: cannot find endpointslices for service/s in \"n\"",
        );
        let none = "MissingEndpoints: endpointslices for service/s in \"n\" have no addresses with port name \"api\"";
        let address =
            |ready: Value| json!([{"addresses": ["10.0.0.1"], "conditions": {"ready": ready}}]);
        check(service(), &[slice(port(), json!([]))], none);
        check(service(), &[slice(port(), address(json!(false)))], none);
        check(service(), &[slice(json!({"name": "x", "port": 1}), address(json!(true)))], none);
        check(service(), &[slice(json!({"name": "api"}), address(json!(true)))], none);
        check(
            Some(json!({"type": "ExternalName", "externalName": "example.com"})),
            &[],
            "FailedDiscoveryCheck: service/s in \"n\" is of the type ExternalName, which is not called",
        );
        let pod = json!([
            {"addresses": ["10.0.0.2"], "targetRef": {"kind": "Pod", "name": "p"}},
            {"addresses": ["10.0.0.3"], "conditions": {"ready": false}},
        ]);
        check(
            service(),
            &[slice(port(), address(json!(true))), slice(port(), pod)],
            "10.0.0.1:8443, 10.0.0.2:8443 p",
        );
        // A Service with one port need not name it.
        check(
            Some(json!({"ports": [{"port": 443}]})),
            &[slice(json!({"port": 8443}), address(json!(null)))],
            "10.0.0.1:8443",
        );
    }
}
