//! Clients that are slow, silent or deaf, under paused time, over TLS.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty, Full, StreamBody};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use lifecycle::Tasks;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::{Server, Until, with_protocols};
use crate::{Farewell, Guest, Meter, Patient, STREAMS_DEFAULT, Stream, Timeouts};

type TestBody = UnsyncBoxBody<Bytes, std::convert::Infallible>;
type Client = tokio_rustls::client::TlsStream<DuplexStream>;

/// More than any window, and less than what one would want to hold for a deaf client.
const LARGE: usize = 8 << 20;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

async fn answer((): (), request: Request<Incoming>) -> Response<TestBody> {
    let large = || Full::new(Bytes::from(vec![b'x'; LARGE])).boxed_unsync();
    let mut response = Response::new(match request.uri().path() {
        // Without events.
        "/watch" => StreamBody::new(futures_util::stream::pending()).boxed_unsync(),
        "/large" | "/log" => large(),
        _ => Full::new(Bytes::from("ok")).boxed_unsync(),
    });
    match request.uri().path() {
        "/log" => drop(response.extensions_mut().insert(Patient)),
        "/last" => drop(response.extensions_mut().insert(Farewell)),
        _ => {}
    }
    response
}

struct Site {
    acceptor: TlsAcceptor,
    connector: TlsConnector,
    tasks: Tasks,
    streams: u32,
    /// Told when clients are not known any more.
    until: Arc<Notify>,
}

impl Site {
    fn new(protocol: &[u8]) -> Self {
        let made = rcgen::generate_simple_self_signed(vec!["server".to_owned()]).unwrap();
        let certificate = made.cert.der().clone();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let server = rustls::ServerConfig::builder().with_no_client_auth();
        let server = server.with_single_cert(vec![certificate.clone()], key).unwrap();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(certificate).unwrap();
        let client = rustls::ClientConfig::builder().with_root_certificates(roots);
        let mut client = client.with_no_client_auth();
        client.alpn_protocols = vec![protocol.to_vec()];
        Self {
            acceptor: TlsAcceptor::from(with_protocols(Arc::new(server))),
            connector: TlsConnector::from(Arc::new(client)),
            tasks: Tasks::new(),
            streams: STREAMS_DEFAULT,
            until: Arc::default(),
        }
    }

    /// The other end of a connection that is served.
    fn dial(&self) -> DuplexStream {
        let (near, far) = tokio::io::duplex(64 << 10);
        let (meter, acceptor) = (Meter::new(), self.acceptor.clone());
        let stream = Stream::new(far, meter.clone(), None);
        let guest = Guest { stream, address: ([192, 0, 2, 1], 1).into(), meter };
        let until = self.until.clone();
        let server = Server {
            timeouts: Timeouts::HTTPS,
            streams: self.streams,
            tasks: self.tasks.clone(),
            refusals: Arc::default(),
            identify: move |_: &[CertificateDer<'_>]| {
                let until = until.clone();
                ((), Some(Box::pin(async move { until.notified().await }) as Until))
            },
            answer,
        };
        self.tasks.spawn("connection", |shutdown| server.run(acceptor, guest, shutdown));
        near
    }

    async fn connect(&self) -> Client {
        let name = ServerName::try_from("server").unwrap();
        self.connector.connect(name, self.dial()).await.unwrap()
    }

