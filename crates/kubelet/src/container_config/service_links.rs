//! Environment variables that tell a container of Services, as Docker's links did.
//! <https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables>

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Pod, Service};

/// The API server's own Service, which every pod is told of.
const API_NAMESPACE: &str = "default";
const API_NAME: &str = "kubernetes";

pub(super) fn render<'a>(
    pod: &Pod,
    services: impl IntoIterator<Item = &'a Service>,
) -> BTreeMap<String, String> {
    let spec = pod.spec.as_ref();
    let has_links = spec.and_then(|it| it.enable_service_links).unwrap_or(true);
    let mut seen: BTreeMap<&str, &Service> = BTreeMap::new();
    for service in services {
        let Some(name) = service.metadata.name.as_deref() else { continue };
        let namespace = service.metadata.namespace.as_deref();
        if has_links && namespace == pod.metadata.namespace.as_deref() {
            seen.insert(name, service);
        } else if namespace == Some(API_NAMESPACE) && name == API_NAME {
            // The pod's namespace may have one of its own by that name.
            seen.entry(name).or_insert(service);
        }
    }
    let mut variables = BTreeMap::new();
    for (name, service) in seen {
        add(&mut variables, name, service);
    }
    variables
}

fn add(variables: &mut BTreeMap<String, String>, name: &str, service: &Service) -> Option<()> {
    let spec = service.spec.as_ref()?;
    // Headless ones and ExternalNames have none.
    let address: IpAddr = spec.cluster_ip.as_deref()?.parse().ok()?;
    let prefix = variable(name);
    let ports = spec.ports.as_deref().unwrap_or_default();
    let mut set = |name: String, value: String| variables.insert(name, value);
    set(format!("{prefix}_SERVICE_HOST"), address.to_string());
    if let Some(first) = ports.first() {
        set(format!("{prefix}_SERVICE_PORT"), first.port.to_string());
    }
    for (index, port) in ports.iter().enumerate() {
        if let Some(name) = port.name.as_deref().filter(|it| !it.is_empty()) {
            set(format!("{prefix}_SERVICE_PORT_{}", variable(name)), port.port.to_string());
        }
        let protocol = port.protocol.as_deref().unwrap_or("TCP");
        let scheme = protocol.to_ascii_lowercase();
        let host = match address {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => format!("[{address}]"),
        };
        let url = format!("{scheme}://{host}:{}", port.port);
        if index == 0 {
            set(format!("{prefix}_PORT"), url.clone());
        }
        let of_port = format!("{prefix}_PORT_{}_{}", port.port, protocol.to_ascii_uppercase());
        set(format!("{of_port}_PROTO"), scheme);
        set(format!("{of_port}_PORT"), port.port.to_string());
        set(format!("{of_port}_ADDR"), address.to_string());
        set(of_port, url);
    }
    Some(())
}

/// `my-web` is `MY_WEB`.
fn variable(name: &str) -> String {
    name.to_ascii_uppercase().replace('-', "_")
}
