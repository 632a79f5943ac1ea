//! The transport against a small server of our own, over TLS on the loopback interface.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use api::core::config_map::ConfigMap;
use bytes::Bytes;
use futures_util::StreamExt as _;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use lifecycle::Tasks;
use rustls::pki_types::PrivatePkcs8KeyDer;
use stdx::{Pace, World};
use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

use super::{Config, Https};
use crate::{Client, ListOptions};

const OBJECT: &str = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"a","resourceVersion":"7"},"data":{"x":"y"}}"#;
const MISSING: &str = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"configmaps \"b\" not found"}"#;

fn answer(request: &Request<Incoming>, calls: &AtomicUsize) -> (StatusCode, String) {
    let call = calls.fetch_add(1, Ordering::Relaxed);
    if request.headers().get("authorization").is_none_or(|it| it != "Bearer secret") {
        return (StatusCode::UNAUTHORIZED, "who are you?".to_owned());
    }
    let path = request.uri().path_and_query().unwrap().as_str();
    match path {
        "/version" => (StatusCode::OK, format!("{:?}", request.version())),
        // Too busy at first.
        "/api/v1/namespaces/default/configmaps/a" if call == 0 => {
            (StatusCode::TOO_MANY_REQUESTS, String::new())
        }
        "/api/v1/namespaces/default/configmaps/a" => (StatusCode::OK, OBJECT.to_owned()),
        "/api/v1/configmaps?watch=true" => {
            let event = format!(r#"{{"type":"ADDED","object":{OBJECT}}}"#);
            let end =
                r#"{"type":"ERROR","object":{"status":"Failure","reason":"Expired","code":410}}"#;
            (StatusCode::OK, format!("{event}\n{end}\n"))
        }
        _ => (StatusCode::NOT_FOUND, MISSING.to_owned()),
    }
}

/// Serves until the tasks end; returns how to reach it.
async fn serve(tasks: &Tasks, alpn: &[&[u8]]) -> Config {
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key.into())
        .unwrap();
    tls.alpn_protocols = alpn.iter().map(|it| it.to_vec()).collect();
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let calls = Arc::new(AtomicUsize::new(0));
    let connections = tasks.clone();
    tasks.spawn("server", |shutdown| async move {
        while let Some(Ok((tcp, _))) = shutdown.run_until_cancelled(listener.accept()).await {
            let (acceptor, calls) = (acceptor.clone(), calls.clone());
            connections.spawn("connection", |shutdown| async move {
                let Ok(stream) = acceptor.accept(tcp).await else { return };
                let service = service_fn(move |request| {
                    let (code, body) = answer(&request, &calls);
                    let response = Response::builder().status(code).header("retry-after", "1");
                    let response = response.body(Full::new(Bytes::from(body))).unwrap();
                    async move { Ok::<_, Infallible>(response) }
                });
                let builder = auto::Builder::new(TokioExecutor::new());
                let serving = builder.serve_connection(TokioIo::new(stream), service);
                let _ = shutdown.run_until_cancelled(serving).await;
            });
        }
    });
    Config {
        server: format!("https://localhost:{port}"),
        ca_pem: certified.cert.pem().into_bytes(),
        token: Some("secret".to_owned()),
        ..Config::default()
    }
}

async fn check(alpn: &[&[u8]], version: &str) {
    let tasks = Tasks::new();
    let config = serve(&tasks, alpn).await;
    let world = World::system();
    let https = Https::new(&tasks, &world, &config).unwrap();
    let client = Client::new(Arc::new(https), "test");
    let config_maps = client.api::<ConfigMap>();

    let object = config_maps.get("default", "a").await.unwrap();
    assert_eq!(object.data.as_ref().unwrap()["x"], "y");
    assert_eq!(client.get_path("/version").await.unwrap(), version);
    let missing = config_maps.get("default", "b").await.unwrap_err();
    assert_eq!(missing.to_string(), r#"configmaps "b" not found"#);
    assert!(missing.is_not_found());

    let mut watch = config_maps.watch("", ListOptions::default()).await.unwrap();
    assert_eq!(watch.next().await.unwrap().unwrap().object.meta.resource_version, 7);
    assert!(watch.next().await.unwrap().unwrap_err().is_expired());
    assert!(watch.next().await.is_none());

    let stranger = Config { token: None, ..config };
    let https = Https::new(&tasks, &world, &stranger).unwrap();
    let refused = Client::new(Arc::new(https), "test").get_path("/version").await.unwrap_err();
    assert_eq!(refused.code(), 401);
    tasks.shutdown(Duration::from_secs(5)).await.unwrap();
}

#[tokio::test]
async fn everything_works_over_http2() {
    check(&[b"h2", b"http/1.1"], "HTTP/2.0").await;
}

#[tokio::test]
async fn a_server_without_http2_is_spoken_to_in_http1() {
    check(&[b"http/1.1"], "HTTP/1.1").await;
}

#[tokio::test]
async fn calls_wait_for_their_turn_and_watches_do_not() {
    let tasks = Tasks::new();
    let pace = Some(Pace::new(10.0, 2.0));
    let config = Config { pace, ..serve(&tasks, &[b"h2"]).await };
    let https = Https::new(&tasks, &World::system(), &config).unwrap();
    let client = Client::new(Arc::new(https), "test");
    let start = Instant::now();
    for _ in 0..4 {
        client.get_path("/version").await.unwrap();
    }
    assert!(start.elapsed() >= Duration::from_millis(200), "two of them had to wait");
    // The turn of the next call is a tenth of a second away.
    let mut watch = client.api::<ConfigMap>().watch("", ListOptions::default()).await.unwrap();
    assert!(watch.next().await.unwrap().is_ok());
    tasks.shutdown(Duration::from_secs(5)).await.unwrap();
}

#[tokio::test]
async fn a_server_that_is_not_there_is_a_retryable_error() {
    let tasks = Tasks::new();
    let config = Config { server: "http://127.0.0.1:1".to_owned(), ..Config::default() };
    let https = Https::new(&tasks, &World::system(), &config).unwrap();
    let refused = Client::new(Arc::new(https), "test").get_path("/version").await.unwrap_err();
    assert!(refused.is_retryable(), "{refused}");
    assert!(refused.message().starts_with("connecting to 127.0.0.1:1"), "{refused}");
}
