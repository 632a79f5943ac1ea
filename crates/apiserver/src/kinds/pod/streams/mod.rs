//! Streams between a client and a kubelet: logs as a body, the others as an upgraded connection
//! that passes through byte by byte. Nothing of their protocols is known here.

mod location;
mod log_options;
mod options;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::Dynamic;
use api::core::{Node, Pod};
use apimachinery::{ApiError, Reason};
use bytes::Bytes;
use client::Verb;
use futures_util::StreamExt as _;
use http::request::Parts as Head;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Empty, Limited, StreamBody as Frames};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http1;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

use self::location::{Location, Stream, locate};
use self::options::Wanted;
use crate::http::query::Query;
use crate::http::{status, websocket};
use crate::kubelets::{Kubelets, unreachable};
use crate::metrics::Recording;
use crate::pipeline::hooks::{Exchange, StreamBody};
use crate::pipeline::{self, Core};
use crate::relay;

/// Of a kubelet's message about what went wrong.
const MESSAGE_MAX: usize = 2_000;

/// Passed on to the kubelet; everything else is between the client and this server.
const HEADERS: &[&str] = &[
    "upgrade",
    "connection",
    "sec-websocket-key",
    "sec-websocket-version",
    "sec-websocket-protocol",
    "sec-websocket-extensions",
    "x-stream-protocol-version",
];

/// What admission decides about.
pub(super) fn options(exchange: &Exchange) -> Result<Option<Dynamic>, ApiError> {
    let stream = Stream::of(exchange.request.subresource().unwrap_or_default());
    let query = Query::parse(exchange.head.uri.query());
    stream.map_or(Ok(None), |it| options::of_query(it, &query))
}

pub(super) async fn connect(
    core: &Arc<Core>,
    kubelets: &Kubelets,
    Exchange { request, mut head, options, mut recording, body: _ }: Exchange,
) -> Result<Response<StreamBody>, ApiError> {
    let stream = Stream::of(request.subresource().unwrap_or_default())
        .ok_or_else(pipeline::method_not_allowed)?;
    // Over WebSocket a GET does what a POST does, so that both permissions are needed
    // (AuthorizePodWebsocketUpgradeCreatePermission).
    let needs_create = core.config.gates.is_enabled(features::POD_WEBSOCKET_CREATE_PERMISSION);
    if needs_create && stream != Stream::Log && request.call.verb == Verb::Get {
        request.authorize_also(core, Verb::Create)?;
    }
    core.cache.wait_current().await?;
    let pod = core.find_shared::<Pod>(request.namespace(), request.name())?;
    let wanted = match &options {
        Some(options) => Wanted::of_options(options),
        None => Wanted::of_log(&Query::parse(head.uri.query()))?,
    };
    let Some(location) = locate(stream, &pod, &wanted)? else {
        return Ok(status::text(204, ""));
    };
    let way = Way { core, kubelets, location: &location };
    if stream == Stream::Log {
        return log(&way, request.name(), head, recording.take()).await;
    }
    let upgrade = head.extensions.remove::<OnUpgrade>();
    let upgrade = upgrade.filter(|_| head.headers.contains_key(header::UPGRADE));
    let upgrade = upgrade.ok_or_else(|| ApiError::bad_request("Upgrade request required"))?;
    pass(&way, &head, upgrade, recording.take()).await
}

fn unreachable_place(err: impl Into<http::Error>) -> ApiError {
    ApiError::internal("the node's name is none that can be called").with_source(err.into())
}

/// From this server to a place on a kubelet.
struct Way<'a> {
    core: &'a Core,
    kubelets: &'a Kubelets,
    location: &'a Location,
}

