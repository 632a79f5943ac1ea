//! HTTP that is passed on: `/proxy` below pods, Services and nodes.
//!
//! Only addresses are called that objects of the cluster name, and none that lead back to this
//! machine. Redirects are told to the client and never followed. Who asked, and by what credential,
//! stays here. Bodies pass piece by piece, each way, as fast as the other side takes them.

pub(crate) mod headers;
mod html;
mod links;
mod target;

use std::sync::Arc;
use std::time::Duration;

use api::Dynamic;
use apimachinery::{ApiError, Reason};
use bytes::Bytes;
use futures_util::StreamExt as _;
use http::request::Parts as Head;
use http::uri::PathAndQuery;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Version, header,
};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty, StreamBody as Frames};
use hyper::body::{Body as _, Frame, Incoming};
use hyper::client::conn::http1;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use self::html::Pages;
use self::links::Links;
use crate::http::status;
use crate::metrics::Recording;
use crate::pipeline::Core;
use crate::pipeline::hooks::{Exchange, StreamBody};
use crate::relay;

pub(crate) use target::{Named, Target};

/// To connect and to shake hands.
const DIAL_MAX: Duration = Duration::from_secs(30);

pub(crate) type Outgoing = UnsyncBoxBody<Bytes, hyper::Error>;

/// Of whoever is behind it nobody knows a certificate.
pub(crate) fn tls(is_https: bool) -> Result<Option<Arc<rustls::ClientConfig>>, ApiError> {
    let tls = is_https.then(client::unverified_tls).transpose();
    tls.map_err(|err| ApiError::internal("no TLS can be spoken").with_source(err))
}

/// Ports of pods and nodes have no names here.
pub(crate) fn port(text: &str) -> Result<u16, ApiError> {
    text.parse()
        .map_err(|_| unreachable(&format_args!("dial tcp: lookup tcp/{text}: unknown port")))
}

/// What admission decides about: `PodProxyOptions`, `ServiceProxyOptions` or `NodeProxyOptions`.
pub(crate) fn options(kind: &str, exchange: &Exchange) -> Dynamic {
    let mut options =
        Dynamic { api_version: "v1".to_owned(), kind: kind.to_owned(), ..Dynamic::default() };
    let (_, path) = split(exchange);
    if !path.is_empty() {
        options.rest.insert("path".to_owned(), json!(path));
    }
    options
}

/// `/api/v1/nodes/a/proxy/x` is `/api/v1/nodes/a/proxy` and `/x`.
fn split(exchange: &Exchange) -> (&str, &str) {
    let path = exchange.head.uri.path();
    let n_segments = if exchange.request.call.namespace.is_some() { 7 } else { 5 };
    let start = path.len() - path.trim_start_matches('/').len();
    let mut slashes = path[start..].match_indices('/').map(|it| start + it.0);
    path.split_at(slashes.nth(n_segments - 1).unwrap_or(path.len()))
}

/// Sends the request to the target, and its answer to the client.
pub(crate) async fn forward(
    core: &Arc<Core>,
    target: &Target,
    exchange: Exchange,
) -> Result<Response<StreamBody>, ApiError> {
    let connection = dial(target).await?;
    forward_over(core, connection, &target.authority(), exchange).await
}

/// Over a connection that is there already; `authority` is what the other side calls itself.
pub(crate) async fn forward_over(
    core: &Arc<Core>,
    connection: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    authority: &str,
    exchange: Exchange,
) -> Result<Response<StreamBody>, ApiError> {
    let (prefix, _) = split(&exchange);
    let prefix = prefix.to_owned();
    let Exchange { mut head, body, options, mut recording, .. } = exchange;
    let path = options.as_ref().and_then(|it| it.rest.get("path")?.as_str()).unwrap_or_default();
    let upgrade = head.extensions.remove::<OnUpgrade>();
    let upgrade = upgrade.filter(|_| head.headers.contains_key(header::UPGRADE));
    if path.is_empty() && upgrade.is_none() && matches!(head.method, Method::GET | Method::HEAD) {
        return to_root(&head, &prefix);
    }
    let links = Links { prefix, host: host_of(&head), target: authority.to_owned() };
    let body = match upgrade {
        Some(_) => None,
        None => body(),
    };
    let request = outgoing(&head, path, &links, (body, upgrade.is_some()))?;
    let answer = send(core, connection, request).await?;
    match upgrade {
        Some(client) => switch(core, client, answer, recording.take()),
        None => Ok(pass_back(answer, links, recording.take())),
    }
}

