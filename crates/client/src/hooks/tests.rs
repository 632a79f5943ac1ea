//! The caller against small servers of our own, over TLS on the loopback interface.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::BoxBody};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use lifecycle::Tasks;
use rcgen::{CertificateParams, CertifiedKey, DnType, KeyPair};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use stdx::Random;
use telemetry::Registry;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::{Caller, Credentials, Place, Resolve, Target, Ways};
use crate::kubeconfig;

const TIMEOUT: Duration = Duration::from_secs(10);
const SERVICE: &str = "hook.tools.svc";

/// What was asked: `POST path agent`, and whatever else it showed of who asks, in order; and how
/// many connections there were.
#[derive(Default)]
struct Seen {
    asked: Mutex<Vec<String>>,
    connections: AtomicUsize,
}

struct Server {
    tasks: Tasks,
    address: SocketAddr,
    authority: Vec<u8>,
    seen: Arc<Seen>,
    /// Whom it knows: certificate and key.
    clients: Vec<(String, String)>,
}

/// Somebody with a certificate of their own.
fn client() -> (CertificateDer<'static>, (String, String)) {
    let certified = rcgen::generate_simple_self_signed(vec!["client".to_owned()]).unwrap();
    let pem = (certified.cert.pem(), certified.signing_key.serialize_pem());
    (certified.cert.der().clone(), pem)
}

fn text(status: u16, text: &str) -> Response<BoxBody<Bytes, Infallible>> {
    let body = Full::new(Bytes::from(text.to_owned())).boxed();
    Response::builder().status(status).body(body).unwrap()
}

async fn answer(
    request: Request<Incoming>,
    seen: Arc<Seen>,
) -> Result<Response<BoxBody<Bytes, Infallible>>, Infallible> {
    let agent = request.headers()["user-agent"].to_str().unwrap().to_owned();
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let path = head.uri.path_and_query().unwrap().to_string();
    let mut asked = format!("{} {path} {agent}", head.method);
    for shown in head.headers.get("authorization").into_iter().chain(head.extensions.get()) {
        asked.push(' ');
        asked.push_str(shown.to_str().unwrap());
    }
    seen.asked.lock().unwrap().push(asked);
    Ok(match head.uri.path() {
        "/echo" => text(200, std::str::from_utf8(&body).unwrap()),
        "/once" => {
            let mut response = text(200, "once");
            response.headers_mut().insert("connection", "close".parse().unwrap());
            response
        }
        "/moved" => {
            let mut response = text(302, "secret");
            response.headers_mut().insert("location", "/echo".parse().unwrap());
            response
        }
        "/broken" => text(500, "oh no\n"),
        "/status" => text(403, r#"{"kind":"Status","message":"not you"}"#),
        "/endless" => {
            let frames = stream::repeat_with(|| Ok(Frame::data(Bytes::from(vec![b'x'; 1 << 16]))));
            Response::new(StreamBody::new(frames).boxed())
        }
        "/hang" => std::future::pending().await,
        _ => text(404, ""),
    })
}

/// Serves until the tasks end, under `names`.
async fn serve(names: &[&str]) -> Server {
    let names: Vec<String> = names.iter().map(|it| (*it).to_owned()).collect();
    serve_as(&rcgen::generate_simple_self_signed(names).unwrap()).await
}

async fn serve_as(certified: &CertifiedKey<KeyPair>) -> Server {
    let key = PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let (certificates, clients): (Vec<_>, Vec<_>) = (0..2).map(|_| client()).unzip();
    let mut known = rustls::RootCertStore::empty();
    known.add_parsable_certificates(certificates.clone());
    let verifier = WebPkiClientVerifier::builder_with_provider(known.into(), provider.clone())
        .allow_unauthenticated()
        .build()
        .unwrap();
    let tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![certified.cert.der().clone()], key.into())
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (tasks, seen) = (Tasks::new(), Arc::new(Seen::default()));
    let (connections, counted) = (tasks.clone(), seen.clone());
    tasks.spawn("server", |shutdown| async move {
        while let Some(Ok((tcp, _))) = shutdown.run_until_cancelled(listener.accept()).await {
            let (acceptor, seen) = (acceptor.clone(), counted.clone());
            let certificates = certificates.clone();
            seen.connections.fetch_add(1, Ordering::Relaxed);
            connections.spawn("connection", |shutdown| async move {
                let Ok(stream) = acceptor.accept(tcp).await else { return };
                let shown = stream.get_ref().1.peer_certificates().and_then(|it| it.first());
                let who = certificates.iter().position(|it| Some(it) == shown);
                let who = who.map(|it| HeaderValue::from(it as u64));
                let service = service_fn(move |mut request: Request<Incoming>| {
                    if let Some(who) = &who {
                        request.extensions_mut().insert(who.clone());
                    }
                    answer(request, seen.clone())
                });
                let serving = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
                let _ = shutdown.run_until_cancelled(serving).await;
            });
        }
    });
    Server { tasks, address, authority: certified.cert.pem().into_bytes(), seen, clients }
}

