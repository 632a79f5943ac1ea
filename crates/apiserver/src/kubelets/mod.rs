//! Connections from this server to kubelets: the one place where it calls out to nodes.

pub(crate) mod location;
mod log_options;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use api::core::Node;
use api::core::node::is_simulated;
use apimachinery::ApiError;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Where kubelets listen that do not say.
const PORT_DEFAULT: u16 = 10_250;
/// To connect and to shake hands.
const DIAL_MAX: Duration = Duration::from_secs(10);
/// The order in which a node's addresses are tried: the first kind that it has.
const ADDRESS_TYPES: &[&str] =
    &["InternalIP", "Hostname", "InternalDNS", "ExternalDNS", "ExternalIP"];

pub(crate) struct Kubelets {
    tls: Option<Arc<rustls::ClientConfig>>,
}

impl Kubelets {
    pub(crate) fn new(tls: Option<Arc<rustls::ClientConfig>>) -> Self {
        let tls = tls.map(|it| {
            let mut tls = (*it).clone();
            // Connections are taken over for other protocols, which HTTP/2 does not allow.
            tls.alpn_protocols = vec![b"http/1.1".to_vec()];
            Arc::new(tls)
        });
        Self { tls }
    }

    pub(crate) async fn dial(&self, node: &Node) -> Result<TlsStream<TcpStream>, ApiError> {
        let name = node.metadata.name.as_deref().unwrap_or_default();
        // Its address may be somebody else's, outside of this machine.
        if is_simulated(node) {
            return Err(ApiError::bad_request(format!(
                "node {name:?} is simulated: its pods have no containers to run commands in, to read \
                 logs of or to connect to"
            )));
        }
        let tls = self.tls.clone().ok_or_else(|| {
            ApiError::internal("error dialing backend: this server has no identity for kubelets")
        })?;
        let (host, port) = address(node).ok_or_else(|| {
            let types = ADDRESS_TYPES.join(" ");
            ApiError::internal(format_args!(
                "error dialing backend: no preferred addresses found for node {name:?}; known types: [{types}]"
            ))
        })?;
        let failed = |err: &dyn std::fmt::Display| {
            ApiError::internal(format_args!("error dialing backend: dial tcp {host}:{port}: {err}"))
        };
        let server_name = ServerName::try_from(host.clone()).map_err(|err| failed(&err))?;
        let dialing = async {
            let stream = TcpStream::connect((host.as_str(), port)).await?;
            stream.set_nodelay(true)?;
            TlsConnector::from(tls).connect(server_name, stream).await
        };
        match tokio::time::timeout(DIAL_MAX, dialing).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(err)) => Err(failed(&err)),
            Err(_) => Err(failed(&"i/o timeout")),
        }
    }
}

fn address(node: &Node) -> Option<(String, u16)> {
    let status = node.status.as_ref()?;
    let addresses = status.addresses.as_deref().unwrap_or_default();
    let found = ADDRESS_TYPES.iter().find_map(|kind| addresses.iter().find(|it| it.type_ == *kind));
    let endpoint = status.daemon_endpoints.as_ref().and_then(|it| it.kubelet_endpoint.as_ref());
    let port = endpoint.and_then(|it| u16::try_from(it.port).ok()).filter(|it| *it != 0);
    Some((found?.address.clone(), port.unwrap_or(PORT_DEFAULT)))
}
