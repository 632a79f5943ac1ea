//! Several servers of one API, of which some are away or break off, over TLS on loopback.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::Resource as _;
use api::core::config_map::ConfigMap;
use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use lifecycle::Tasks;
use rustls::pki_types::PrivatePkcs8KeyDer;
use stdx::World;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;

use super::{Config, Https, Servers};
use crate::{Client, ListOptions};

const OBJECT: &str = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":"a","resourceVersion":"7"}}"#;

/// What all servers of the test show.
struct Cluster {
    ca_pem: String,
    acceptor: TlsAcceptor,
}

/// One of them, until it is stopped.
struct Server {
    address: SocketAddr,
    tasks: Tasks,
    /// What was asked of it.
    asked: Arc<Mutex<Vec<String>>>,
}

impl Cluster {
    fn new(alpn: &[u8]) -> Self {
        let certified = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
        let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certified.cert.der().clone()], key.into())
            .unwrap();
        tls.alpn_protocols = vec![alpn.to_vec()];
        Self { ca_pem: certified.cert.pem(), acceptor: TlsAcceptor::from(Arc::new(tls)) }
    }

    /// Answers with its name; `fragile` ends the connection in place of an answer.
    async fn serve(&self, name: &'static str, at: Option<SocketAddr>, fragile: bool) -> Server {
        let at = at.unwrap_or_else(|| ([127, 0, 0, 1], 0).into());
        let listener = TcpListener::bind(at).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (tasks, acceptor) = (Tasks::new(), self.acceptor.clone());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (connections, noted) = (tasks.clone(), asked.clone());
        tasks.spawn("server", |shutdown| async move {
            while let Some(Ok((tcp, _))) = shutdown.run_until_cancelled(listener.accept()).await {
                let (acceptor, noted) = (acceptor.clone(), noted.clone());
                connections.spawn("connection", |shutdown| async move {
                    let Ok(stream) = acceptor.accept(tcp).await else { return };
                    let broken = Arc::new(Notify::new());
                    let breaks = broken.clone();
                    let service = service_fn(move |request: Request<Incoming>| {
                        let (method, path) = (request.method(), request.uri().path());
                        noted.lock().unwrap().push(format!("{method} {path}"));
                        let is_watch = request.uri().query().is_some_and(|it| it.contains("watch"));
                        let breaks = breaks.clone();
                        async move {
                            if fragile {
                                breaks.notify_one();
                                std::future::pending::<()>().await;
                            }
                            Ok::<_, Infallible>(answer(name, is_watch))
                        }
                    });
                    let builder = auto::Builder::new(TokioExecutor::new());
                    let serving = builder.serve_connection(TokioIo::new(stream), service);
                    tokio::select! {
                        biased;
                        () = shutdown.cancelled() => {}
                        () = broken.notified() => {}
                        _ = serving => {}
                    }
                });
            }
        });
        Server { address, tasks, asked }
    }

    fn client(&self, tasks: &Tasks, first: &Server, others: &Servers) -> Client {
        let config = Config {
            server: format!("https://{}", first.address),
            others: others.clone(),
            ca_pem: self.ca_pem.clone().into_bytes(),
            ..Config::default()
        };
        let https = Https::new(tasks, &World::system(), &config).unwrap();
        Client::new(Arc::new(https), "test")
    }
}

type Body = http_body_util::combinators::UnsyncBoxBody<Bytes, Infallible>;

/// A watch has one event, and goes on.
fn answer(name: &'static str, is_watch: bool) -> Response<Body> {
    if !is_watch {
        return Response::new(Full::new(Bytes::from(name)).boxed_unsync());
    }
    let event = format!("{{\"type\":\"ADDED\",\"object\":{OBJECT}}}\n");
    let event = futures_util::stream::iter([Ok(Frame::data(Bytes::from(event)))]);
    Response::new(StreamBody::new(event.chain(futures_util::stream::pending())).boxed_unsync())
}

