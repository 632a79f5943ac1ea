//! One request from its head to its response.

use std::io;
use std::sync::Arc;

use api::Resource as _;
use authn::ClientCertificate;
use bytes::Bytes;
use futures_util::StreamExt as _;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use node_api::PodUid;

use super::asked::{Ambiguous, Asked, Place};
use super::directory::{ContainerOnNode, ContainerRun, PodOnNode};
use super::query::Query;
use super::{Core, access, logs, streaming};

pub(crate) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// A response that says what went wrong, as plain text: the API server makes a Status of it.
pub(crate) type Refusal = (StatusCode, String);

pub(crate) fn text(status: StatusCode, text: impl Into<Bytes>) -> Response<Body> {
    let body = Full::new(text.into()).map_err(|it| match it {}).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}

fn json(value: impl Into<Bytes>) -> Response<Body> {
    let mut response = text(StatusCode::OK, value);
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

pub(crate) async fn answer(
    core: &Arc<Core>,
    certificate: Option<&ClientCertificate>,
    request: Request<Incoming>,
) -> Response<Body> {
    let now = core.world.clock.now();
    let answered = async {
        let user = core.access.authenticate(certificate, request.headers(), now).await;
        let user = user.map_err(|err| refusal_of(&err))?;
        let asked = Asked::parse(request.uri().path()).map_err(|Ambiguous| {
            (StatusCode::BAD_REQUEST, "the path is not in its simplest form".to_owned())
        })?;
        let authorized = core.access.authorize(&user, request.method(), &asked).await;
        authorized.map_err(|err| refusal_of(&err))?;
        routed(core, asked, request).await
    };
    answered.await.unwrap_or_else(|(status, message)| text(status, message))
}

fn refusal_of(err: &access::Error) -> Refusal {
    match err {
        access::Error::Unauthorized => (StatusCode::UNAUTHORIZED, err.to_string()),
        access::Error::Forbidden { .. } => (StatusCode::FORBIDDEN, err.to_string()),
        access::Error::Authenticate(_) | access::Error::Authorize(_) => {
            tracing::warn!(error = %stdx::error_chain(err), "a request could not be checked");
            (StatusCode::INTERNAL_SERVER_ERROR, err.to_string())
        }
    }
}

async fn routed(
    core: &Arc<Core>,
    asked: Asked,
    request: Request<Incoming>,
) -> Result<Response<Body>, Refusal> {
    let asked = match asked {
        Asked::Exec(_) | Asked::Attach(_) | Asked::PortForward(_) => {
            return streaming::answer(core, &asked, request).await;
        }
        _ if !matches!(*request.method(), Method::GET | Method::HEAD) => {
            return Err((StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed".to_owned()));
        }
        asked => asked,
    };
    match asked {
        Asked::ContainerLogs(place) => {
            let query = Query::parse(request.uri().query());
            container_logs(core, &place, &query).await
        }
        Asked::Healthz => Ok(text(StatusCode::OK, "ok")),
        Asked::Pods => Ok(json(pod_list(core))),
        Asked::Metrics => Ok(page(core.metrics.render())),
        Asked::ResourceMetrics => Ok(page(core.stats.page(core).await)),
        Asked::Summary => Ok(json(core.stats.summary(core).await)),
        Asked::Missing(_) | Asked::Exec(_) | Asked::Attach(_) | Asked::PortForward(_) => {
            Err((StatusCode::NOT_FOUND, "404 page not found\n".to_owned()))
        }
    }
}

/// Or the reason why not. `uid` is empty if the client does not care.
pub(crate) fn find_pod(
    core: &Core,
    namespace: &str,
    name: &str,
    uid: &str,
) -> Result<PodOnNode, Refusal> {
    let uid = (!uid.is_empty()).then(|| PodUid::new(uid));
    core.pods.find(namespace, name, uid.as_ref()).ok_or_else(|| {
        (StatusCode::NOT_FOUND, format!("pod \"{namespace}/{name}\" does not exist"))
    })
}

async fn container_logs(
    core: &Core,
    place: &Place,
    query: &Query,
) -> Result<Response<Body>, Refusal> {
    let Place { namespace, pod: name, container, .. } = place;
    let bad = |message| (StatusCode::BAD_REQUEST, message);
    let options = logs::Options::parse(query, core.world.clock.now()).map_err(bad)?;
    let pod = find_pod(core, namespace, name, "")?;
    let known = pod.containers.get(container).ok_or_else(|| {
        let message = format!("container {container:?} not found in pod {name:?}");
        (StatusCode::NOT_FOUND, message)
    })?;
    let run = run_of(known, options.previous, container, name).map_err(bad)?;
    let source = logs::Source {
        path: run.log_path.clone(),
        container: run.id.clone(),
        containers: core.containers.clone(),
        events: core.sandboxes.events(),
    };
    let lines = logs::open(source, options, core.tasks.shutdown_signal()).await;
    let lines = lines.map_err(|err| {
        let message = format!("failed to open the log of container {container:?}: {err}");
        (StatusCode::INTERNAL_SERVER_ERROR, message)
    })?;
    let body = StreamBody::new(lines.map(|it| it.map(Frame::data))).boxed_unsync();
    let mut response = Response::new(body);
    let plain = HeaderValue::from_static("text/plain");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    // Whoever reads it may do so in a pager.
    response.extensions_mut().insert(serving::Patient);
    Ok(response)
}

/// Upstream's words for what there is no log of.
fn run_of<'a>(
    container: &'a ContainerOnNode,
    is_previous: bool,
    name: &str,
    pod: &str,
) -> Result<&'a ContainerRun, String> {
    if is_previous {
        return container.previous.as_ref().ok_or_else(|| {
            format!("previous terminated container {name:?} in pod {pod:?} not found")
        });
    }
    // While it waits to be started again, the last run's log is what there is.
    container.current.as_ref().or(container.previous.as_ref()).ok_or_else(|| {
        match &container.waiting {
            Some(reason) => {
                format!("container {name:?} in pod {pod:?} is waiting to start: {reason}")
            }
            None => format!("container {name:?} in pod {pod:?} is not available"),
        }
    })
}

fn pod_list(core: &Core) -> Vec<u8> {
    let mut list = br#"{"kind":"PodList","apiVersion":"v1","metadata":{},"items":["#.to_vec();
    for (index, pod) in core.pods.pods().iter().enumerate() {
        if index > 0 {
            list.push(b',');
        }
        list.extend(pod.encode());
    }
    list.extend(b"]}");
    list
}

fn page(metrics: String) -> Response<Body> {
    let mut response = text(StatusCode::OK, metrics);
    let kind = HeaderValue::from_static(telemetry::CONTENT_TYPE);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
