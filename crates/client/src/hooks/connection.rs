//! One connection to whoever answers: dialed, TLS, HTTP/1.1, one question after the other.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use lifecycle::Tasks;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;

use super::failure::Failure;
use crate::deprecated::{Deprecated, Flaws};

/// Of the answer of somebody who does not answer with success.
const REFUSAL_MAX: usize = 64 << 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Address(SocketAddr),
    /// Resolved when it is dialed.
    Name(String, u16),
}

impl Way {
    pub(super) async fn dial(&self) -> io::Result<TcpStream> {
        let stream = match self {
            Self::Address(address) => TcpStream::connect(address).await?,
            Self::Name(name, port) => TcpStream::connect((name.as_str(), *port)).await?,
        };
        // A small question must not wait for the acknowledgement of the one before.
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Name(name, port) if name.contains(':') => write!(f, "[{name}]:{port}"),
            Self::Name(name, port) => write!(f, "{name}:{port}"),
        }
    }
}

pub(super) struct Connection {
    way: Way,
    /// Which of a target's identities it was made with.
    pub(super) shown: u64,
    sender: http1::SendRequest<Full<Bytes>>,
    /// Whether the last answer was read to its end, so that another question can be asked.
    is_between: bool,
    pub(super) idle_since: Instant,
    /// Counted with each answer.
    flaws: Option<(Flaws, String, Arc<Deprecated>)>,
}

impl Connection {
    pub(super) async fn start(
        tasks: &Tasks,
        (way, shown, deprecated): (Way, u64, &Arc<Deprecated>),
        stream: TcpStream,
        (tls, name): (Arc<ClientConfig>, ServerName<'static>),
    ) -> Result<Self, Failure> {
        let server = name.to_str().into_owned();
        let stream = TlsConnector::from(tls).connect(name, stream).await;
        let stream = stream.map_err(|err| Failure::of_handshake(&err, &server))?;
        let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
        let flaws = Some(Flaws::of(chain)).filter(|it| *it != Flaws::default());
        let flaws = flaws.map(|it| (it, server, deprecated.clone()));
        let (sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|err| Failure::of_connection(&err))?;
        tasks.spawn("connection", |shutdown| async move {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => {}
                // Whoever asks has the error; there is nobody else to tell.
                _ = connection => {}
            }
        });
        Ok(Self { way, shown, sender, is_between: true, idle_since: Instant::now(), flaws })
    }

    pub(super) fn is_one_of(&self, ways: &[Way]) -> bool {
        ways.contains(&self.way)
    }

    pub(super) fn is_usable(&self) -> bool {
        self.is_between && !self.sender.is_closed()
    }

    pub(super) async fn exchange(
        &mut self,
        request: Request<Full<Bytes>>,
        answer_max: usize,
    ) -> Result<Bytes, Failure> {
        self.is_between = false;
        self.sender.ready().await.map_err(|err| Failure::of_connection(&err))?;
        let response = self.sender.send_request(request).await;
        let response = response.map_err(|err| Failure::of_connection(&err))?;
        if let Some((flaws, server, deprecated)) = &self.flaws {
            deprecated.count(server, *flaws);
        }
        let status = response.status();
        if !status.is_success() {
            let (body, _) = collect(response.into_body(), REFUSAL_MAX).await?;
            return Err(Failure::of_status(status, &body));
        }
        let (body, is_whole) = collect(response.into_body(), answer_max).await?;
        if !is_whole {
            let why = format!("the answer has more than {answer_max} bytes");
            return Err(Failure::new(why));
        }
        self.is_between = true;
        self.idle_since = Instant::now();
        Ok(body)
    }
}

/// Up to `max` bytes, and whether that was all.
async fn collect(mut body: Incoming, max: usize) -> Result<(Bytes, bool), Failure> {
    let mut collected = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|err| Failure::new(format!("reading the answer: {err}")))?;
        let Ok(data) = frame.into_data() else { continue };
        if collected.len() + data.len() > max {
            let room = max - collected.len();
            collected.extend_from_slice(&data[..room]);
            return Ok((collected.freeze(), false));
        }
        collected.extend_from_slice(&data);
    }
    Ok((collected.freeze(), true))
}