/// A page's relative links need the slash.
fn to_root(head: &Head, prefix: &str) -> Result<Response<StreamBody>, ApiError> {
    let query = head.uri.query().map(|it| format!("?{it}")).unwrap_or_default();
    let location = HeaderValue::from_str(&format!("{prefix}/{query}"));
    let location = location.map_err(|_| ApiError::bad_request("the path cannot be answered"))?;
    let mut response = Response::new(status::full(""));
    *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
    response.headers_mut().insert(header::LOCATION, location);
    Ok(response)
}

fn host_of(head: &Head) -> String {
    let named = head.headers.get(header::HOST).and_then(|it| it.to_str().ok());
    let named = named.or_else(|| head.uri.authority().map(http::uri::Authority::as_str));
    named.unwrap_or_default().to_owned()
}

fn outgoing(
    head: &Head,
    path: &str,
    links: &Links,
    (body, is_upgrade): (Option<Incoming>, bool),
) -> Result<Request<Outgoing>, ApiError> {
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    let query = head.uri.query().map(|it| format!("?{it}")).unwrap_or_default();
    let uri = PathAndQuery::try_from(format!("{path}{query}"))
        .map_err(|err| ApiError::bad_request(format!("the path cannot be passed on: {err}")))?;
    let mut headers = headers::of_request(&head.headers, is_upgrade);
    // A page is changed on its way, which one that is compressed cannot be.
    if asks_for_page(&head.headers) {
        headers.remove(header::ACCEPT_ENCODING);
    }
    let body = match body {
        Some(body) if !body.is_end_stream() => body.boxed_unsync(),
        _ => Empty::new().map_err(|never| match never {}).boxed_unsync(),
    };
    let host = HeaderValue::from_str(&links.host);
    let host = host.map_err(|_| ApiError::bad_request("the host cannot be passed on"))?;
    headers.insert(header::HOST, host);
    if let Ok(forwarded) = HeaderValue::from_str(&format!("{}{path}", links.prefix)) {
        headers.insert(HeaderName::from_static("x-forwarded-uri"), forwarded);
    }
    if let Some(client) = head.extensions.get::<serving::Peer>() {
        headers::append_forwarded_for(&mut headers, &client.0.ip().to_string());
    }
    let mut request = Request::new(body);
    (*request.method_mut(), *request.version_mut()) = (head.method.clone(), Version::HTTP_11);
    (*request.uri_mut(), *request.headers_mut()) = (uri.into(), headers);
    Ok(request)
}

fn asks_for_page(headers: &HeaderMap) -> bool {
    let accepts = headers.get_all(header::ACCEPT).iter().filter_map(|it| it.to_str().ok());
    accepts.into_iter().any(|it| it.contains("text/html"))
}

fn unreachable(why: &dyn std::fmt::Display) -> ApiError {
    ApiError::new(Reason::ServiceUnavailable, format!("error trying to reach service: {why}"))
}

trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

async fn dial(target: &Target) -> Result<Box<dyn Connection>, ApiError> {
    let authority = target.authority();
    let dialing = async {
        let stream = TcpStream::connect((target.address, target.port)).await?;
        stream.set_nodelay(true)?;
        Ok::<Box<dyn Connection>, std::io::Error>(match &target.tls {
            None => Box::new(stream),
            Some(tls) => {
                let name = ServerName::from(target.address);
                Box::new(TlsConnector::from(tls.clone()).connect(name, stream).await?)
            }
        })
    };
    match tokio::time::timeout(DIAL_MAX, dialing).await {
        Ok(Ok(connection)) => Ok(connection),
        Ok(Err(err)) => Err(unreachable(&format_args!("dial tcp {authority}: {err}"))),
        Err(_) => Err(unreachable(&format_args!("dial tcp {authority}: i/o timeout"))),
    }
}

/// A connection of its own for each request. It ends with the answer's body, or when the upgraded
/// stream is dropped.
pub(crate) async fn send(
    core: &Arc<Core>,
    connection: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    request: Request<Outgoing>,
) -> Result<Response<Incoming>, ApiError> {
    let failed = |err: hyper::Error| unreachable(&err);
    let handshake = http1::handshake(TokioIo::new(connection)).await;
    let (mut sender, connection) = handshake.map_err(failed)?;
    core.tasks.spawn("proxy-connection", |shutdown| async move {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => {}
            // How it ended is seen by whoever reads the response.
            _ = connection.with_upgrades() => {}
        }
    });
    sender.send_request(request).await.map_err(failed)
}

