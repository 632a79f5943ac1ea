//! One question over HTTP and its answer. Whatever is asked, the answer is the same, as upstream's
//! is.

use std::io;

use apimachinery::ObjectKey;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// Of a request that nobody needs to read.
const REQUEST_MAX: usize = 8 << 10;
/// Of a request's head.
const END: &[u8] = b"\r\n\r\n";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Health {
    pub(super) service: ObjectKey,
    /// Ready ones on this node.
    pub(super) n_endpoints: usize,
}

impl Health {
    /// Names need no escaping: they are DNS labels.
    pub(super) fn render(&self) -> String {
        let Self { service, n_endpoints } = self;
        let body = format!(
            "{{\"service\":{{\"namespace\":\"{}\",\"name\":\"{}\"}},\"localEndpoints\":{n_endpoints},\
             \"serviceProxyHealthy\":true}}",
            service.namespace, service.name
        );
        let status = if *n_endpoints > 0 { "200 OK" } else { "503 Service Unavailable" };
        format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nx-content-type-options: nosniff\r\n\
             x-load-balancing-endpoint-weight: {n_endpoints}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        )
    }
}

/// Reads to the end of the request's head, then answers and closes.
pub(super) async fn over(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    health: impl FnOnce() -> Health,
) -> io::Result<()> {
    let (mut request, mut piece) = (Vec::new(), [0; 1024]);
    while !request.windows(END.len()).any(|it| it == END) {
        let length = stream.read(&mut piece).await?;
        if length == 0 || request.len() > REQUEST_MAX {
            return Ok(());
        }
        request.extend_from_slice(&piece[..length]);
    }
    stream.write_all(health().render().as_bytes()).await?;
    stream.shutdown().await
}
