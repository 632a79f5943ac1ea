//! One HTTP/1.1 exchange on one connection, without a task of its own: whoever reads the body
//! drives the connection, and whoever stops reading closes it. Connecting and silence are bounded.

use std::future::poll_fn;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::future::BoxFuture;
use http::header::{HOST, HeaderMap, USER_AGENT};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::Empty;
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::failure::Failure;
use crate::Limits;

/// Where distributions keep the certificates that the system trusts; the first that exists.
const CERTIFICATES: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];
const AGENT: &str = concat!("xebec/", env!("CARGO_PKG_VERSION"));

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Makes connections. Certificates are read when they are first needed.
pub(super) struct Connector {
    certificates: Option<PathBuf>,
    tls: OnceLock<Arc<ClientConfig>>,
    timeout_connect: Duration,
    timeout_idle: Duration,
}

pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Body,
}

pub(super) struct Body {
    incoming: Incoming,
    connection: Connection,
    timeout_idle: Duration,
}

/// `None` once it has ended: a future must not be polled after its end.
type Connection = Option<BoxFuture<'static, ()>>;

impl Connector {
    pub(super) fn new(certificates: Option<PathBuf>, limits: &Limits) -> Self {
        Self {
            certificates,
            tls: OnceLock::new(),
            timeout_connect: limits.timeout_connect,
            timeout_idle: limits.timeout_idle,
        }
    }

    /// Sends a GET and waits for the head of the answer. `uri` is absolute.
    pub(super) async fn get(&self, uri: &Uri, mut headers: HeaderMap) -> Result<Reply, Failure> {
        let malformed = || Failure::Malformed(format!("{uri} is not an address to ask"));
        let authority = uri.authority().ok_or_else(malformed)?;
        let host = authority.as_str().parse().map_err(|_| malformed())?;
        headers.insert(HOST, host);
        headers.insert(USER_AGENT, http::HeaderValue::from_static(AGENT));
        let mut request = Request::new(Empty::<Bytes>::new());
        *request.method_mut() = Method::GET;
        // HTTP/1.1 has the path alone in its first line.
        *request.uri_mut() = uri.path_and_query().cloned().map(Uri::from).unwrap_or_default();
        *request.headers_mut() = headers;
        let stream = self.connect(uri).await?;
        let exchange = |err: hyper::Error| Failure::Exchange(stdx::error_chain(&err));
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(exchange)?;
        // Its error reaches whoever reads the answer.
        let mut connection: Connection = Some(Box::pin(async move {
            let _ = connection.await;
        }));
        let mut answer = Box::pin(sender.send_request(request));
        let answer = poll_fn(|context| {
            drive(&mut connection, context);
            answer.as_mut().poll(context)
        });
        let answer = timeout(self.timeout_idle, answer).await;
        let answer = answer.map_err(|_| Failure::Idle(self.timeout_idle))?.map_err(exchange)?;
        let (head, incoming) = answer.into_parts();
        let body = Body { incoming, connection, timeout_idle: self.timeout_idle };
        Ok(Reply { status: head.status, headers: head.headers, body })
    }

    async fn connect(&self, uri: &Uri) -> Result<Box<dyn Stream>, Failure> {
        let host = uri.host().unwrap_or_default();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let is_tls = uri.scheme_str() == Some("https");
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let tcp = self.dial(bare, port).await?;
        if !is_tls {
            return Ok(Box::new(tcp));
        }
        let name = ServerName::try_from(bare.to_owned())
            .map_err(|_| Failure::Tls(format!("{bare} is not a server's name")))?;
        let connector = TlsConnector::from(self.tls()?);
        let Ok(secured) = timeout(self.timeout_connect, connector.connect(name, tcp)).await else {
            return Err(Failure::Tls("handshake timed out".to_owned()));
        };
        match secured {
            Ok(stream) => Ok(Box::new(stream)),
            Err(err) => Err(tls_failure(&err)),
        }
    }

