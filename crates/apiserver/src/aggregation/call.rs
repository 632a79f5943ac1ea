//! One connection to another server, and one request over it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use api::Lookup;
use api::apiregistration::api_service::availability::Verdict;
use api::core::{Node, Pod, Service};
use api::discovery::EndpointSlice;
use apimachinery::{GroupResource, ObjectKey, User};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, Version, header};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Incoming;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::endpoints::{self, Endpoint};
use super::identity;
use crate::aggregated::Remote;
use crate::kubelets::refuse_simulated;
use crate::pipeline::Core;
use crate::proxy::{self, Outgoing, Target};

/// To connect and to shake hands, with each of the addresses that are tried.
const DIAL_MAX: Duration = Duration::from_secs(5);
/// Addresses that are tried for one request.
const ADDRESSES_MAX: usize = 3;

#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("{}", .0.message)]
    Nowhere(Verdict),
    #[error("{0}")]
    Tls(String),
    #[error("{0}: address not allowed")]
    Address(String),
    #[error("dial tcp {address}: {why}")]
    Dial { address: SocketAddr, why: String },
    #[error("{0}")]
    Send(String),
    #[error("bad status from https://{host}{path}: {code}")]
    Code { host: String, path: String, code: u16 },
    #[error("the answer to {path} is larger than {max} bytes, or broke off")]
    Body { path: String, max: usize },
    #[error("no answer to {path} after {after:?}")]
    Late { path: String, after: Duration },
    #[error(transparent)]
    Resources(#[from] super::resources::Error),
}

/// Where its server is now.
pub(super) fn endpoints(core: &Core, remote: &Remote) -> Result<Vec<Endpoint>, Verdict> {
    let lookup: &dyn Lookup = core.cache.as_ref();
    let key = ObjectKey::new(remote.namespace.as_str(), remote.service.as_str());
    let service = lookup.get::<Service>(&key);
    let resource = GroupResource::new("discovery.k8s.io", "endpointslices");
    let slices = lookup.list(&resource, Some(&remote.namespace)).into_iter();
    let slices = slices.filter(|it| service_of(&it.meta.labels) == Some(remote.service.as_str()));
    let slices: Vec<Arc<EndpointSlice>> = slices.filter_map(|it| it.shared().ok()).collect();
    endpoints::find(remote, service.as_deref(), &slices)
}

/// The Service that a slice is of.
pub(super) fn service_of(labels: &api::Pairs) -> Option<&str> {
    labels.get("kubernetes.io/service-name")
}

/// To one of its addresses, in a random order.
pub(super) async fn connect(
    core: &Core,
    remote: &Remote,
    endpoints: &[Endpoint],
) -> Result<TlsStream<TcpStream>, Error> {
    let start = core.world.random.below(endpoints.len().max(1) as u64) as usize;
    let in_turn = endpoints[start..].iter().chain(&endpoints[..start]);
    let mut failed = None;
    for endpoint in in_turn.take(ADDRESSES_MAX) {
        match connect_to(core, remote, endpoint).await {
            Ok(stream) => return Ok(stream),
            Err(err) => failed = Some(err),
        }
    }
    Err(failed.unwrap_or_else(|| Error::Address("none".to_owned())))
}

pub(super) async fn connect_to(
    core: &Core,
    remote: &Remote,
    endpoint: &Endpoint,
) -> Result<TlsStream<TcpStream>, Error> {
    let tls = remote.tls.clone().map_err(Error::Tls)?;
    let refused = || Error::Address(endpoint.address.clone());
    let target =
        Target::new(&endpoint.address, Some(endpoint.port), None).map_err(|_| refused())?;
    let address = SocketAddr::new(target.address, target.port);
    if address == core.config.advertise || !is_true(core, remote, endpoint) {
        return Err(refused());
    }
    let failed = |why: String| Error::Dial { address, why };
    let name = ServerName::try_from(remote.host()).map_err(|err| failed(err.to_string()))?;
    let dialing = async {
        let stream = core.config.dialer.dial(address).await?;
        TlsConnector::from(tls).connect(name, stream).await
    };
    match tokio::time::timeout(DIAL_MAX, dialing).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(err)) => Err(failed(err.to_string())),
        Err(_) => Err(failed("i/o timeout".to_owned())),
    }
}

/// Whether an address that is said to be a pod's is: whoever writes slices does not decide who is
/// shown this server's identity.
fn is_true(core: &Core, remote: &Remote, endpoint: &Endpoint) -> bool {
    let Some(name) = &endpoint.pod else { return true };
    let Ok(pod) = core.find_shared::<Pod>(&remote.namespace, name) else { return false };
    let node = pod.spec.as_ref().and_then(|it| it.node_name.as_deref()).unwrap_or_default();
    let node = core.find_shared::<Node>("", node);
    if node.is_ok_and(|it| refuse_simulated(&it).is_err()) {
        return false;
    }
    let mut addresses = pod.status.iter().flat_map(|it| it.pod_ips.iter().flatten());
    addresses.any(|it| it.ip == endpoint.address)
}

/// The request of this server itself.
pub(super) fn request(
    remote: &Remote,
    path: &str,
    accept: &'static str,
    user: &User,
) -> Result<Request<Outgoing>, Error> {
    let mut headers = HeaderMap::new();
    let unsendable = |err: &dyn std::fmt::Display| Error::Send(err.to_string());
    identity::set(&mut headers, user, None).map_err(|err| unsendable(&err))?;
    headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
    headers.insert(header::USER_AGENT, HeaderValue::from_static("kube-aggregator"));
    let host = HeaderValue::from_str(&remote.host()).map_err(|err| unsendable(&err))?;
    headers.insert(header::HOST, host);
    let mut request =
        Request::new(Empty::<Bytes>::new().map_err(|never| match never {}).boxed_unsync());
    let uri = Uri::try_from(path).map_err(|err| unsendable(&err))?;
    (*request.method_mut(), *request.version_mut()) = (Method::GET, Version::HTTP_11);
    (*request.uri_mut(), *request.headers_mut()) = (uri, headers);
    Ok(request)
}

/// What is at a path, of at most `max` bytes and within `after`.
pub(super) async fn get(
    core: &Arc<Core>,
    remote: &Remote,
    endpoint: &Endpoint,
    request: Request<Outgoing>,
    (max, after): (usize, Duration),
) -> Result<(Response<()>, Bytes), Error> {
    let path = request.uri().path().to_owned();
    let getting = async {
        let stream = connect_to(core, remote, endpoint).await?;
        let answer = proxy::send(core, stream, request).await;
        let answer: Response<Incoming> =
            answer.map_err(|err| Error::Send(err.message().to_owned()))?;
        let (head, body) = answer.into_parts();
        if head.status == StatusCode::NOT_MODIFIED {
            return Ok((Response::from_parts(head, ()), Bytes::new()));
        }
        if !head.status.is_success() {
            let (host, code) = (remote.host(), head.status.as_u16());
            return Err(Error::Code { host, path: path.clone(), code });
        }
        let body = Limited::new(body, max).collect().await;
        let body = body.map_err(|_| Error::Body { path: path.clone(), max })?;
        Ok((Response::from_parts(head, ()), body.to_bytes()))
    };
    let late = || Error::Late { path: path.clone(), after };
    tokio::time::timeout(after, getting).await.unwrap_or_else(|_| Err(late()))
}
