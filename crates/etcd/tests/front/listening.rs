//! Where and to whom it listens: TLS, client certificates, loopback, probes, and an orderly end.

use std::sync::Arc;

use etcd::front::{self, Config};
use etcd::wire::channel::{CallError, Channel, Endpoint, Timing};
use etcd::wire::messages::*;
use etcd::wire::tls::{self, Identity};
use etcd::wire::{Code, methods};
use kvstore::memory::Memory;
use lifecycle::Tasks;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::harness::{PATIENCE, Server, put, watch_of};

struct Authority {
    pem: Vec<u8>,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem().into_bytes();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    fn issue(&self, name: &str) -> Identity {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let key_pem = key.serialize_pem().into_bytes();
        Identity { certificate_pem: certificate.pem().into_bytes(), key_pem }
    }
}

async fn call(
    port: u16,
    ca: &[u8],
    identity: Option<&Identity>,
    tasks: &Tasks,
) -> Result<i64, String> {
    let tls = Some(tls::client_config(ca, identity).unwrap());
    let endpoint = Endpoint { host: "localhost".to_owned(), port, tls };
    let channel = Channel::connect(&endpoint, Timing::default(), tasks).await;
    let channel = channel.map_err(|err| err.to_string())?;
    let status = channel.unary(methods::STATUS, &StatusRequest {}).await;
    Ok(status.map_err(|err| err.to_string())?.header.unwrap().revision)
}

#[tokio::test]
async fn only_clients_of_the_ca_are_served() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let tasks = Tasks::new();
    let mut config = Config::new(vec!["https://localhost:0".to_owned()], "seed");
    config.identity = Some(ours.issue("localhost"));
    config.client_ca_pem = Some(ours.pem.clone());
    let serving = front::serve(Arc::new(Memory::new()), config, &tasks).await.unwrap();
    let port = serving.addresses[0].port();
    let trusted = ours.issue("client");
    assert_eq!(call(port, &ours.pem, Some(&trusted), &tasks).await, Ok(1));
    assert!(call(port, &ours.pem, None, &tasks).await.is_err());
    assert!(call(port, &ours.pem, Some(&theirs.issue("client")), &tasks).await.is_err());
    assert!(call(port, &theirs.pem, Some(&trusted), &tasks).await.is_err());
    tasks.shutdown(PATIENCE).await.unwrap();
}

#[tokio::test]
async fn plain_http_stays_on_loopback() {
    let check = async |url: &str, expected: &str| {
        let tasks = Tasks::new();
        let config = Config::new(vec![url.to_owned()], "seed");
        let served = front::serve(Arc::new(Memory::new()), config, &tasks).await;
        let outcome = served.map_or_else(|err| err.to_string(), |_| "served".to_owned());
        assert!(outcome.contains(expected), "{url}: {outcome}");
        tasks.shutdown(PATIENCE).await.unwrap();
    };
    check("http://127.0.0.1:0", "served").await;
    check("http://[::1]:0", "served").await;
    check("http://0.0.0.0:0", "on loopback addresses only").await;
    check("https://127.0.0.1:0", "needs a certificate").await;
    check("unix:///socket", "must be https://HOST:PORT").await;
    check("127.0.0.1:0", "must be https://HOST:PORT").await;
}

async fn get(port: u16, path: &str) -> String {
    let mut tcp = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    tcp.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    tcp.read_to_string(&mut response).await.unwrap();
    response
}

#[tokio::test]
async fn probes_are_answered_over_http1() {
    let server = Server::memory().await;
    let health = get(server.port, "/health").await;
    assert!(health.starts_with("HTTP/1.1 200 OK\r\n") && health.ends_with(r#"{"health":"true"}"#));
    let version = get(server.port, "/version").await;
    assert!(version.contains(r#""etcdcluster":"3.5.0""#), "{version}");
    assert!(get(server.port, "/other").await.starts_with("HTTP/1.1 404"));
    server.stop().await;
}

#[tokio::test]
async fn stopping_ends_streams_with_a_status_and_frees_the_port() {
    let server = Server::memory().await;
    let mut watch = server.watch(watch_of("a", 0)).await;
    watch.line().await;
    let (port, channel) = (server.port, server.channel.clone());
    // The client's connection is in another tree, so that only the server stops.
    let (clients, endpoint) = (Tasks::new(), crate::harness::plain(port));
    let other = Channel::connect(&endpoint, Timing::default(), &clients).await.unwrap();
    put(&other, "b", "1").await;
    let mut watch = crate::harness::WatchStream::open(&other, watch_of("a", 0)).await;
    watch.line().await;
    server.stop().await;
    match watch.responses.next().await {
        Err(CallError::Status(status)) => assert_eq!(status.code, Code::Unavailable),
        other => panic!("expected a status, not {other:?}"),
    }
    channel.closed().await;
    assert!(TcpStream::connect(("127.0.0.1", port)).await.is_err());
    clients.shutdown(PATIENCE).await.unwrap();
}
