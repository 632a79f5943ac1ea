//! Requests that become something else than HTTP: which protocol, for which container, and what
//! runs over it then.

use std::sync::Arc;

use http::request::Parts as RequestHead;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use node_api::ContainerId;
use node_api::containers::{ContainerState, ExecRequest};

use super::asked::{Asked, Place};
use super::command::{self, Command};
use super::port_forward::{self, Target};
use super::query::Query;
use super::route::{Body, Refusal, find_pod, text};
use super::websocket::{self, Connection, Tunnel};
use super::{Core, spdy};

const STREAM_PROTOCOL: &str = "x-stream-protocol-version";
const SPDY: &str = "SPDY/3.1";

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("upgrading the connection")]
    Upgrade(#[source] hyper::Error),
    #[error(transparent)]
    Spdy(#[from] spdy::Error),
    #[error("speaking WebSocket")]
    WebSocket(#[from] tokio_websockets::Error),
}

/// What was asked for, found and ready to run.
enum Work {
    Command(Command),
    Forward(Target),
}

/// The protocol that both sides know.
enum Agreed {
    CommandWebSocket(&'static command::Protocol),
    CommandSpdy(&'static str),
    ForwardChannels(websocket::Coding, Vec<u16>),
    ForwardTunnel,
    ForwardSpdy,
}

pub(crate) async fn answer(
    core: &Arc<Core>,
    asked: &Asked,
    request: Request<Incoming>,
) -> Result<Response<Body>, Refusal> {
    let (mut head, _) = request.into_parts();
    let query = Query::parse(head.uri.query());
    let (name, work) = find(core, asked, &query)?;
    let (agreed, response) = agree(&head, &query, matches!(work, Work::Forward(_)))?;
    let upgrade = head.extensions.remove::<hyper::upgrade::OnUpgrade>().ok_or_else(required)?;
    let core = core.clone();
    let tasks = core.tasks.clone();
    tasks.spawn(name, |shutdown| async move {
        let ended = tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            ended = run(&core, upgrade, work, agreed) => ended,
        };
        if let Err(err) = ended {
            tracing::debug!(error = %stdx::error_chain(&err), "a stream ended");
        }
    });
    Ok(response)
}

async fn run(
    core: &Core,
    upgrade: hyper::upgrade::OnUpgrade,
    work: Work,
    agreed: Agreed,
) -> Result<(), Error> {
    let connection: Connection = TokioIo::new(upgrade.await.map_err(Error::Upgrade)?);
    let containers = core.containers.clone();
    match (work, agreed) {
        (Work::Command(command), Agreed::CommandWebSocket(protocol)) => {
            let socket = websocket::serve(connection);
            command.over_websocket(containers, socket, protocol).await?;
        }
        (Work::Command(command), Agreed::CommandSpdy(protocol)) => {
            command.over_spdy(containers, connection, protocol).await?;
        }
        (Work::Forward(target), Agreed::ForwardChannels(coding, ports)) => {
            target.over_websocket(websocket::serve(connection), coding, &ports).await?;
        }
        (Work::Forward(target), Agreed::ForwardTunnel) => {
            let tunnel = Tunnel::new(websocket::serve(connection));
            target.over_spdy(tunnel, &core.tasks).await?;
        }
        (Work::Forward(target), Agreed::ForwardSpdy) => {
            target.over_spdy(connection, &core.tasks).await?;
        }
        (Work::Command(_), _) | (Work::Forward(_), _) => {
            unreachable!("`agree` is told which of the two it is")
        }
    }
    Ok(())
}

/// What to run, and what it is called.
fn find(core: &Core, asked: &Asked, query: &Query) -> Result<(&'static str, Work), Refusal> {
    match asked {
        Asked::PortForward(place) => Ok(("portForward", forward(core, place)?)),
        Asked::Attach(place) => {
            let (id, request) = container(core, place, query)?;
            let request = ExecRequest { command: Vec::new(), ..request };
            Ok(("attach", Work::Command(Command::Attach(id, request))))
        }
        Asked::Exec(place) => {
            let (id, request) = container(core, place, query)?;
            if request.command.is_empty() {
                return Err((StatusCode::BAD_REQUEST, "you must specify a command".to_owned()));
            }
            Ok(("exec", Work::Command(Command::Exec(id, request))))
        }
        _ => Err((StatusCode::NOT_FOUND, "404 page not found\n".to_owned())),
    }
}

fn forward(core: &Core, place: &Place) -> Result<Work, Refusal> {
    let Place { namespace, pod: name, uid, .. } = place;
    let pod = find_pod(core, namespace, name, uid)?;
    let sandbox = pod.sandbox.ok_or_else(|| {
        let message = format!("pod \"{namespace}/{name}\" is not running");
        (StatusCode::BAD_REQUEST, message)
    })?;
    Ok(Work::Forward(Target {
        containers: core.containers.clone(),
        sandbox,
        pod: format!("{namespace}/{name}"),
        uid: pod.uid.to_string(),
    }))
}

fn container(
    core: &Core,
    place: &Place,
    query: &Query,
) -> Result<(ContainerId, ExecRequest), Refusal> {
    let Place { namespace, pod: name, uid, container } = place;
    let options = command::Options::parse(query);
    let request = options.map_err(|it| (StatusCode::BAD_REQUEST, it.to_owned()))?.0;
    let pod = find_pod(core, namespace, name, uid)?;
    let run = pod.containers.get(container).and_then(|it| it.current.as_ref());
    let is_running = |id: &ContainerId| {
        core.containers.get(id).is_some_and(|it| matches!(it.state, ContainerState::Running { .. }))
    };
    let run = run
        .filter(|it| is_running(&it.id))
        .ok_or_else(|| (StatusCode::NOT_FOUND, format!("container not found ({container:?})")))?;
    Ok((run.id.clone(), request))
}

fn required() -> Refusal {
    (StatusCode::BAD_REQUEST, "Upgrade request required".to_owned())
}

/// The protocol, and the response that says so.
fn agree(
    head: &RequestHead,
    query: &Query,
    is_forward: bool,
) -> Result<(Agreed, Response<Body>), Refusal> {
    let upgrade = head.headers.get(header::UPGRADE).and_then(|it| it.to_str().ok());
    match upgrade.map(str::to_ascii_lowercase).as_deref() {
        Some("websocket") if head.method == Method::GET => {
            agree_websocket(&head.headers, query, is_forward)
        }
        Some("spdy/3.1") => agree_spdy(&head.headers, is_forward),
        _ => Err(required()),
    }
}

fn agree_websocket(
    headers: &HeaderMap,
    query: &Query,
    is_forward: bool,
) -> Result<(Agreed, Response<Body>), Refusal> {
    let bad = |message: String| (StatusCode::BAD_REQUEST, message);
    let offered = websocket::offered(headers);
    let unknown = || bad(format!("none of the subprotocols {offered:?} is known"));
    let (name, agreed) = if is_forward {
        match port_forward::protocol(&offered).ok_or_else(unknown)? {
            (name, None) => (name, Agreed::ForwardTunnel),
            (name, Some(coding)) => {
                let ports = port_forward::ports(query).map_err(bad)?;
                (name, Agreed::ForwardChannels(coding, ports))
            }
        }
    } else {
        let protocol = command::protocol(&offered).ok_or_else(unknown)?;
        (protocol.name, Agreed::CommandWebSocket(protocol))
    };
    let accepted = websocket::accept(headers, name);
    let accepted = accepted.ok_or_else(|| bad("Sec-WebSocket-Key is missing".to_owned()))?;
    Ok((agreed, accepted.map(|()| text(StatusCode::OK, "").into_body())))
}

fn agree_spdy(headers: &HeaderMap, is_forward: bool) -> Result<(Agreed, Response<Body>), Refusal> {
    let values = headers.get_all(STREAM_PROTOCOL).iter().filter_map(|it| it.to_str().ok());
    let mut offered: Vec<&str> = values.flat_map(|it| it.split(',')).map(str::trim).collect();
    if offered.is_empty() {
        offered.push("");
    }
    let known: &[&'static str] =
        if is_forward { &[port_forward::SPDY_PROTOCOL] } else { command::SPDY_PROTOCOLS };
    let chosen = offered.iter().find_map(|it| known.iter().find(|known| *known == it));
    let Some(chosen) = chosen else {
        let message = format!(
            "unable to upgrade: unable to negotiate protocol: client supports {offered:?}, server accepts {known:?}"
        );
        return Err((StatusCode::FORBIDDEN, message));
    };
    let mut response = text(StatusCode::SWITCHING_PROTOCOLS, "");
    let answer = response.headers_mut();
    answer.clear();
    answer.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    answer.insert(header::UPGRADE, HeaderValue::from_static(SPDY));
    if !chosen.is_empty() {
        answer.insert(STREAM_PROTOCOL, HeaderValue::from_static(chosen));
    }
    let agreed = if is_forward { Agreed::ForwardSpdy } else { Agreed::CommandSpdy(chosen) };
    Ok((agreed, response))
}
