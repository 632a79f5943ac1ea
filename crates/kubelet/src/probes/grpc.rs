//! The gRPC health protocol, as little of it as a probe needs: one unary call on one connection.
//! <https://github.com/grpc/grpc/blob/master/doc/health-checking.md>

use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use http::{HeaderMap, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use super::action::Outcome;
use super::tcp;

const PATH: &str = "/grpc.health.v1.Health/Check";
const AGENT: &str = "kube-probe/1.36";
/// An answer has a few bytes.
const ANSWER_MAX: usize = 4096;
const UNIMPLEMENTED: i32 = 12;
/// What `HealthCheckResponse.status` means, by its number.
const STATES: [&str; 4] = ["UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"];

/// What the server said: its status as gRPC sees it, and its state.
struct Answer {
    code: i32,
    message: String,
    state: usize,
}

pub(super) async fn run(address: IpAddr, port: u16, name: &str, timeout: Duration) -> Outcome {
    let host = address.to_string();
    let server = SocketAddr::new(address, port);
    let Ok(stream) = tcp::dial(&host, port, timeout).await else {
        return Outcome::Failure(format!(
            "timeout: failed to connect service {:?} within {timeout:?}: context deadline exceeded",
            server.to_string()
        ));
    };
    let answer = match tokio::time::timeout(timeout, ask(stream, server, name)).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(problem)) => {
            return Outcome::Failure(format!("error: health rpc probe failed: {problem}"));
        }
        Err(_) => {
            return Outcome::Failure(format!(
                "timeout: health rpc did not complete within {timeout:?}"
            ));
        }
    };
    match (answer.code, STATES.get(answer.state).copied().unwrap_or("UNKNOWN")) {
        (0, "SERVING") => Outcome::Success,
        (0, state) => Outcome::Failure(format!("service unhealthy (responded with {state:?})")),
        (UNIMPLEMENTED, _) => Outcome::Failure(format!(
            "error: this server does not implement the grpc health protocol \
             (grpc.health.v1.Health): {}",
            answer.message
        )),
        (code, _) => Outcome::Failure(format!(
            "error: health rpc probe failed: rpc error: code {code}: {}",
            answer.message
        )),
    }
}

async fn ask(stream: TcpStream, server: SocketAddr, name: &str) -> Result<Answer, String> {
    let (spawned, mut background) = mpsc::unbounded_channel();
    let handshake =
        hyper::client::conn::http2::handshake(Background(spawned), TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|err| stdx::error_chain(&err))?;
    let request = http::Request::post(format!("http://{server}{PATH}"))
        .header(header::CONTENT_TYPE, "application/grpc")
        .header(header::TE, "trailers")
        .header(header::USER_AGENT, AGENT)
        .body(Full::new(question(name)))
        .map_err(|err| err.to_string())?;
    let exchange = async {
        let response = sender.send_request(request).await.map_err(|err| stdx::error_chain(&err))?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, ANSWER_MAX).collect().await.map_err(|err| err.to_string())?;
        let trailers = body.trailers().cloned();
        Ok(answer(&trailers.unwrap_or(parts.headers), &body.to_bytes()))
    };
    // Hyper wants somebody to run its parts; here they run as long as the question is asked.
    let mut running: FuturesUnordered<Part> = FuturesUnordered::new();
    running.push(Box::pin(async {
        let _ = connection.await;
    }));
    let mut exchange = std::pin::pin!(exchange);
    loop {
        tokio::select! {
            biased;
            answer = &mut exchange => return answer,
            Some(part) = background.recv() => running.push(part),
            Some(()) = running.next() => {}
        }
    }
}

type Part = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Hands what should run in the background to the caller.
#[derive(Clone)]
struct Background(mpsc::UnboundedSender<Part>);

impl<F: Future<Output = ()> + Send + 'static> hyper::rt::Executor<F> for Background {
    fn execute(&self, part: F) {
        // Nobody waits for an answer any more.
        let _ = self.0.send(Box::pin(part));
    }
}

/// `HealthCheckRequest { service }` with gRPC's five bytes before it.
fn question(name: &str) -> Bytes {
    let mut message = BytesMut::new();
    if !name.is_empty() {
        message.put_u8(0x0a);
        let mut length = name.len();
        while length >= 0x80 {
            message.put_u8((length & 0x7f) as u8 | 0x80);
            length >>= 7;
        }
        message.put_u8(length as u8);
        message.put_slice(name.as_bytes());
    }
    let mut framed = BytesMut::new();
    framed.put_u8(0);
    framed.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    framed.put_slice(&message);
    framed.freeze()
}

fn answer(status: &HeaderMap, body: &[u8]) -> Answer {
    let text = |name| status.get(name).and_then(|it| it.to_str().ok());
    let code = text("grpc-status").and_then(|it| it.parse().ok());
    // `HealthCheckResponse { status }` is a tag and one byte; without it the state is 0.
    let state = match body.get(5..) {
        Some([0x08, state, ..]) => usize::from(*state),
        _ => 0,
    };
    Answer {
        // Without a status it was no gRPC.
        code: code.unwrap_or(2),
        message: text("grpc-message").unwrap_or_default().to_owned(),
        state,
    }
}