/// A connection of its own for each stream. It ends with the response's body, or when the upgraded
/// stream is dropped.
async fn send(
    &Way { core, kubelets, location }: &Way<'_>,
    mut request: Request<Empty<Bytes>>,
) -> Result<Response<Incoming>, ApiError> {
    let node = core.find_shared::<Node>("", &location.node)?;
    let failed = |err: hyper::Error| {
        let node = &location.node;
        let why = format!("error dialing backend: the kubelet of node {node:?} did not answer");
        unreachable(&why).with_source(err)
    };
    *request.uri_mut() = location.path.parse().map_err(unreachable_place)?;
    let host = HeaderValue::from_str(&location.node).map_err(unreachable_place)?;
    request.headers_mut().insert(header::HOST, host);
    let stream = TokioIo::new(kubelets.dial(&node).await?);
    let (mut sender, connection) = http1::handshake(stream).await.map_err(failed)?;
    core.tasks.spawn("kubelet-connection", |shutdown| async move {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => {}
            // How it ended is seen by whoever reads the response.
            _ = connection.with_upgrades() => {}
        }
    });
    sender.send_request(request).await.map_err(failed)
}

async fn log(
    way: &Way<'_>,
    pod: &str,
    head: Head,
    recording: Option<Recording>,
) -> Result<Response<StreamBody>, ApiError> {
    let response = send(way, Request::new(Empty::new())).await?;
    if !response.status().is_success() {
        let (code, message) = (response.status(), message_of(response.into_body()).await);
        return Err(match code {
            StatusCode::BAD_REQUEST => ApiError::bad_request(message),
            StatusCode::NOT_FOUND => ApiError::new(
                Reason::NotFound,
                format!(
                    "the server could not find the requested resource (pods/log {pod}): {message}"
                ),
            ),
            // The kubelet's own words, as upstream passes them on.
            _ => unreachable(&message),
        });
    }
    let frames = response.into_body().into_data_stream();
    // A log that breaks off looks like one that ended, as it does upstream.
    let frames = frames.take_while(|it| std::future::ready(it.is_ok()));
    let frames = frames.filter_map(|it| std::future::ready(it.ok()));
    // Kept until the log ends.
    let frames = frames.map(move |it| {
        let _kept = &recording;
        it
    });
    if websocket::is_asked_for(&head) {
        let (accepted, coding) = match websocket::accept_bytes(head) {
            Ok(accepted) => accepted,
            Err(refusal) => return Ok(*refusal),
        };
        let messages = websocket::messages(coding, frames);
        way.core.tasks.spawn("log-over-websocket", |shutdown| {
            websocket::send_all(accepted.connection, messages, shutdown)
        });
        return Ok(accepted.response);
    }
    let body = Frames::new(frames.map(|it| Ok(Frame::data(it)))).boxed_unsync();
    let mut response = Response::new(body);
    let plain = HeaderValue::from_static("text/plain");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    Ok(response)
}

async fn message_of(body: Incoming) -> String {
    let bytes = Limited::new(body, MESSAGE_MAX).collect().await;
    let bytes = bytes.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    String::from_utf8_lossy(&bytes).trim_end().to_owned()
}

async fn pass(
    way: &Way<'_>,
    head: &Head,
    client: OnUpgrade,
    recording: Option<Recording>,
) -> Result<Response<StreamBody>, ApiError> {
    let mut request = Request::new(Empty::new());
    *request.method_mut() = head.method.clone();
    copy_headers(&head.headers, request.headers_mut());
    let mut response = send(way, request).await?;
    let code = response.status();
    let mut headers = HeaderMap::new();
    copy_headers(response.headers(), &mut headers);
    for name in [header::SEC_WEBSOCKET_ACCEPT, header::CONTENT_TYPE] {
        headers.extend(response.headers_mut().remove(&name).map(|it| (name, it)));
    }
    let body = if code == StatusCode::SWITCHING_PROTOCOLS {
        let node = hyper::upgrade::on(response);
        way.core.tasks.spawn("stream", |shutdown| async move {
            relay::join(client, node, shutdown).await;
            if let Some(recording) = recording {
                recording.finish(StatusCode::SWITCHING_PROTOCOLS.as_u16(), None);
            }
        });
        String::new()
    } else {
        // What clients expect: the kubelet's words as they are.
        message_of(response.into_body()).await
    };
    let mut response = Response::new(status::full(body));
    *response.status_mut() = code;
    *response.headers_mut() = headers;
    Ok(response)
}

fn copy_headers(from: &HeaderMap, to: &mut HeaderMap) {
    for &name in HEADERS {
        for value in from.get_all(name) {
            to.append(HeaderName::from_static(name), value.clone());
        }
    }
}
