//! HTTPS in front of the pipeline: connections, request parsing, negotiation and responses. Knows
//! nothing of what a verb does.

mod body;
pub(crate) mod elsewhere;
mod explained;
mod health;
mod history;
mod line;
pub(crate) mod negotiate;
mod offered;
mod pace;
pub(crate) mod path;
pub(crate) mod plain;
pub(crate) mod query;
mod reach;
mod respond;
mod route;
mod sent;
pub(crate) mod status;
pub(crate) mod subject;
mod table;
pub(crate) mod watch;
pub(crate) mod websocket;
mod written;

use std::sync::Arc;
use std::time::Duration;

use apimachinery::{ApiError, Reason};
use authn::ClientCertificate;
use http::{Method, Request, Response, StatusCode, Version, header};
use http_body::Body as _;
use hyper::body::Incoming;
use lifecycle::Tasks;
use rustls::pki_types::CertificateDer;
use serving::{Bounds, Share, Until};
use tokio::net::TcpListener;

use crate::pipeline::Core;
use crate::pipeline::hooks::StreamBody;

pub(crate) type Body = StreamBody;

/// Of the process's descriptors, for each address that is listened on: those of pods do not take
/// the places of others.
const SHARE: Share = Share(4);

pub(crate) fn serve(
    core: &Arc<Core>,
    tasks: &Tasks,
    listener: TcpListener,
    tls: Arc<rustls::ServerConfig>,
) {
    let core = core.clone();
    // Whom the certificate of a connection names: read once, however many requests come over it.
    let trust = core.config.front_proxy.trust.clone();
    let deleted_nodes = core.deleted_nodes.clone();
    let identify = move |chain: &[CertificateDer<'_>]| {
        let certificate = match &trust {
            Some(trust) => trust.identify(chain),
            None => ClientCertificate::of_connection(chain),
        };
        // One that proves nothing already is told so, request by request.
        let is_good = |it: &Arc<ClientCertificate>| {
            it.of_node().is_some_and(|it| !deleted_nodes.known().refuses(it))
        };
        let of_node = certificate.clone().filter(is_good);
        let until = of_node.map(|it| -> Until { Box::pin(deleted_nodes.clone().wait(it)) });
        (certificate, until)
    };
    let bounds = Bounds { share: SHARE, streams: core.config.streams_per_connection };
    serving::serve_https_while_known(listener, tls, bounds, tasks, identify, move |client, it| {
        answer(core.clone(), client, it)
    });
}

async fn answer(
    core: Arc<Core>,
    certificate: Option<Arc<ClientCertificate>>,
    request: Request<Incoming>,
) -> Response<Body> {
    let is_stream = pace::is_stream(&core, request.uri());
    let is_nobody = certificate.is_none() && !request.headers().contains_key(header::AUTHORIZATION);
    let is_http2 = request.version() == Version::HTTP_2;
    let is_head = request.method() == Method::HEAD;
    // On the heap: what a request goes through is large, and what it sends may nest deeply on top
    // of it.
    let answered = Box::pin(route::answer(&core, certificate, request));
    let mut response = if is_stream {
        let mut response = answered.await;
        response.extensions_mut().insert(serving::Patient);
        response
    } else {
        in_time(core.config.request_timeout, answered).await
    };
    if is_head {
        take_body(&mut response);
    }
    // Strangers get one answer per connection, as upstream has it
    // (`UnauthenticatedHTTP2DOSMitigation`): opening streams is cheap.
    if is_http2 && (is_nobody || response.status() == StatusCode::UNAUTHORIZED) {
        response.extensions_mut().insert(serving::Farewell);
    }
    response
}

/// Of an answer to HEAD, which only says how long it would have been. (Over HTTP/2 nobody else
/// takes it away.)
fn take_body(response: &mut Response<Body>) {
    if let Some(length) = response.body().size_hint().exact() {
        response.headers_mut().insert(header::CONTENT_LENGTH, length.into());
    }
    *response.body_mut() = status::full("");
}

/// Until the head of the answer: a watch goes on from there.
async fn in_time(
    limit: Duration,
    answered: impl Future<Output = Response<Body>>,
) -> Response<Body> {
    tokio::time::timeout(limit, answered).await.unwrap_or_else(|_| {
        let message = "Timeout: request did not complete within the allotted timeout";
        status::refuse(&ApiError::new(Reason::Timeout, message))
    })
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;
    use tokio::time::Instant;

    use super::{Duration, in_time};

    #[tokio::test(start_paused = true)]
    async fn a_request_that_does_not_end_is_answered_when_its_time_is_over() {
        let start = Instant::now();
        let response = in_time(Duration::from_secs(60), std::future::pending()).await;
        assert_eq!((start.elapsed().as_secs(), response.status().as_u16()), (60, 504));
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let body = String::from_utf8_lossy(&body).into_owned();
        assert!(body.contains(r#""reason":"Timeout""#), "{body}");
    }
}
