//! Connections from this server to kubelets: the one place where it calls out to nodes.

use std::sync::Arc;
use std::time::Duration;

use api::core::Node;
use api::core::node::is_simulated;
use apimachinery::{ApiError, Reason};
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
        refuse_simulated(node)?;
        let tls = self.tls.clone().ok_or_else(|| {
            unreachable("error dialing backend: this server has no identity for kubelets")
        })?;
        let (host, port) = address(node).ok_or_else(|| {
            let types = ADDRESS_TYPES.join(" ");
            unreachable(&format!(
                "error dialing backend: no preferred addresses found for node {name:?}; known types: [{types}]"
            ))
        })?;
        let failed = |err: &dyn std::fmt::Display| {
            unreachable(&format!("error dialing backend: dial tcp {host}:{port}: {err}"))
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

/// Its address, and those of its pods, may be somebody else's, outside of this machine.
pub(crate) fn refuse_simulated(node: &Node) -> Result<(), ApiError> {
    if !is_simulated(node) {
        return Ok(());
    }
    let name = node.metadata.name.as_deref().unwrap_or_default();
    Err(ApiError::bad_request(format!(
        "node {name:?} is simulated: its pods have no containers to run commands in, to read \
         logs of or to connect to"
    )))
}

/// That a node cannot be reached is told as it is: people look at a node, not into this server's
/// log, to find out why.
pub(crate) fn unreachable(why: &str) -> ApiError {
    ApiError::new(Reason::InternalError, format!("Internal error occurred: {why}"))
}

/// Where its kubelet listens.
pub(crate) fn address(node: &Node) -> Option<(String, u16)> {
    let status = node.status.as_ref()?;
    let addresses = status.addresses.as_deref().unwrap_or_default();
    let found = ADDRESS_TYPES.iter().find_map(|kind| addresses.iter().find(|it| it.type_ == *kind));
    let endpoint = status.daemon_endpoints.as_ref().and_then(|it| it.kubelet_endpoint.as_ref());
    let port = endpoint.and_then(|it| u16::try_from(it.port).ok()).filter(|it| *it != 0);
    Some((found?.address.clone(), port.unwrap_or(PORT_DEFAULT)))
}

#[cfg(test)]
mod tests {
    use api::Resource as _;
    use serde_json::{Value, json};

    use super::*;

    #[tokio::test]
    async fn simulated_nodes_are_never_dialed() {
        let identity = rustls::ClientConfig::builder()
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        let kubelets = Kubelets::new(Some(Arc::new(identity)));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let node = |provider_id: &str| {
            let address = listener.local_addr().unwrap();
            let status = json!({
                "addresses": [{"type": "InternalIP", "address": address.ip().to_string()}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": address.port()}},
            });
            // Labels may be changed by many, so that they decide nothing.
            let node = json!({
                "metadata": {"name": "sim-0"}, "spec": {"providerID": provider_id}, "status": status,
            });
            Node::decode(node.to_string().as_bytes()).unwrap()
        };
        let refused = kubelets.dial(&node("simulated://sim-0")).await.unwrap_err();
        assert_eq!(refused.code(), 400);
        assert_eq!(
            refused.message(),
            "node \"sim-0\" is simulated: its pods have no containers to run commands in, to read logs of or to connect to"
        );
        // The next to be let in is the node that is not: nobody came before it.
        let real = node("");
        let (dialed, ()) = tokio::join!(kubelets.dial(&real), async {
            let (stream, _) = listener.accept().await.unwrap();
            drop(stream);
        });
        assert!(dialed.is_err(), "a listener without TLS");
        let more = std::pin::pin!(listener.accept());
        assert!(futures_util::FutureExt::now_or_never(more).is_none());
    }

    #[test]
    fn nodes_are_reached_at_their_inner_address() {
        let node =
            |status: Value| Node::decode(json!({"status": status}).to_string().as_bytes()).unwrap();
        let both = json!([
            {"type": "Hostname", "address": "n"}, {"type": "InternalIP", "address": "10.0.0.1"},
        ]);
        assert_eq!(
            address(&node(json!({"addresses": both}))),
            Some(("10.0.0.1".to_owned(), 10_250))
        );
        let port = json!({"kubeletEndpoint": {"Port": 1234}});
        let named = json!([{"type": "Hostname", "address": "n"}]);
        assert_eq!(
            address(&node(json!({"addresses": named, "daemonEndpoints": port}))),
            Some(("n".to_owned(), 1234))
        );
        assert_eq!(address(&node(json!({}))), None);
    }
}
