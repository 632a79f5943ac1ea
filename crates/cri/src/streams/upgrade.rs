//! From the address of a streaming server to a connection that speaks SPDY.

use std::io;
use std::time::Duration;

use node_api::Error;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

const TIMEOUT: Duration = Duration::from_secs(30);
/// Of the answer's head.
const HEAD_MAX: u64 = 16 * 1024;

pub(super) type Upgraded = BufReader<TcpStream>;

/// `protocol` as the server must speak it.
pub(super) async fn connect(url: &str, protocol: &str) -> Result<Upgraded, Error> {
    let doing = || format!("opening the runtime's stream at {url}");
    let uri: http::Uri = url.parse().map_err(|err| Error::node(doing(), err))?;
    if uri.scheme_str() != Some("http") {
        return Err(Error::unsupported(format!("a streaming server of the runtime at {url}")));
    }
    match tokio::time::timeout(TIMEOUT, upgrade(&uri, protocol)).await {
        Ok(upgraded) => upgraded.map_err(|err| Error::node(doing(), err)),
        Err(_) => Err(Error::TimedOut(TIMEOUT)),
    }
}

async fn upgrade(uri: &http::Uri, protocol: &str) -> io::Result<Upgraded> {
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let stream = TcpStream::connect((host, uri.port_u16().unwrap_or(80))).await?;
    let _ = stream.set_nodelay(true);
    let mut stream = BufReader::new(stream);
    let path = uri.path_and_query().map_or("/", |it| it.as_str());
    let authority = uri.authority().map_or("", |it| it.as_str());
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {authority}\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\
         X-Stream-Protocol-Version: {protocol}\r\nContent-Length: 0\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    let (status, answered) = read_head(&mut stream).await?;
    if status != 101 {
        let mut body = String::new();
        stream.take(HEAD_MAX).read_to_string(&mut body).await.unwrap_or_default();
        let text = format!("the server answered {status}: {}", body.trim());
        return Err(io::Error::other(text));
    }
    match answered.is_empty() || answered == protocol {
        true => Ok(stream),
        false => Err(io::Error::other(format!("the server speaks {answered:?}"))),
    }
}

/// The status, and the protocol that the server has chosen.
async fn read_head(stream: &mut Upgraded) -> io::Result<(u16, String)> {
    let mut left = HEAD_MAX;
    let mut line = String::new();
    let mut status = None;
    let mut protocol = String::new();
    loop {
        line.clear();
        let n_read = (&mut *stream).take(left).read_line(&mut line).await?;
        left = left.saturating_sub(n_read as u64);
        if n_read == 0 || left == 0 {
            return Err(io::Error::other("the answer's head does not end"));
        }
        let text = line.trim_end();
        if status.is_none() {
            let code = text.split(' ').nth(1).and_then(|it| it.parse().ok());
            status = Some(code.ok_or_else(|| io::Error::other("the answer is not HTTP"))?);
        } else if let Some((name, value)) = text.split_once(':') {
            if name.eq_ignore_ascii_case("x-stream-protocol-version") {
                value.trim().clone_into(&mut protocol);
            }
        } else if text.is_empty() {
            return Ok((status.unwrap_or_default(), protocol));
        }
    }
}
