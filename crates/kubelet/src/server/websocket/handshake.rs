//! The opening handshake (RFC 6455, section 4.2), as far as HTTP has not done it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};

/// The subprotocols that a client offers, best first.
pub(crate) fn offered(headers: &HeaderMap) -> Vec<&str> {
    let values = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    let texts = values.filter_map(|it| it.to_str().ok());
    texts.flat_map(|it| it.split(',')).map(str::trim).filter(|it| !it.is_empty()).collect()
}

/// The answer that agrees; `None` if the request has no key.
pub(crate) fn accept(headers: &HeaderMap, protocol: &str) -> Option<Response<()>> {
    let key = headers.get(header::SEC_WEBSOCKET_KEY)?;
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let answer = response.headers_mut();
    answer.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    answer.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    let accept = HeaderValue::from_str(&accept_key(key.as_bytes())).ok()?;
    answer.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    if !protocol.is_empty() {
        answer.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_str(protocol).ok()?);
    }
    Some(response)
}

fn accept_key(key: &[u8]) -> String {
    let mut digest = sha1_smol::Sha1::new();
    digest.update(key);
    digest.update(b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    STANDARD.encode(digest.digest().bytes())
}
