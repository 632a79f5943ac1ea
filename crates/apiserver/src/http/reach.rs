//! Whether this server gets through to who asks, at a port of theirs: what a machine wants to know
//! before it becomes a node, whose kubelet this server calls. Only the address that the request came
//! from is tried: nobody looks around through this server.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use apimachinery::ApiError;
use http::request::Parts as Head;
use http::{Response, header};
use serde_json::json;
use serving::Peer;
use tokio::net::TcpStream;

use super::query::Query;
use super::{Body, status};

pub(super) const PATH: &str = "/xebec/reach";
const PATIENCE: Duration = Duration::from_secs(3);

pub(super) async fn answer(head: &Head, query: &Query) -> Result<Response<Body>, ApiError> {
    let port = query.get("port").and_then(|it| it.parse().ok()).filter(|it| *it != 0_u16);
    let port = port.ok_or_else(|| ApiError::bad_request("port: a number from 1 to 65535"))?;
    let Some(Peer(peer)) = head.extensions.get::<Peer>() else {
        return Err(ApiError::internal("it is not known where the request came from"));
    };
    let address = peer.ip().to_canonical();
    let connecting = TcpStream::connect(SocketAddr::new(address, port));
    let (outcome, detail) = match tokio::time::timeout(PATIENCE, connecting).await {
        Ok(Ok(_)) => ("connected", String::new()),
        Ok(Err(err)) if err.kind() == io::ErrorKind::ConnectionRefused => {
            ("refused", err.to_string())
        }
        Ok(Err(err)) => ("unreachable", err.to_string()),
        Err(_) => ("silent", String::new()),
    };
    let body = json!({"address": address.to_string(), "outcome": outcome, "detail": detail});
    let mut response = Response::new(status::full(body.to_string()));
    let json = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    Ok(response)
}