    async fn dial(&self, host: &str, port: u16) -> Result<TcpStream, Failure> {
        let lookup = timeout(self.timeout_connect, tokio::net::lookup_host((host, port))).await;
        let failed = |problem: String| Failure::Lookup { host: host.to_owned(), problem };
        let addresses = lookup.map_err(|_| failed("i/o timeout".to_owned()))?.map_err(|err| {
            match err.raw_os_error() {
                Some(_) => failed(err.to_string()),
                // Of getaddrinfo(3), with its own words.
                None => failed(format!("no such host ({err})")),
            }
        })?;
        let mut last = failed("no such host".to_owned());
        for address in addresses {
            match timeout(self.timeout_connect, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(err)) => last = Failure::dial(address, &err),
                Err(_) => last = Failure::dial(address, &io::ErrorKind::TimedOut.into()),
            }
        }
        Err(last)
    }

    fn tls(&self) -> Result<Arc<ClientConfig>, Failure> {
        if let Some(config) = self.tls.get() {
            return Ok(config.clone());
        }
        let roots = read_roots(self.certificates.as_deref())?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|err| Failure::Tls(err.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(self.tls.get_or_init(|| Arc::new(config)).clone())
    }
}

fn read_roots(certificates: Option<&Path>) -> Result<RootCertStore, Failure> {
    let system = || CERTIFICATES.iter().map(Path::new).find(|it| it.exists());
    let Some(path) = certificates.or_else(system) else {
        return Err(Failure::Tls(
            "this system has no certificates to trust: install ca-certificates".to_owned(),
        ));
    };
    let certificates = CertificateDer::pem_file_iter(path)
        .map_err(|err| Failure::Tls(format!("reading {}: {err}", path.display())))?;
    let mut roots = RootCertStore::empty();
    // Systems carry some that are out of use; one bad one does not distrust the others.
    roots.add_parsable_certificates(certificates.filter_map(Result::ok));
    Ok(roots)
}

fn tls_failure(err: &io::Error) -> Failure {
    let cause = err.get_ref().and_then(|it| it.downcast_ref::<rustls::Error>());
    match (cause, err.kind()) {
        (Some(rustls::Error::InvalidMessage(_)), _) => Failure::NotTls,
        (Some(rustls::Error::InvalidCertificate(problem)), _) => {
            Failure::Tls(format!("failed to verify certificate: {problem}"))
        }
        (Some(err), _) => Failure::Tls(err.to_string()),
        (
            None,
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe,
        ) => Failure::NotTls,
        (None, _) => Failure::Tls(err.to_string()),
    }
}

fn drive(connection: &mut Connection, context: &mut std::task::Context<'_>) {
    if connection.as_mut().is_some_and(|it| it.as_mut().poll(context).is_ready()) {
        *connection = None;
    }
}

impl Body {
    /// `None` at the end.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, Failure> {
        let Self { incoming, connection, timeout_idle } = self;
        let next = poll_fn(|context| {
            loop {
                drive(connection, context);
                match Pin::new(&mut *incoming).poll_frame(context) {
                    Poll::Ready(Some(Ok(frame))) => {
                        // What is not data is a trailer.
                        if let Ok(chunk) = frame.into_data() {
                            return Poll::Ready(Ok(Some(chunk)));
                        }
                    }
                    Poll::Ready(Some(Err(err))) => return Poll::Ready(Err(err)),
                    Poll::Ready(None) => return Poll::Ready(Ok(None)),
                    Poll::Pending => return Poll::Pending,
                }
            }
        });
        let next = timeout(*timeout_idle, next).await;
        let next = next.map_err(|_| Failure::Idle(*timeout_idle))?;
        next.map_err(|err| Failure::Exchange(stdx::error_chain(&err)))
    }

    /// All of it, which must not be much.
    pub(super) async fn read(mut self, size_max: u64) -> Result<Bytes, Failure> {
        let mut content = BytesMut::new();
        while let Some(chunk) = self.chunk().await? {
            if (content.len() + chunk.len()) as u64 > size_max {
                return Err(Failure::TooLarge(size_max));
            }
            content.extend_from_slice(&chunk);
        }
        Ok(content.freeze())
    }
}
