//! Protocols that kubectl does not speak any more, spoken by hand as kube-rs, the Python client and
//! browsers do.

use std::sync::Arc;

use authn::pki::client_config;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::{SinkExt as _, StreamExt as _};
use http::{HeaderName, HeaderValue};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_websockets::{ClientBuilder, Error, Message, WebSocketStream};

use crate::site::Site;

type Socket = WebSocketStream<TlsStream<TcpStream>>;

async fn open(
    site: &Site,
    user: (&str, &[&str]),
    path: &str,
    protocol: &str,
) -> Result<Socket, Error> {
    let (socket, agreed) = open_offering(site, user, path, Some(protocol)).await?;
    assert_eq!(agreed.as_deref(), Some(protocol));
    Ok(socket)
}

/// With these protocols or none; and what the server agreed to.
async fn open_offering(
    site: &Site,
    user: (&str, &[&str]),
    path: &str,
    protocols: Option<&str>,
) -> Result<(Socket, Option<String>), Error> {
    let identity = site.identity(user.0, user.1);
    let mut tls = client_config(site.authority.certificate_pem(), Some(&identity)).unwrap();
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    let stream = TcpStream::connect(site.api_address).await.unwrap();
    let name = "localhost".try_into().unwrap();
    let stream = TlsConnector::from(Arc::new(tls)).connect(name, stream).await.unwrap();
    let uri = format!("wss://localhost/api/v1/namespaces/default/pods/{path}");
    let name = HeaderName::from_static("sec-websocket-protocol");
    let mut builder = ClientBuilder::new().uri(&uri).unwrap();
    if let Some(protocols) = protocols {
        let value = HeaderValue::from_str(protocols).unwrap();
        builder = builder.add_header(name.clone(), value).unwrap();
    }
    let (socket, response) = builder.connect_on(stream).await?;
    let agreed = response.headers().get(name).map(|it| it.to_str().unwrap().to_owned());
    Ok((socket, agreed))
}

const ADMIN: (&str, &[&str]) = ("admin", &["system:masters"]);

/// Everything until the server closes: what came on each channel.
async fn read_all(socket: &mut Socket) -> [Vec<u8>; 4] {
    let mut channels: [Vec<u8>; 4] = Default::default();
    while let Some(Ok(message)) = socket.next().await {
        if message.is_binary() {
            let payload = message.into_payload();
            channels[usize::from(payload[0])].extend_from_slice(&payload[1..]);
        }
    }
    channels
}

