//! Streams to clients that can only speak WebSocket, which browsers are: one message for each
//! event of a watch, or for each piece of a log. What clients send is read and thrown away.

use std::pin::pin;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::{SinkExt as _, Stream, StreamExt as _};
use http::request::Parts as Head;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use lifecycle::Shutdown;
use tokio_websockets::{Limits, Message, ServerBuilder};

use super::{Body, status};

/// Of what a client sends, which nobody wants.
const RECEIVED_MAX: usize = 64 * 1024;
/// A client that takes nothing for so long has gone.
const SEND_MAX: Duration = Duration::from_secs(60);
/// The size of a message with a piece of a log, as upstream's.
const PIECE: usize = 2048;

const BINARY: &str = "binary.k8s.io";
const BASE64: &str = "base64.binary.k8s.io";

/// How a byte stream is put into messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    Binary,
    Base64,
}

/// A handshake that was agreed to: the answer, and the connection after it.
pub(crate) struct Accepted {
    pub(crate) response: Response<Body>,
    pub(crate) connection: OnUpgrade,
}

pub(crate) fn is_asked_for(head: &Head) -> bool {
    let has = |name, word: &str| {
        let values = head.headers.get_all(name).iter().filter_map(|it| it.to_str().ok());
        values.flat_map(|it| it.split(',')).any(|it| it.trim().eq_ignore_ascii_case(word))
    };
    has(header::UPGRADE, "websocket") && has(header::CONNECTION, "upgrade")
}

/// For a watch. As upstream: who does not say which page it is on is refused, and the one protocol
/// that may be asked for is agreed to, whatever it is.
pub(super) fn accept_watch(head: Head) -> Result<Accepted, Box<Response<Body>>> {
    let origin = head.headers.get(header::ORIGIN).and_then(|it| it.to_str().ok());
    if !origin.is_some_and(|it| it.starts_with('/') || it.parse::<http::Uri>().is_ok()) {
        return Err(refused(StatusCode::FORBIDDEN));
    }
    let offered = offered(&head.headers);
    if offered.len() > 1 {
        return Err(refused(StatusCode::BAD_REQUEST));
    }
    let protocol = offered.first().cloned();
    accept(head, protocol.as_deref())
}

/// For a byte stream: the first protocol of the client's that is known.
pub(crate) fn accept_bytes(head: Head) -> Result<(Accepted, Coding), Box<Response<Body>>> {
    let mut offered = offered(&head.headers);
    if offered.is_empty() {
        offered.push(String::new());
    }
    let known = |it: &String| match it.as_str() {
        "" | BINARY => Some(Coding::Binary),
        BASE64 => Some(Coding::Base64),
        _ => None,
    };
    let chosen = offered.iter().find_map(|it| known(it).map(|coding| (it, coding)));
    let (protocol, coding) = chosen.ok_or_else(|| refused(StatusCode::FORBIDDEN))?;
    let protocol = Some(protocol.as_str()).filter(|it| !it.is_empty());
    Ok((accept(head, protocol)?, coding))
}

fn offered(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    let texts = values.filter_map(|it| it.to_str().ok()).flat_map(|it| it.split(','));
    texts.map(|it| it.trim().to_owned()).filter(|it| !it.is_empty()).collect()
}

fn refused(code: StatusCode) -> Box<Response<Body>> {
    let mut response = Response::new(status::full(""));
    *response.status_mut() = code;
    Box::new(response)
}

/// The opening handshake (RFC 6455, section 4.2).
fn accept(mut head: Head, protocol: Option<&str>) -> Result<Accepted, Box<Response<Body>>> {
    if head.method != Method::GET {
        return Err(refused(StatusCode::METHOD_NOT_ALLOWED));
    }
    let version = head.headers.get(header::SEC_WEBSOCKET_VERSION);
    if version.is_none_or(|it| it != "13") {
        let mut response = refused(StatusCode::BAD_REQUEST);
        let known = HeaderValue::from_static("13");
        response.headers_mut().insert(header::SEC_WEBSOCKET_VERSION, known);
        return Err(response);
    }
    let connection = head.extensions.remove::<OnUpgrade>();
    let key = head.headers.get(header::SEC_WEBSOCKET_KEY);
    let (Some(connection), Some(key)) = (connection, key) else {
        return Err(refused(StatusCode::BAD_REQUEST));
    };
    let mut response = refused(StatusCode::SWITCHING_PROTOCOLS);
    let headers = response.headers_mut();
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    let texts = [
        (header::SEC_WEBSOCKET_ACCEPT, Some(accept_key(key.as_bytes()))),
        (header::SEC_WEBSOCKET_PROTOCOL, protocol.map(str::to_owned)),
    ];
    for (name, value) in texts {
        if let Some(value) = value.and_then(|it| HeaderValue::from_str(&it).ok()) {
            headers.insert(name, value);
        }
    }
    Ok(Accepted { response: *response, connection })
}

