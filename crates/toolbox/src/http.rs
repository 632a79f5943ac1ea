//! `http`: a web server that tells which pod answered.

use std::convert::Infallible;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::{Request, Response, StatusCode, header};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::LocalSet;

use crate::every_address::every_address;
use crate::stop::Stop;

#[derive(clap::Args)]
pub(crate) struct Flags {
    /// Where to listen
    #[arg(long, value_name = "N", default_value_t = 8080)]
    port: u16,
    /// Seconds to go on serving after SIGTERM, while the endpoints forget this pod
    #[arg(long, value_name = "SECONDS", default_value_t = 1)]
    drain: u64,
    /// Answer with this text instead of the pod's name
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,
}

/// While it exists, `/healthz` fails.
const UNHEALTHY: &str = "/tmp/unhealthy";
/// Of a body that is sent back.
const ECHO_MAX: usize = 1 << 20;
/// How long connections may take to end after the drain.
const CLOSE: Duration = Duration::from_secs(10);

pub(crate) async fn run(flags: Flags) -> Result<()> {
    let mut stop = Stop::listen()?;
    let listener = TcpListener::bind(&every_address(flags.port)[..])
        .await
        .with_context(|| format!("listening on port {}", flags.port))?;
    let text = flags.text.clone().unwrap_or_else(host_name);
    println!("{text} answers on port {}", flags.port);
    let answer: Rc<str> = format!("{text}\n").into();
    let connections = LocalSet::new();
    let graceful = GracefulShutdown::new();
    let serving = async {
        let mut deadline = None;
        loop {
            let drained = async {
                match deadline {
                    Some(deadline) => tokio::time::sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = drained => return,
                () = stop.wait(), if deadline.is_none() => {
                    deadline = Some(tokio::time::Instant::now() + Duration::from_secs(flags.drain));
                }
                // Out of descriptors or a connection that was reset before we took it: others may
                // work.
                accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                    serve(&graceful, stream, answer.clone(), deadline.is_some());
                },
            }
        }
    };
    connections.run_until(serving).await;
    drop(listener);
    // What takes longer than that is cut off.
    let _ = tokio::time::timeout(CLOSE, connections.run_until(graceful.shutdown())).await;
    Ok(())
}

/// `is_last`: the client is asked to go elsewhere for its next request.
fn serve(graceful: &GracefulShutdown, stream: TcpStream, answer: Rc<str>, is_last: bool) {
    let answering = hyper::service::service_fn(move |request: Request<Incoming>| {
        let answer = answer.clone();
        async move {
            Ok::<_, Infallible>(match request.uri().path() {
                "/echo" => echo(request).await,
                _ => respond(&request, &answer, is_last),
            })
        }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), answering);
    let connection = graceful.watch(connection);
    tokio::task::spawn_local(async move {
        // A client that breaks off is its own business.
        let _ = connection.await;
    });
}

fn respond(request: &Request<Incoming>, answer: &str, is_last: bool) -> Response<Full<Bytes>> {
    let path = request.uri().path();
    let (status, text) = match path.strip_prefix("/status/").map(str::parse) {
        Some(Ok(code)) => (StatusCode::from_u16(code).unwrap_or(StatusCode::BAD_REQUEST), answer),
        Some(Err(_)) => (StatusCode::BAD_REQUEST, answer),
        None if path == "/healthz" && Path::new(UNHEALTHY).exists() => {
            (StatusCode::SERVICE_UNAVAILABLE, "unhealthy: /tmp/unhealthy exists\n")
        }
        None => (StatusCode::OK, answer),
    };
    let mut response = Response::new(Full::new(Bytes::copy_from_slice(text.as_bytes())));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    if is_last {
        headers.insert(header::CONNECTION, header::HeaderValue::from_static("close"));
    }
    response
}

/// What was asked, as text: what stands between a client and this server shows in it.
async fn echo(request: Request<Incoming>) -> Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    let mut text = format!("{} {}\n", head.method, head.uri);
    let mut headers: Vec<_> = head.headers.iter().collect();
    headers.sort_by_key(|it| it.0.as_str());
    for (name, value) in headers {
        text.push_str(&format!("{name}: {}\n", String::from_utf8_lossy(value.as_bytes())));
    }
    let body = Limited::new(body, ECHO_MAX).collect().await;
    let (status, body) = match body {
        Ok(body) => (StatusCode::OK, body.to_bytes()),
        Err(_) => (StatusCode::PAYLOAD_TOO_LARGE, Bytes::new()),
    };
    let mut bytes = format!("{text}\n").into_bytes();
    bytes.extend_from_slice(&body);
    let mut response = Response::new(Full::new(bytes.into()));
    *response.status_mut() = status;
    response
}

/// A pod's host name is its name.
fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
