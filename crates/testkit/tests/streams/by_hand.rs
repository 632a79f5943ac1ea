//! Protocols that kubectl does not speak any more, spoken by hand as kube-rs, the Python client and
//! browsers do.

use std::sync::Arc;

use authn::pki::client_config;
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
    let identity = site.identity(user.0, user.1);
    let mut tls = client_config(site.authority.certificate_pem(), Some(&identity)).unwrap();
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    let stream = TcpStream::connect(site.api_address).await.unwrap();
    let name = "localhost".try_into().unwrap();
    let stream = TlsConnector::from(Arc::new(tls)).connect(name, stream).await.unwrap();
    let uri = format!("wss://localhost/api/v1/namespaces/default/pods/{path}");
    let name = HeaderName::from_static("sec-websocket-protocol");
    let builder = ClientBuilder::new().uri(&uri).unwrap();
    let builder = builder.add_header(name, HeaderValue::from_str(protocol).unwrap()).unwrap();
    let (socket, response) = builder.connect_on(stream).await?;
    assert_eq!(response.headers()["sec-websocket-protocol"], protocol);
    Ok(socket)
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