fn accept_key(key: &[u8]) -> String {
    let mut digest = sha1_smol::Sha1::new();
    digest.update(key);
    digest.update(b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    STANDARD.encode(digest.digest().bytes())
}

/// Sends until there is nothing more, the client closes, or the server ends.
pub(crate) async fn send_all(
    connection: OnUpgrade,
    messages: impl Stream<Item = Message>,
    shutdown: Shutdown,
) {
    let upgraded = tokio::select! {
        biased;
        () = shutdown.cancelled() => return,
        upgraded = connection => upgraded,
    };
    let Ok(upgraded) = upgraded else { return };
    let limits = Limits::default().max_payload_len(Some(RECEIVED_MAX));
    let mut socket = ServerBuilder::new().limits(limits).serve(TokioIo::new(upgraded));
    let mut messages = pin!(messages);
    loop {
        let message = tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            received = socket.next() => match received {
                Some(Ok(it)) if !it.is_close() => continue,
                _ => return,
            },
            message = messages.next() => message,
        };
        let Some(message) = message else { break };
        match tokio::time::timeout(SEND_MAX, socket.send(message)).await {
            Ok(Ok(())) => {}
            _ => return,
        }
    }
    // A client that does not take the end is none of ours.
    let _ = tokio::time::timeout(SEND_MAX, socket.close()).await;
}

/// A byte stream as messages: an empty one first, by which the client sees that it is connected.
pub(crate) fn messages(
    coding: Coding,
    pieces: impl Stream<Item = Bytes>,
) -> impl Stream<Item = Message> {
    let pieces = pieces.flat_map(|mut bytes: Bytes| {
        let cut = std::iter::from_fn(move || {
            (!bytes.is_empty()).then(|| bytes.split_to(bytes.len().min(PIECE)))
        });
        futures_util::stream::iter(cut)
    });
    let first = futures_util::stream::once(std::future::ready(Bytes::new()));
    first.chain(pieces).map(move |piece| match coding {
        Coding::Binary => Message::binary(piece),
        Coding::Base64 => Message::text(STANDARD.encode(&piece)),
    })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use futures_util::StreamExt as _;
    use http::Request;

    use super::{Coding, PIECE, accept_bytes, accept_key, is_asked_for, messages};

    #[tokio::test]
    async fn a_log_is_an_empty_message_and_then_its_pieces() {
        let log = || futures_util::stream::iter([Bytes::from(vec![b'x'; PIECE + 3]), "y".into()]);
        let sent: Vec<_> = messages(Coding::Binary, log()).collect().await;
        let sizes: Vec<usize> = sent.iter().map(|it| it.as_payload().len()).collect();
        assert_eq!(sizes, [0, PIECE, 3, 1]);
        assert!(sent.iter().all(tokio_websockets::Message::is_binary));
        let sent: Vec<_> = messages(Coding::Base64, log()).collect().await;
        let texts: Vec<_> = sent.iter().filter_map(|it| it.as_text()).collect();
        assert_eq!((texts.len(), texts[0], texts[2], texts[3]), (4, "", "eHh4", "eQ=="));
    }

    #[test]
    fn protocols_that_nobody_knows_are_refused() {
        let check = |protocols: &str, code: u16| {
            let request = Request::builder()
                .header("upgrade", "WebSocket")
                .header("connection", "keep-alive, Upgrade")
                .header("sec-websocket-protocol", protocols)
                .header("sec-websocket-version", "13");
            let (head, ()) = request.body(()).expect("a request").into_parts();
            assert!(is_asked_for(&head));
            let refused = accept_bytes(head).err().expect("there is no connection");
            assert_eq!(refused.status().as_u16(), code, "{protocols:?}");
        };
        check("v4.channel.k8s.io", 403);
        // Known ones come as far as the key, which is not there.
        check("v9, base64.binary.k8s.io", 400);
        check("binary.k8s.io", 400);
        check("", 400);
        // RFC 6455, section 1.3.
        assert_eq!(accept_key(b"dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