/// Whether the target speaks another protocol from here on. If it does not, it has refused: what
/// else it may say, a redirect above all, is followed by nobody and leaves no way to it open.
fn has_switched(code: StatusCode) -> Result<bool, ApiError> {
    if code == StatusCode::SWITCHING_PROTOCOLS {
        return Ok(true);
    }
    if code.is_client_error() || code.is_server_error() {
        return Ok(false);
    }
    let why = format!("invalid upgrade response: status code {}", code.as_u16());
    Err(unreachable(&why))
}

pub(crate) fn switch(
    core: &Arc<Core>,
    client: OnUpgrade,
    answer: Response<Incoming>,
    recording: Option<Recording>,
) -> Result<Response<StreamBody>, ApiError> {
    let code = answer.status();
    let has_switched = has_switched(code)?;
    let headers = headers::of_answer(answer.headers(), has_switched);
    let body = if has_switched {
        let target = hyper::upgrade::on(answer);
        core.tasks.spawn("stream", |shutdown| async move {
            relay::join(client, target, shutdown).await;
            if let Some(recording) = recording {
                recording.finish(StatusCode::SWITCHING_PROTOCOLS.as_u16(), None);
            }
        });
        status::full("")
    } else {
        answer.into_body().boxed_unsync()
    };
    let mut response = Response::new(body);
    (*response.status_mut(), *response.headers_mut()) = (code, headers);
    Ok(response)
}

fn pass_back(
    answer: Response<Incoming>,
    links: Links,
    recording: Option<Recording>,
) -> Response<StreamBody> {
    let code = answer.status();
    let mut headers = headers::of_answer(answer.headers(), false);
    let location = headers.get(header::LOCATION).and_then(|it| it.to_str().ok());
    let rewritten = location.and_then(|it| links.rewrite(it));
    let rewritten = rewritten.and_then(|it| HeaderValue::from_str(&it).ok());
    let is_page = headers.get(header::CONTENT_TYPE).is_some_and(is_html)
        && !headers.contains_key(header::LOCATION)
        && !headers.contains_key(header::CONTENT_ENCODING);
    if let Some(rewritten) = rewritten {
        headers.insert(header::LOCATION, rewritten);
    }
    let body = answer.into_body();
    let body = if is_page && !body.is_end_stream() {
        headers.remove(header::CONTENT_LENGTH);
        page(body, links, recording)
    } else {
        // Kept until the answer was sent.
        let kept = recording;
        let keep = move |it| {
            let _kept = &kept;
            it
        };
        body.map_frame(keep).boxed_unsync()
    };
    let mut response = Response::new(body);
    (*response.status_mut(), *response.headers_mut()) = (code, headers);
    response
}

fn is_html(kind: &HeaderValue) -> bool {
    let kind = kind.to_str().unwrap_or_default().split(';').next().unwrap_or_default();
    kind.trim().eq_ignore_ascii_case("text/html")
}

fn page(body: Incoming, links: Links, recording: Option<Recording>) -> StreamBody {
    let pieces = body.into_data_stream().map(Some).chain(futures_util::stream::iter([None]));
    let pieces = pieces.scan(Pages::new(links), move |pages, piece| {
        let _kept = &recording;
        let passed = match piece {
            Some(Ok(piece)) => Ok(pages.step(&piece)),
            Some(Err(err)) => Err(err),
            None => Ok(pages.finish()),
        };
        std::future::ready(Some(passed.map(|it| Frame::data(Bytes::from(it)))))
    });
    Frames::new(pieces).boxed_unsync()
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::has_switched;

    #[test]
    fn only_who_switched_is_tunneled_to_and_nobody_is_redirected() {
        let check = |code: u16, expected: Option<bool>| {
            let code = StatusCode::from_u16(code).expect("a code");
            assert_eq!(has_switched(code).ok(), expected, "{code}");
        };
        check(101, Some(true));
        for refused in [400, 403, 404, 500, 503] {
            check(refused, Some(false));
        }
        for odd in [100, 102, 200, 204, 301, 302, 307, 308] {
            check(odd, None);
        }
    }
}
