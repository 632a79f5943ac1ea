//! Plain HTTP for those who are near, as upstream's components have it: health, and the metrics of
//! the proxy. Whoever asks is answered and let go.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result};
use lifecycle::{Shutdown, Tasks};
use serving::{Limits, Room, Stream, Timeouts};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;

const CONNECTIONS_MAX: usize = 64;
const PATIENCE: Duration = Duration::from_secs(5);
/// Of a request's head.
const REQUEST_MAX: usize = 8 << 10;
const END: &[u8] = b"\r\n\r\n";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: &'static str,
    pub(crate) content_type: &'static str,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn ok(body: impl Into<String>) -> Self {
        let content_type = "text/plain; charset=utf-8";
        Self { status: "200 OK", content_type, body: body.into() }
    }

    pub(crate) fn missing() -> Self {
        Self { status: "404 Not Found", ..Self::ok("404 page not found\n") }
    }

    fn render(&self, has_body: bool) -> String {
        let Self { status, content_type, body } = self;
        format!(
            "HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\nx-content-type-options: nosniff\r\n\
             content-length: {}\r\nconnection: close\r\n\r\n{}",
            body.len(),
            if has_body { body } else { "" }
        )
    }
}

/// `/healthz` and nothing else.
pub(crate) fn healthz(path: &str) -> Answer {
    match path {
        "/healthz" => Answer::ok("ok"),
        _ => Answer::missing(),
    }
}

/// Serves until shutdown. `flag` chooses another address.
pub(crate) async fn serve(
    address: SocketAddr,
    flag: &str,
    answer: impl Fn(&str) -> Answer + Clone + Send + Sync + 'static,
    tasks: &Tasks,
) -> Result<()> {
    let listener = TcpListener::bind(address).await;
    let listener =
        listener.with_context(|| format!("cannot listen on {address}: choose another {flag}"))?;
    let connections = tasks.clone();
    tasks.spawn("plain-http", |shutdown| accept(listener, answer, connections, shutdown));
    Ok(())
}

async fn accept(
    listener: TcpListener,
    answer: impl Fn(&str) -> Answer + Clone + Send + Sync + 'static,
    tasks: Tasks,
    shutdown: Shutdown,
) {
    let limits = Limits {
        connections: CONNECTIONS_MAX,
        per_client: CONNECTIONS_MAX / 2,
        timeouts: Timeouts::HTTPS,
    };
    serving::accept(&listener, &Room::new(limits), &tasks, &shutdown, |guest, shutdown| {
        let answer = answer.clone();
        async move {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => {}
                _ = tokio::time::timeout(PATIENCE, one(guest.stream, answer)) => {}
            }
        }
    })
    .await;
}

/// A client that breaks off is no concern of ours.
async fn one(stream: Stream, answer: impl Fn(&str) -> Answer) {
    let _ = over(stream, answer).await;
}

async fn over(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    answer: impl Fn(&str) -> Answer,
) -> std::io::Result<()> {
    let (mut request, mut piece) = (Vec::new(), [0; 1024]);
    while !request.windows(END.len()).any(|it| it == END) {
        let length = stream.read(&mut piece).await?;
        if length == 0 || request.len() > REQUEST_MAX {
            return Ok(());
        }
        request.extend_from_slice(&piece[..length]);
    }
    let text = respond(&String::from_utf8_lossy(&request), answer);
    stream.write_all(text.as_bytes()).await?;
    stream.shutdown().await
}

fn respond(request: &str, answer: impl Fn(&str) -> Answer) -> String {
    let mut words = request.split_ascii_whitespace();
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    if !matches!(method, "GET" | "HEAD") {
        let status = "405 Method Not Allowed";
        return Answer { status, ..Answer::ok("Method Not Allowed\n") }.render(true);
    }
    let path = target.split('?').next().unwrap_or_default();
    answer(path).render(method == "GET")
}

#[cfg(test)]
mod tests {
    use super::{healthz, respond};

    #[test]
    fn one_question_has_one_answer() {
        let check = |request: &str, status: &str, body: &str| {
            let text = respond(&format!("{request} HTTP/1.1\r\nhost: x\r\n\r\n"), healthz);
            let (head, actual) = text.split_once("\r\n\r\n").unwrap();
            assert!(head.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{request}: {head}");
            assert_eq!(actual, body, "{request}");
        };
        check("GET /healthz", "200 OK", "ok");
        check("GET /healthz?verbose", "200 OK", "ok");
        check("HEAD /healthz", "200 OK", "");
        check("GET /", "404 Not Found", "404 page not found\n");
        check("POST /healthz", "405 Method Not Allowed", "Method Not Allowed\n");
    }
}
