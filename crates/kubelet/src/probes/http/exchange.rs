//! One request and one answer on one connection, without a task of its own.

use ::http::header;
use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use node_api::containers::Connection;
use tokio::time::Instant;

use super::{BODY_MAX, Request, Response, tls};
use crate::probes::tcp;

const TOO_LATE: &str = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";

pub(super) async fn get(request: &Request, deadline: Instant) -> Result<Response, String> {
    let left = deadline.saturating_duration_since(Instant::now());
    let is_tls = request.url.scheme_str() == Some("https");
    let host = request.url.host().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let port = request.url.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
    let stream = tcp::dial(host, port, left).await?;
    let exchange = async {
        let stream: Box<dyn Connection> = match is_tls {
            true => Box::new(tls::connect(stream, host).await?),
            false => Box::new(stream),
        };
        over(stream, request).await
    };
    match tokio::time::timeout_at(deadline, exchange).await {
        Ok(result) => result,
        Err(_) => Err(TOO_LATE.to_owned()),
    }
}

async fn over(stream: Box<dyn Connection>, request: &Request) -> Result<Response, String> {
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|err| text(&err))?;
    let url = &request.url;
    let path = url.path_and_query().map_or("/", |it| it.as_str());
    let mut built = ::http::Request::get(path);
    if let Some(headers) = built.headers_mut() {
        *headers = request.headers.clone();
        if let Ok(host) = url.authority().map_or("", |it| it.as_str()).parse() {
            headers.entry(header::HOST).or_insert(host);
        }
    }
    let request = built.body(Empty::<Bytes>::new()).map_err(|err| err.to_string())?;
    let exchange = async {
        let response = sender.send_request(request).await.map_err(|err| text(&err))?;
        let (parts, body) = response.into_parts();
        let body = read(body).await;
        Ok(Response { status: parts.status, headers: parts.headers, body })
    };
    let (mut exchange, mut connection) = (std::pin::pin!(exchange), std::pin::pin!(connection));
    let mut is_open = true;
    loop {
        tokio::select! {
            biased;
            result = &mut exchange => return result,
            // What it came to the exchange tells as well.
            _ = &mut connection, if is_open => is_open = false,
        }
    }
}

/// The start of the body; what goes wrong after the head has come is no failure.
async fn read(mut body: Incoming) -> Bytes {
    let mut read = BytesMut::new();
    while let Some(Ok(frame)) = body.frame().await {
        if let Some(bytes) = frame.data_ref() {
            let room = BODY_MAX.saturating_sub(read.len());
            read.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
        if read.len() >= BODY_MAX {
            break;
        }
    }
    read.freeze()
}

fn text(err: &hyper::Error) -> String {
    if err.is_incomplete_message() { "EOF".to_owned() } else { stdx::error_chain(err) }
}