impl Server {
    async fn stop(self) -> SocketAddr {
        self.tasks.shutdown(Duration::from_secs(5)).await.unwrap();
        self.address
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

async fn who(client: &Client) -> String {
    String::from_utf8(client.get_path("/version").await.unwrap().to_vec()).unwrap()
}

async fn check_that_the_next_answers(alpn: &[u8]) {
    let (tasks, cluster) = (Tasks::new(), Cluster::new(alpn));
    let (a, b) = (cluster.serve("a", None, false).await, cluster.serve("b", None, false).await);
    let others = Servers::new(&[b.address]);
    let client = cluster.client(&tasks, &a, &others);
    assert_eq!(who(&client).await, "a");
    let at = a.stop().await;
    assert_eq!(who(&client).await, "b");
    // It is there again, and nobody leaves who answers.
    let again = cluster.serve("a again", Some(at), false).await;
    assert_eq!(who(&client).await, "b");
    b.stop().await;
    assert_eq!(who(&client).await, "a again");
    // One that was not known when the client was made.
    let c = cluster.serve("c", None, false).await;
    others.set(&[c.address]);
    again.stop().await;
    assert_eq!(who(&client).await, "c");
    tasks.shutdown(Duration::from_secs(5)).await.unwrap();
}

#[tokio::test]
async fn the_next_server_answers_when_one_is_gone() {
    check_that_the_next_answers(b"h2").await;
}

#[tokio::test]
async fn the_next_server_answers_over_http1_too() {
    check_that_the_next_answers(b"http/1.1").await;
}

async fn check_that_only_reads_are_repeated(alpn: &[u8]) {
    let (tasks, cluster) = (Tasks::new(), Cluster::new(alpn));
    let (a, b) = (cluster.serve("a", None, true).await, cluster.serve("b", None, false).await);
    let others = Servers::new(&[b.address]);
    // It may have been carried out, so that whoever asked has to look.
    let map = ConfigMap::decode(OBJECT.as_bytes()).unwrap();
    let written = cluster.client(&tasks, &a, &others).api::<ConfigMap>().create(map).await;
    let err = written.expect_err("nobody has answered");
    assert!(err.is_retryable(), "{err}");
    assert_eq!(a.asked(), ["POST /api/v1/namespaces/default/configmaps"]);
    assert!(b.asked().is_empty(), "{:?}", b.asked());
    assert_eq!(who(&cluster.client(&tasks, &a, &others)).await, "b");
    assert_eq!((a.asked().len(), b.asked()), (2, vec!["GET /version".to_owned()]));
    tasks.shutdown(Duration::from_secs(5)).await.unwrap();
}

#[tokio::test]
async fn what_may_have_happened_is_not_sent_to_another_server() {
    check_that_only_reads_are_repeated(b"h2").await;
    check_that_only_reads_are_repeated(b"http/1.1").await;
}

#[tokio::test]
async fn a_watch_ends_with_its_server_and_goes_on_at_another() {
    let (tasks, cluster) = (Tasks::new(), Cluster::new(b"h2"));
    let (a, b) = (cluster.serve("a", None, false).await, cluster.serve("b", None, false).await);
    let client = cluster.client(&tasks, &a, &Servers::new(&[b.address]));
    let maps = client.api::<ConfigMap>();
    let mut watch = maps.watch("", ListOptions::default()).await.unwrap();
    assert_eq!(watch.try_next().await.unwrap().unwrap().object.meta.resource_version, 7);
    a.stop().await;
    let err = watch.try_next().await.map(drop).expect_err("the server is gone");
    assert!(err.is_retryable(), "{err}");
    let mut watch = maps.watch("", ListOptions::default()).await.unwrap();
    assert_eq!(watch.try_next().await.unwrap().unwrap().object.meta.resource_version, 7);
    assert_eq!(b.asked(), ["GET /api/v1/configmaps"]);
    drop(watch);
    tasks.shutdown(Duration::from_secs(5)).await.unwrap();
}
