//! A server on a port, and clients that speak HTTP to it.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use admission::Plugin;
use apiserver::Config;
use authn::pki::{Authority, Identity, Rotating, Trust, client_config, trusting_server_config};
use bytes::Bytes;
use http::response::Parts;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use stdx::World;
use tokio::net::{TcpListener, TcpStream};

use crate::harness::{self, Harness};

pub(crate) struct Site {
    pub(crate) harness: Harness,
    pub(crate) authority: Authority,
    address: SocketAddr,
}

enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

pub(crate) struct Connection {
    sender: Sender,
}

/// Who connects: a user of a certificate with its groups, or nobody.
pub(crate) type Who<'a> = Option<(&'a str, &'a [&'a str])>;

pub(crate) const ADMIN: Who<'static> = Some(("admin", &["system:masters"]));

impl Site {
    pub(crate) async fn start() -> Self {
        Self::start_over(Arc::new(kvstore::memory::Memory::new())).await
    }

    pub(crate) async fn start_over(store: Arc<dyn kvstore::Store>) -> Self {
        Self::start_with(store, Vec::new()).await
    }

    /// With admission plugins beside the built-in ones.
    pub(crate) async fn start_with(
        store: Arc<dyn kvstore::Store>,
        plugins: Vec<Arc<dyn Plugin>>,
    ) -> Self {
        Self::start_configured(store, plugins, |_, _| harness::everything()).await
    }

    /// With a configuration that knows the authority of clients.
    pub(crate) async fn start_configured(
        store: Arc<dyn kvstore::Store>,
        plugins: Vec<Arc<dyn Plugin>>,
        configure: impl FnOnce(&World, &Authority) -> Config,
    ) -> Self {
        let world = World::system();
        let now = world.clock.now();
        let authority = Authority::create("test", now, &world.random).expect("an authority");
        let config = configure(&world, &authority);
        let trust = config.front_proxy.trust.clone();
        let harness = harness::try_start_with(world.clone(), store, config, plugins).await;
        let harness = harness.expect("the server starts");
        let address: IpAddr = [127, 0, 0, 1].into();
        let server = authority
            .issue_server("server", &["localhost"], &[address], now, &world.random)
            .expect("a certificate");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let trust = trust.unwrap_or_else(|| {
            Trust::new(authority.certificate_pem(), None).expect("an authority")
        });
        let identity = Rotating::new(&server).expect("an identity");
        let tls = trusting_server_config(identity, trust).expect("TLS");
        harness.server.serve(listener, Arc::new(tls));
        Self { harness, authority, address }
    }

    pub(crate) async fn connect(&self, who: Who<'_>) -> Connection {
        let stream = TokioIo::new(self.stream(who, b"http/1.1").await);
        let (sender, connection) = http1::handshake(stream).await.expect("HTTP");
        self.harness.tasks.spawn("test-client", |_| async move {
            let _ = connection.await;
        });
        Connection { sender: Sender::Http1(sender) }
    }

    pub(crate) async fn connect_http2(&self, who: Who<'_>) -> Connection {
        let stream = TokioIo::new(self.stream(who, b"h2").await);
        let (sender, connection) =
            http2::handshake(TokioExecutor::new(), stream).await.expect("HTTP/2");
        self.harness.tasks.spawn("test-client", |_| async move {
            let _ = connection.await;
        });
        Connection { sender: Sender::Http2(sender) }
    }

    /// A connection that speaks nothing yet.
    pub(crate) async fn stream(
        &self,
        who: Who<'_>,
        protocol: &[u8],
    ) -> tokio_rustls::client::TlsStream<TcpStream> {
        let world = &self.harness.world;
        let identity = who.map(|(name, groups)| {
            let now = world.clock.now();
            self.authority.issue_client(name, groups, now, &world.random).expect("a certificate")
        });
        self.stream_as(identity, protocol).await
    }

    /// With any certificate.
    pub(crate) async fn connect_as(&self, identity: Identity) -> Connection {
        let stream = TokioIo::new(self.stream_as(Some(identity), b"http/1.1").await);
        let (sender, connection) = http1::handshake(stream).await.expect("HTTP");
        self.harness.tasks.spawn("test-client", |_| async move {
            let _ = connection.await;
        });
        Connection { sender: Sender::Http1(sender) }
    }

    async fn stream_as(
        &self,
        identity: Option<Identity>,
        protocol: &[u8],
    ) -> tokio_rustls::client::TlsStream<TcpStream> {
        let ca = self.authority.certificate_pem();
        let mut tls = client_config(ca, identity.as_ref()).expect("TLS");
        tls.alpn_protocols = vec![protocol.to_vec()];
        let connector = tokio_rustls::TlsConnector::from(Arc::new(tls));
        let stream = TcpStream::connect(self.address).await.expect("connected");
        let name = "localhost".try_into().expect("a name");
        connector.connect(name, stream).await.expect("a handshake")
    }
}

impl Connection {
    /// The head of the answer, and the body still to come.
    pub(crate) async fn open(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> (Parts, Incoming) {
        let uri = match self.sender {
            Sender::Http1(_) => path.to_owned(),
            Sender::Http2(_) => format!("https://localhost{path}"),
        };
        let mut request = http::Request::builder().method(method).uri(uri);
        if matches!(self.sender, Sender::Http1(_)) {
            request = request.header("host", "localhost");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body)).expect("a request");
        let response = match &mut self.sender {
            Sender::Http1(sender) => sender.send_request(request).await,
            Sender::Http2(sender) => sender.send_request(request).await,
        };
        response.expect("a response").into_parts()
    }

    pub(crate) async fn send_bytes(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> (Parts, Bytes) {
        let (head, body) = self.open(method, path, headers, body).await;
        (head, body.collect().await.expect("a body").to_bytes())
    }

    pub(crate) async fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> (Parts, Bytes) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.send_bytes(method, path, headers, body.into()).await
    }

    /// The code and the body as JSON, or as a string if it is none. A PATCH is a merge.
    pub(crate) async fn call(&mut self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let kind =
            if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let (head, body) = self.send(method, path, &[("content-type", kind)], body).await;
        (head.status.as_u16(), value_of(&body))
    }

    pub(crate) async fn get(&mut self, path: &str, accept: &str) -> (u16, Value) {
        let (head, body) = self.send("GET", path, &[("accept", accept)], &Value::Null).await;
        (head.status.as_u16(), value_of(&body))
    }
}

fn value_of(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap_or_else(|_| json!(String::from_utf8_lossy(body)))
}