    /// A client of HTTP/2 and its connection, which runs until it is closed and says when that was.
    async fn http2(
        &self,
    ) -> (hyper::client::conn::http2::SendRequest<Empty<Bytes>>, tokio::sync::oneshot::Receiver<u64>)
    {
        let stream = TokioIo::new(self.connect().await);
        let (sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
        let (tx, rx) = tokio::sync::oneshot::channel();
        let start = Instant::now();
        self.tasks.spawn("client", |_| async move {
            let _ = connection.await;
            let _ = tx.send(start.elapsed().as_secs());
        });
        (sender, rx)
    }
}

/// Reads to the end, and says how long that took, and how much there was.
async fn read_to_end(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> (u64, usize) {
    let (start, mut bytes) = (Instant::now(), Vec::new());
    // Without a farewell in TLS it is an error.
    let _ = stream.read_to_end(&mut bytes).await;
    (start.elapsed().as_secs(), bytes.len())
}

fn get(path: &str) -> Request<Empty<Bytes>> {
    Request::get(format!("https://server{path}")).body(Empty::new()).unwrap()
}

/// One of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = &(payload.len() as u32).to_be_bytes()[1..];
    [length, &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

fn raw(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: server\r\n\r\n")
}

#[tokio::test(start_paused = true)]
async fn who_does_not_greet_or_ask_is_closed() {
    let site = Site::new(b"http/1.1");
    assert_eq!(read_to_end(&mut site.dial()).await, (10, 0));
    assert_eq!(read_to_end(&mut site.connect().await).await, (32, 0));
    let site = Site::new(b"h2");
    let (_sender, closed) = site.http2().await;
    assert_eq!(closed.await.unwrap(), 32);
}

#[tokio::test(start_paused = true)]
async fn a_head_in_drops_is_not_waited_for() {
    let site = Site::new(b"http/1.1");
    let mut client = site.connect().await;
    client.write_all(raw("/").as_bytes()).await.unwrap();
    let mut first = [0; 15];
    client.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200 OK");
    let start = Instant::now();
    // The server ends the connection in between, and then nobody takes the drops.
    for letter in raw("/").bytes().cycle() {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let letter = if letter == b'\n' { b'x' } else { letter };
        if client.write_all(&[letter]).await.is_err() || client.flush().await.is_err() {
            break;
        }
    }
    let took = start.elapsed().as_secs();
    assert!((32..=35).contains(&took), "{took}");
}

#[tokio::test(start_paused = true)]
async fn between_requests_there_are_ninety_seconds() {
    let site = Site::new(b"http/1.1");
    let mut client = site.connect().await;
    client.write_all(raw("/").as_bytes()).await.unwrap();
    assert_eq!(read_to_end(&mut client).await.0, 90);
    let site = Site::new(b"h2");
    let (mut sender, closed) = site.http2().await;
    let response = sender.send_request(get("/")).await.unwrap();
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "ok");
    assert_eq!(closed.await.unwrap(), 90);
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_a_request_and_stays() {
    let site = Site::new(b"http/1.1");
    let mut client = site.connect().await;
    client.write_all(raw("/watch").as_bytes()).await.unwrap();
    let hour = Duration::from_secs(3_600);
    assert!(tokio::time::timeout(hour, read_to_end(&mut client)).await.is_err());
    let site = Site::new(b"h2");
    let (mut sender, closed) = site.http2().await;
    let watch = sender.send_request(get("/watch")).await.unwrap();
    let mut closed = closed;
    assert!(tokio::time::timeout(hour, &mut closed).await.is_err());
    drop(watch);
    assert_eq!(closed.await.unwrap(), 3_690);
}

#[tokio::test(start_paused = true)]
async fn who_is_not_known_any_more_is_closed_at_once() {
    let site = Site::new(b"http/1.1");
    let mut client = site.connect().await;
    client.write_all(raw("/watch").as_bytes()).await.unwrap();
    assert!(tokio::time::timeout(Duration::from_secs(60), client.read_u8()).await.unwrap().is_ok());
    site.until.notify_waiters();
    assert_eq!(read_to_end(&mut client).await.0, 0);
    let site = Site::new(b"h2");
    let (mut sender, closed) = site.http2().await;
    let watch = sender.send_request(get("/watch")).await.unwrap();
    site.until.notify_waiters();
    assert_eq!(closed.await.unwrap(), 0);
    assert!(watch.into_body().collect().await.is_err());
}

/// Whoever has it after an upgrade.
#[tokio::test(start_paused = true)]
async fn a_socket_that_is_ended_here_wakes_its_reader_and_a_closed_one_is_seen() {
    let (_near, far) = tokio::io::duplex(64);
    let meter = Meter::new();
    let mut stream = Stream::new(far, meter.clone(), None);
    let (read, ()) = tokio::join!(stream.read_u8(), async { meter.evict() });
    assert_eq!(read.unwrap_err().kind(), std::io::ErrorKind::ConnectionAborted);
    assert!(stream.write_u8(1).await.is_err());
    drop(stream);
    meter.closed().await;
}

#[tokio::test(start_paused = true)]
async fn who_does_not_read_the_answer_is_closed() {
    let site = Site::new(b"http/1.1");
    let mut client = site.connect().await;
    client.write_all(raw("/large").as_bytes()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(200)).await;
    let (_, n_bytes) = read_to_end(&mut client).await;
    assert!(n_bytes < LARGE / 2, "{n_bytes}");
    // In HTTP/2 the socket is never full: the stream's window is. A watch beside it does not help.
    let site = Site::new(b"h2");
    let (mut sender, closed) = site.http2().await;
    let _watch = sender.send_request(get("/watch")).await.unwrap();
    let _unread = sender.send_request(get("/large")).await.unwrap();
    let closed = closed.await.unwrap();
    assert!((60..=121).contains(&closed), "{closed}");
}

#[tokio::test(start_paused = true)]
async fn who_reads_slowly_gets_all_of_it() {
    let site = Site::new(b"h2");
    let (mut sender, _closed) = site.http2().await;
    let response = sender.send_request(get("/large")).await.unwrap();
    let (mut body, mut n_bytes) = (response.into_body(), 0);
    while let Some(frame) = body.frame().await {
        n_bytes += frame.unwrap().into_data().map_or(0, |it| it.len());
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(n_bytes, LARGE);
}

#[tokio::test(start_paused = true)]
async fn a_log_may_be_paused() {
    let site = Site::new(b"http/1.1");
    let mut client = site.connect().await;
    client.write_all(raw("/log").as_bytes()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert!(read_to_end(&mut client).await.1 > LARGE);
}

#[tokio::test(start_paused = true)]
async fn after_a_last_answer_there_is_no_other_but_what_was_begun_goes_on() {
    let site = Site::new(b"h2");
    let (mut sender, mut closed) = site.http2().await;
    let watch = sender.send_request(get("/watch")).await.unwrap();
    sender.send_request(get("/last")).await.unwrap();
    let hour = Duration::from_secs(3_600);
    assert!(tokio::time::timeout(hour, &mut closed).await.is_err());
    assert!(sender.send_request(get("/")).await.is_err());
    drop(watch);
    assert_eq!(closed.await.unwrap(), 3_600);
}

#[tokio::test(start_paused = true)]
async fn clients_are_told_how_many_requests_at_once_there_may_be() {
    for streams in [STREAMS_DEFAULT, 7] {
        let mut site = Site::new(b"h2");
        site.streams = streams;
        let mut client = site.connect().await;
        client.write_all(PREFACE).await.unwrap();
        client.write_all(&frame(4, 0, 0, &[])).await.unwrap();
        // Length, kind, flags and stream; then pairs of a name and a value.
        let mut head = [0; 9];
        client.read_exact(&mut head).await.unwrap();
        assert_eq!(head[3], 4, "settings come first");
        let mut settings = vec![0; usize::from(head[2])];
        client.read_exact(&mut settings).await.unwrap();
        let mut pairs = settings.chunks(6).map(|it| (it[1], &it[2..]));
        let (_, most) = pairs.find(|(name, _)| *name == 3).unwrap();
        assert_eq!(most, streams.to_be_bytes());
    }
}

/// CVE-2023-44487: requests that are taken back as soon as they are made cost the server more than
/// the client.
#[tokio::test(start_paused = true)]
async fn a_client_that_takes_back_its_requests_is_closed() {
    let site = Site::new(b"h2");
    let mut client = site.connect().await;
    // GET, https, a path and an authority, as HPACK has them; then the same stream's end by CANCEL.
    let head = [&[0x82, 0x87, 0x04, 6][..], b"/watch", &[0x01, 6], b"server"].concat();
    let mut bytes = PREFACE.to_vec();
    bytes.extend(frame(4, 0, 0, &[]));
    for number in 0..100 {
        bytes.extend(frame(1, 0x5, number * 2 + 1, &head));
        bytes.extend(frame(3, 0, number * 2 + 1, &8_u32.to_be_bytes()));
    }
    client.write_all(&bytes).await.unwrap();
    assert_eq!(read_to_end(&mut client).await.0, 0);
}

/// CVE-2019-9512, CVE-2019-9515: each ping and each setting wants an answer. Who sends them and reads
/// none is not read any further, so nothing piles up; and they are no requests, so the connection ends.
#[tokio::test(start_paused = true)]
async fn a_client_that_only_pings_is_held_back_and_closed() {
    for (kind, payload) in [(6, &[7; 8][..]), (4, &[])] {
        let site = Site::new(b"h2");
        let mut client = site.connect().await;
        client.write_all(PREFACE).await.unwrap();
        client.write_all(&frame(4, 0, 0, &[])).await.unwrap();
        let (start, ping) = (Instant::now(), frame(kind, 0, 0, payload));
        let mut sent = 0;
        while client.write_all(&ping).await.is_ok() && client.flush().await.is_ok() {
            sent += ping.len();
            assert!(sent < LARGE, "frames of kind {kind} are read without end");
        }
        assert!(start.elapsed().as_secs() <= 90, "{:?}", start.elapsed());
    }
}