/// One answer for every Service.
struct Fixed(Mutex<Result<Ways, String>>);

impl Resolve for Fixed {
    fn resolve(&self, _: &str, _: &str, _: u16) -> Result<Ways, String> {
        self.0.lock().unwrap().clone()
    }
}

fn caller(tasks: &Tasks, ways: Result<Ways, String>) -> (Caller, Arc<Fixed>) {
    counting(tasks, ways, &Registry::default())
}

fn counting(tasks: &Tasks, ways: Result<Ways, String>, metrics: &Registry) -> (Caller, Arc<Fixed>) {
    let fixed = Arc::new(Fixed(Mutex::new(ways)));
    (Caller::new(tasks, &Random::from_seed(1), fixed.clone(), metrics), fixed)
}

fn endpoints(addresses: &[SocketAddr]) -> Result<Ways, String> {
    Ok(Ways { endpoints: addresses.to_vec(), ..Ways::default() })
}

fn service(server: &Server, path: &str) -> Target {
    let place = Place::Service {
        namespace: "tools".to_owned(),
        name: "hook".to_owned(),
        port: 443,
        path: path.to_owned(),
    };
    Target::new(place, &server.authority)
}

async fn ask(caller: &Caller, target: &Target, answer_max: usize) -> Result<String, String> {
    let answer = caller.post(target, Bytes::from_static(b"{}"), TIMEOUT, answer_max).await;
    let answer = answer.map_err(|it| it.to_string())?;
    Ok(String::from_utf8(answer.to_vec()).unwrap())
}

/// A port that nobody listens on.
async fn nobody() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

#[tokio::test]
async fn a_connection_is_used_again() {
    let server = serve(&[SERVICE]).await;
    let (caller, _) = caller(&server.tasks, endpoints(&[server.address]));
    let target = service(&server, "/echo");
    for _ in 0..3 {
        assert_eq!(ask(&caller, &target, 100).await.unwrap(), "{}");
    }
    assert_eq!(server.seen.connections.load(Ordering::Relaxed), 1);
    let asked = "POST /echo?timeout=10s kube-apiserver-admission";
    assert_eq!(*server.seen.asked.lock().unwrap(), [asked; 3]);
    // What the server closes is not used again.
    let target = service(&server, "once");
    for _ in 0..2 {
        assert_eq!(ask(&caller, &target, 100).await.unwrap(), "once");
    }
    assert_eq!(server.seen.connections.load(Ordering::Relaxed), 3);
    server.tasks.shutdown(TIMEOUT).await.unwrap();
}

#[tokio::test]
async fn what_is_no_endpoint_any_more_is_not_asked() {
    let (first, second) = (serve(&[SERVICE]).await, serve(&[SERVICE]).await);
    let (caller, fixed) = caller(&first.tasks, endpoints(&[first.address]));
    let both = [first.authority.clone(), second.authority.clone()].concat();
    let place = service(&first, "/echo").place().clone();
    let target = Target::new(place, &both);
    ask(&caller, &target, 100).await.unwrap();
    *fixed.0.lock().unwrap() = endpoints(&[second.address]);
    ask(&caller, &target, 100).await.unwrap();
    assert_eq!(first.seen.asked.lock().unwrap().len(), 1);
    assert_eq!(second.seen.asked.lock().unwrap().len(), 1);
    *fixed.0.lock().unwrap() = endpoints(&[]);
    let why = ask(&caller, &target, 100).await.unwrap_err();
    assert_eq!(
        why,
        "Post \"https://hook.tools.svc:443/echo?timeout=10s\": no endpoints available for service \
         \"hook\" (see why no pod behind it is ready: kubectl --namespace tools get \
         endpointslices,pods)"
    );
}

