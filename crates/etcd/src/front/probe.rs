//! `/health` and `/version` over plain HTTP, as monitoring and clients ask for them: over HTTP/2
//! like calls, or over HTTP/1.1.

use http::StatusCode;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::{Front, VERSION, VERSION_CLUSTER};

const REQUEST_MAX: usize = 8 << 10;

pub(super) async fn answer(front: &Front, path: &str) -> (StatusCode, String) {
    match path {
        "/health" => health(front).await,
        "/version" => {
            let body = format!(r#"{{"etcdserver":"{VERSION}","etcdcluster":"{VERSION_CLUSTER}"}}"#);
            (StatusCode::OK, body)
        }
        _ => (StatusCode::NOT_FOUND, "404 page not found\n".to_owned()),
    }
}

/// To whoever posts what is no gRPC.
pub(super) fn unsupported() -> (StatusCode, String) {
    (StatusCode::UNSUPPORTED_MEDIA_TYPE, "{}".to_owned())
}

async fn health(front: &Front) -> (StatusCode, String) {
    let is_healthy = front.store.status().await.is_ok_and(|it| it.read_only.is_none());
    let code = if is_healthy { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, format!(r#"{{"health":"{is_healthy}"}}"#))
}

/// One request, one answer, and the end of the connection.
pub(super) async fn run_http1<S>(mut io: S, front: &Front) -> std::io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut request = Vec::new();
    while !request.windows(4).any(|it| it == b"\r\n\r\n") {
        let n_read = (&mut io).take(1024).read_buf(&mut request).await?;
        if n_read == 0 || request.len() > REQUEST_MAX {
            return Ok(());
        }
    }
    let line = request.split(|it| *it == b'\r').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let (code, body) = match line.split(' ').collect::<Vec<_>>()[..] {
        ["GET", target, version] if version.starts_with("HTTP/1.") => {
            answer(front, target.split('?').next().unwrap_or_default()).await
        }
        [_, _, version] if version.starts_with("HTTP/1.") => {
            (StatusCode::METHOD_NOT_ALLOWED, String::new())
        }
        _ => (StatusCode::BAD_REQUEST, String::new()),
    };
    let head = format!(
        "HTTP/1.1 {code}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    io.write_all(head.as_bytes()).await?;
    io.write_all(body.as_bytes()).await?;
    io.shutdown().await
}
