//! A connection that is accepted is success.

use std::io::ErrorKind;
use std::time::Duration;

use tokio::net::TcpStream;

use super::action::Outcome;

pub(super) async fn run(host: &str, port: u16, timeout: Duration) -> Outcome {
    match dial(host, port, timeout).await {
        Ok(_) => Outcome::Success,
        Err(problem) => Outcome::Failure(problem),
    }
}

/// The error is upstream's text, which users know and tools look for.
pub(super) async fn dial(host: &str, port: u16, timeout: Duration) -> Result<TcpStream, String> {
    let shown =
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    let problem = match tokio::time::timeout(timeout, TcpStream::connect((host, port))).await {
        Ok(Ok(stream)) => return Ok(stream),
        Ok(Err(err)) => match err.kind() {
            ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
            ErrorKind::HostUnreachable => "connect: no route to host".to_owned(),
            ErrorKind::NetworkUnreachable => "connect: network is unreachable".to_owned(),
            ErrorKind::TimedOut => "connect: connection timed out".to_owned(),
            _ => err.to_string(),
        },
        Err(_) => "i/o timeout".to_owned(),
    };
    Err(format!("dial tcp {shown}: {problem}"))
}