#[tokio::test]
async fn without_a_way_to_an_endpoint_the_address_of_the_service_is_tried() {
    let server = serve(&[SERVICE]).await;
    let dead = nobody().await;
    let ways = Ways { cluster_address: Some(server.address), ..endpoints(&[dead]).unwrap() };
    let (reaching, _) = caller(&server.tasks, Ok(ways));
    let target = service(&server, "/echo");
    assert_eq!(ask(&reaching, &target, 100).await.unwrap(), "{}");
    let (lost, _) = caller(&server.tasks, endpoints(&[dead]));
    let why = ask(&lost, &service(&server, "/echo"), 100).await.unwrap_err();
    let url = "https://hook.tools.svc:443/echo?timeout=10s";
    assert_eq!(why, format!("Post {url:?}: dial tcp {dead}: connect: connection refused"));
    // A Service that is another name is asked there.
    let external = Some(("localhost".to_owned(), server.address.port()));
    let (elsewhere, _) = caller(&server.tasks, Ok(Ways { external, ..Ways::default() }));
    assert_eq!(ask(&elsewhere, &service(&server, "/echo"), 100).await.unwrap(), "{}");
}

#[tokio::test]
async fn only_who_has_the_name_from_the_authority_is_talked_to() {
    let server = serve(&["other.tools.svc"]).await;
    let (caller, _) = caller(&server.tasks, endpoints(&[server.address]));
    let why = ask(&caller, &service(&server, "/echo"), 100).await.unwrap_err();
    let wanted = "tls: failed to verify certificate: x509: certificate is valid for \
                  other.tools.svc, not hook.tools.svc";
    assert!(why.ends_with(wanted), "{why}");
    let stranger = serve(&[SERVICE]).await;
    let why = ask(&caller, &service(&stranger, "/echo"), 100).await.unwrap_err();
    let wanted = "tls: failed to verify certificate: x509: certificate signed by unknown authority";
    assert!(why.ends_with(wanted), "{why}");
    let place = service(&server, "/echo").place().clone();
    for bundle in [b"".as_slice(), b"-----BEGIN nothing"] {
        assert!(ask(&caller, &Target::new(place.clone(), bundle), 100).await.is_err());
    }
    assert!(server.seen.asked.lock().unwrap().is_empty(), "before anybody was asked anything");
}

#[tokio::test]
async fn answers_that_are_none_say_why() {
    let server = serve(&["localhost"]).await;
    let (caller, _) = caller(&server.tasks, Err("not asked".to_owned()));
    let at = |path: &str| {
        let url = format!("https://localhost:{}{path}", server.address.port());
        Target::new(Place::Url { url }, &server.authority)
    };
    for (path, why) in [
        ("/moved", "the server responded with the status code 302, and redirects are not followed"),
        ("/broken", "an error on the server (\"oh no\") has prevented the request from succeeding"),
        ("/status", "not you"),
        ("/none", "the server could not find the requested resource"),
    ] {
        assert_eq!(ask(&caller, &at(path), 100).await.unwrap_err(), why, "{path}");
    }
    let n_asked = server.seen.asked.lock().unwrap().len();
    assert_eq!(n_asked, 4, "a redirect is not followed");
    let why = ask(&caller, &at("/endless"), 1 << 20).await.unwrap_err();
    assert!(why.ends_with("the answer has more than 1048576 bytes"), "{why}");
    let late = caller.post(&at("/hang"), Bytes::new(), Duration::from_millis(1100), 100).await;
    let late = late.unwrap_err();
    let url = format!("https://localhost:{}/hang?timeout=2s", server.address.port());
    assert_eq!(late.to_string(), format!("Post {url:?}: context deadline exceeded"));
    assert!(late.is_late() && late.code() == StatusCode::SERVICE_UNAVAILABLE.as_u16());
}

/// A kubeconfig with one user for everybody, in a folder that has these files.
fn known_as(folder: &std::path::Path, user: &str, files: &[(&str, &str)]) -> Credentials {
    for (name, text) in files {
        std::fs::write(folder.join(name), text).unwrap();
    }
    let text = format!("users:\n- {{name: '*.tools.svc', user: {user}}}\n");
    Credentials::new(&kubeconfig::users(&text).unwrap(), folder).unwrap()
}

/// What was shown since the last time.
fn shown(server: &Server) -> Vec<String> {
    let asked = std::mem::take(&mut *server.seen.asked.lock().unwrap());
    let own = "POST /echo?timeout=10s kube-apiserver-admission";
    asked.iter().map(|it| it.strip_prefix(own).unwrap().trim().to_owned()).collect()
}

/// Files are looked at again after a minute.
async fn a_minute_later() {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(61)).await;
    tokio::time::resume();
}

