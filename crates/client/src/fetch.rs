//! One GET as nobody, from whoever answers: for what is believed for other reasons than who says it.
//! Says at which step it failed, for people who look for the reason.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use http::header::{DATE, HOST};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::unverified_tls;

const TIMEOUT_CONNECT: Duration = Duration::from_secs(5);
const TIMEOUT_ANSWER: Duration = Duration::from_secs(10);
const BODY_MAX: usize = 1 << 20;

#[derive(Debug)]
pub struct Fetched {
    pub status: u16,
    /// What the server's clock says.
    pub date: Option<Timestamp>,
    pub body: Bytes,
}

#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error("no connection was made within {TIMEOUT_CONNECT:?}")]
    ConnectSilence,
    #[error("no connection")]
    Connect(#[source] io::Error),
    #[error("{0:?} is no name of a host")]
    Host(String),
    #[error("preparing TLS")]
    Prepare(#[source] rustls::Error),
    #[error("whoever listens there does not speak TLS")]
    Tls(#[source] io::Error),
    #[error("whoever listens there did not answer within {TIMEOUT_ANSWER:?}")]
    AnswerSilence,
    #[error("whoever listens there does not speak HTTP")]
    Http(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// `path` as in a URL. What is answered is bounded; nothing of it is verified.
pub async fn fetch_unverified(host: &str, port: u16, path: &str) -> Result<Fetched, FetchError> {
    let connecting = tokio::time::timeout(TIMEOUT_CONNECT, TcpStream::connect((host, port)));
    let tcp = connecting.await.map_err(|_| FetchError::ConnectSilence)?;
    let tcp = tcp.map_err(FetchError::Connect)?;
    let exchange = tokio::time::timeout(TIMEOUT_ANSWER, exchange(tcp, host, port, path));
    exchange.await.unwrap_or(Err(FetchError::AnswerSilence))
}

async fn exchange(
    tcp: TcpStream,
    host: &str,
    port: u16,
    path: &str,
) -> Result<Fetched, FetchError> {
    let wrong_host = || FetchError::Host(host.to_owned());
    let name = ServerName::try_from(host.to_owned()).map_err(|_| wrong_host())?;
    let tls = TlsConnector::from(unverified_tls().map_err(FetchError::Prepare)?);
    let stream = tls.connect(name, tcp).await.map_err(FetchError::Tls)?;
    let failed = |err: hyper::Error| FetchError::Http(err.into());
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
    let authority =
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    let request = http::Request::get(path).header(HOST, authority).body(Empty::<Bytes>::new());
    let request = request.map_err(|err| FetchError::Http(err.into()))?;
    let asking = async {
        let response = sender.send_request(request).await.map_err(failed)?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, BODY_MAX).collect().await.map_err(FetchError::Http)?;
        let date = head.headers.get(DATE).and_then(|it| it.to_str().ok());
        let date = date.and_then(|it| jiff::fmt::rfc2822::parse(it).ok());
        Ok(Fetched {
            status: head.status.as_u16(),
            date: date.map(|it| it.timestamp()),
            body: body.to_bytes(),
        })
    };
    let driving = async {
        // What went wrong is told to the request, too.
        let _ = connection.await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        biased;
        fetched = asking => fetched,
        () = driving => Err(FetchError::AnswerSilence),
    }
}