#[tokio::test(flavor = "multi_thread")]
async fn a_channel_can_be_closed_since_v5() {
    let site = Site::start().await;
    let path = "web/exec?command=cat&stdin=true&stdout=true&stderr=true";
    let mut socket = open(&site, ADMIN, path, "v5.channel.k8s.io").await.unwrap();
    socket.send(Message::binary(&b"\0hello"[..])).await.unwrap();
    socket.send(Message::binary(&[255u8, 0][..])).await.unwrap();
    let [_, stdout, stderr, error] = read_all(&mut socket).await;
    assert_eq!((&stdout[..], &stderr[..]), (&b"hello"[..], &b""[..]));
    let status: Value = serde_json::from_slice(&error).unwrap();
    assert_eq!(status, json!({"metadata": {}, "status": "Success"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exit_code_is_a_cause() {
    let site = Site::start().await;
    let path = "web/exec?command=sh&command=-c&command=exit+7&stdout=true";
    let mut socket = open(&site, ADMIN, path, "v4.channel.k8s.io").await.unwrap();
    let status: Value = serde_json::from_slice(&read_all(&mut socket).await[3]).unwrap();
    assert_eq!(
        status,
        json!({
            "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
            "message": "command terminated with exit code 7",
            "details": {"causes": [{"reason": "ExitCode", "message": "7"}]},
        })
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn ports_are_forwarded_over_channels() {
    let site = Site::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let path = format!("web/portforward?ports={port}");
    let mut socket = open(&site, ADMIN, &path, "v4.channel.k8s.io").await.unwrap();
    socket.send(Message::binary(&b"\0ping"[..])).await.unwrap();
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut ping = [0; 4];
    stream.read_exact(&mut ping).await.unwrap();
    assert_eq!(&ping, b"ping");
    stream.write_all(b"pong").await.unwrap();
    drop(stream);
    let [data, error, ..] = read_all(&mut socket).await;
    let number = port.to_le_bytes();
    assert_eq!(data, [&number[..], b"pong"].concat());
    assert_eq!(error, number);
}

/// Over WebSocket a GET does what a POST does: who may only `get` is refused.
#[tokio::test(flavor = "multi_thread")]
async fn a_websocket_needs_the_permission_to_create() {
    let site = Site::start().await;
    let rules =
        |verbs: &[&str]| json!([{"apiGroups": [""], "resources": ["pods/exec"], "verbs": verbs}]);
    for (name, verbs) in [("reader", ["get"].as_slice()), ("user", &["get", "create"])] {
        site.grant(name, &rules(verbs)).await;
    }
    let path = "web/exec?command=true&stdout=true";
    let refused = open(&site, ("reader", &[]), path, "v4.channel.k8s.io").await;
    assert!(refused.is_err());
    let mut socket = open(&site, ("user", &[]), path, "v4.channel.k8s.io").await.unwrap();
    assert!(read_all(&mut socket).await[3].ends_with(b"\"status\":\"Success\"}"));
}

/// Everything until the server closes, message by message.
async fn read_messages(mut socket: Socket) -> Vec<Message> {
    let mut messages = Vec::new();
    while let Some(Ok(message)) = socket.next().await {
        if !message.is_close() {
            messages.push(message);
        }
    }
    messages
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_comes_in_the_form_that_was_agreed_to() {
    let site = Site::start().await;
    site.log("2026-01-01T00:00:00.000000001Z stdout F one\n");
    site.log("2026-01-01T00:00:00.000000002Z stderr F t\u{e4}o\n");
    let text = "one\nt\u{e4}o\n";
    for (offered, agreed) in [
        (None, None),
        (Some("binary.k8s.io"), Some("binary.k8s.io")),
        (Some("v4.channel.k8s.io, binary.k8s.io"), Some("binary.k8s.io")),
    ] {
        let opened = open_offering(&site, ADMIN, "web/log", offered).await;
        let (socket, protocol) = opened.unwrap();
        assert_eq!(protocol.as_deref(), agreed, "{offered:?}");
        let messages = read_messages(socket).await;
        assert!(messages.iter().all(Message::is_binary), "{offered:?}");
        // The first says that the connection stands.
        assert!(messages[0].as_payload().is_empty(), "{offered:?}");
        let sent: Vec<u8> = messages.iter().flat_map(|it| it.as_payload().to_vec()).collect();
        assert_eq!(String::from_utf8(sent).unwrap(), text, "{offered:?}");
    }
    let offered = Some("base64.binary.k8s.io");
    let (socket, protocol) = open_offering(&site, ADMIN, "web/log", offered).await.unwrap();
    assert_eq!(protocol.as_deref(), offered);
    let messages = read_messages(socket).await;
    assert_eq!(messages[0].as_text(), Some(""));
    let decode = |it: &Message| STANDARD.decode(it.as_text().unwrap()).unwrap();
    let sent: Vec<u8> = messages.iter().flat_map(decode).collect();
    assert_eq!(String::from_utf8(sent).unwrap(), text);
    // Which of the channels a log would be on is said nowhere.
    let refused = open_offering(&site, ADMIN, "web/log", Some("v4.channel.k8s.io")).await;
    assert!(refused.err().unwrap().to_string().contains("403"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_is_followed_until_the_client_leaves() {
    let site = Site::start().await;
    site.log("2026-01-01T00:00:00.000000001Z stdout F one\n");
    let path = "web/log?follow=true&tailLines=1";
    let (mut socket, _) = open_offering(&site, ADMIN, path, None).await.unwrap();
    let mut read = Vec::new();
    let mut is_more_written = false;
    while read != b"one\ntwo\n" {
        let message = socket.next().await.unwrap().unwrap();
        read.extend_from_slice(message.as_payload());
        if read == b"one\n" && !is_more_written {
            is_more_written = true;
            site.log("2026-01-01T00:00:00.000000002Z stdout F two\n");
        }
    }
    socket.close().await.unwrap();
}

/// A log is read: over WebSocket it takes the verb that it takes otherwise.
#[tokio::test(flavor = "multi_thread")]
async fn a_log_over_a_websocket_needs_the_permission_to_read_it() {
    let site = Site::start().await;
    let rules = json!([{"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]}]);
    site.grant("reader", &rules).await;
    site.log("2026-01-01T00:00:00.000000001Z stdout F one\n");
    let opened = open_offering(&site, ("reader", &[]), "web/log", None).await;
    let messages = read_messages(opened.unwrap().0).await;
    assert_eq!(messages.last().unwrap().as_payload().as_ref(), b"one\n");
    let refused = open_offering(&site, ("stranger", &[]), "web/log", None).await;
    assert!(refused.err().unwrap().to_string().contains("403"));
}