#[tokio::test]
async fn a_password_or_a_token_goes_with_the_question_to_whom_it_is_for() {
    let server = serve(&[SERVICE]).await;
    let (caller, _) = caller(&server.tasks, endpoints(&[server.address]));
    let folder = tempfile::tempdir().unwrap();
    let named = known_as(folder.path(), "{username: hook, password: secret}", &[]);
    ask(&caller, &service(&server, "/echo").known_by(&named), 100).await.unwrap();
    ask(&caller, &service(&server, "/echo"), 100).await.unwrap();
    assert_eq!(shown(&server), ["Basic aG9vazpzZWNyZXQ=", ""]);
    let rotated = known_as(folder.path(), "{tokenFile: token}", &[("token", "one\n")]);
    let target = service(&server, "/echo").known_by(&rotated);
    ask(&caller, &target, 100).await.unwrap();
    std::fs::write(folder.path().join("token"), "two").unwrap();
    a_minute_later().await;
    ask(&caller, &target, 100).await.unwrap();
    // What can be no token, or is none any more, leaves the one that there was.
    std::fs::write(folder.path().join("token"), "th\nree").unwrap();
    a_minute_later().await;
    ask(&caller, &target, 100).await.unwrap();
    std::fs::remove_file(folder.path().join("token")).unwrap();
    a_minute_later().await;
    ask(&caller, &target, 100).await.unwrap();
    assert_eq!(shown(&server), ["Bearer one", "Bearer two", "Bearer two", "Bearer two"]);
}

#[tokio::test]
async fn a_certificate_that_is_rotated_is_shown_and_a_bad_one_is_not() {
    let server = serve(&[SERVICE]).await;
    let (caller, _) = caller(&server.tasks, endpoints(&[server.address]));
    let folder = tempfile::tempdir().unwrap();
    let files = |of: usize| {
        let (certificate, key) = &server.clients[of];
        [("c.crt", certificate.as_str()), ("c.key", key.as_str())]
    };
    let user = "{client-certificate: c.crt, client-key: c.key}";
    let named = known_as(folder.path(), user, &files(0));
    let target = service(&server, "/echo").known_by(&named);
    for _ in 0..2 {
        ask(&caller, &target, 100).await.unwrap();
    }
    assert_eq!(server.seen.connections.load(Ordering::Relaxed), 1);
    // Half of a rotation: the key is not the certificate's.
    std::fs::write(folder.path().join("c.crt"), &server.clients[1].0).unwrap();
    a_minute_later().await;
    ask(&caller, &target, 100).await.unwrap();
    std::fs::write(folder.path().join("c.key"), &server.clients[1].1).unwrap();
    a_minute_later().await;
    ask(&caller, &target, 100).await.unwrap();
    assert_eq!(shown(&server), ["0", "0", "0", "1"]);
    assert_eq!(server.seen.connections.load(Ordering::Relaxed), 2, "the old one shows the old");
}

#[tokio::test]
async fn who_has_its_name_at_the_wrong_place_is_told_so_and_counted() {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, SERVICE);
    let signing_key = KeyPair::generate().unwrap();
    let cert = params.self_signed(&signing_key).unwrap();
    let server = serve_as(&CertifiedKey { cert, signing_key }).await;
    let metrics = Registry::default();
    let (caller, _) = counting(&server.tasks, endpoints(&[server.address]), &metrics);
    let counted = || {
        let page = metrics.render();
        let lines = page.lines().filter(|it| !it.starts_with('#'));
        lines.map(|it| it.trim_start_matches("apiserver_webhooks_x509_").to_owned()).collect()
    };
    let check = |expected: [&str; 2]| {
        let seen: Vec<String> = counted();
        assert_eq!(seen, expected);
    };
    check(["insecure_sha1_total 0", "missing_san_total 0"]);
    let why = ask(&caller, &service(&server, "/echo"), 100).await.unwrap_err();
    let expected = "tls: failed to verify certificate: x509: certificate relies on legacy Common \
                    Name field, use SANs instead";
    assert!(why.ends_with(expected), "{why}");
    check(["insecure_sha1_total 0", "missing_san_total 1"]);
    // Whoever is believed whatever it shows is counted with each answer.
    let target = service(&server, "/echo").unverified();
    for _ in 0..2 {
        ask(&caller, &target, 100).await.unwrap();
    }
    check(["insecure_sha1_total 0", "missing_san_total 3"]);
    server.tasks.shutdown(TIMEOUT).await.unwrap();
}
