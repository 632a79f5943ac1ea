//! One look at a container, whichever way its probe wants.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{HTTPGetAction, Probe};
use node_api::Containers;

use super::{Target, exec, grpc, http, port, tcp};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Success,
    /// A success that somebody should know of.
    Warning(String),
    Failure(String),
    /// The probe itself could not be carried out.
    Unknown(String),
}

pub(super) async fn run(
    containers: &Arc<dyn Containers>,
    target: &Target,
    probe: &Probe,
    timeout: Duration,
) -> Outcome {
    if let Some(exec) = &probe.exec {
        let command = exec.command.clone().unwrap_or_default();
        return exec::run(&**containers, &target.id, command, timeout).await;
    }
    if let Some(get) = &probe.http_get {
        return match http_request(target, get) {
            Ok(request) => http::probe(request, timeout).await,
            Err(problem) => Outcome::Unknown(problem),
        };
    }
    if let Some(socket) = &probe.tcp_socket {
        let host = socket.host.as_deref().unwrap_or_default();
        return match (port(&socket.port, &target.container), self_or(host, target.address)) {
            (Ok(port), Some(host)) => tcp::run(&host, port, timeout).await,
            (Err(problem), _) => Outcome::Unknown(problem),
            (_, None) => Outcome::Unknown("pod has no address".to_owned()),
        };
    }
    if let Some(action) = &probe.grpc {
        let name = action.service.as_deref().unwrap_or_default();
        let port = u16::try_from(action.port).unwrap_or_default();
        return match target.address {
            Some(address) => grpc::run(address, port, name, timeout).await,
            None => Outcome::Unknown("pod has no address".to_owned()),
        };
    }
    Outcome::Unknown("missing probe handler".to_owned())
}

fn http_request(target: &Target, get: &HTTPGetAction) -> Result<http::Request, String> {
    let port = port(&get.port, &target.container)?;
    let host = self_or(get.host.as_deref().unwrap_or_default(), target.address);
    let host = host.ok_or("pod has no address")?;
    http::Request::new(get, &host, port, http::PROBE_AGENT)
}

/// The host that was asked for, or else the pod.
fn self_or(host: &str, address: Option<IpAddr>) -> Option<String> {
    if host.is_empty() { address.map(|it| it.to_string()) } else { Some(host.to_owned()) }
}
