//! TLS with whoever answers.

use std::net::IpAddr;

use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

pub(super) async fn connect(stream: TcpStream, host: &str) -> Result<TlsStream<TcpStream>, String> {
    let config = client::unverified_tls().map_err(|err| err.to_string())?;
    let name = match host.parse::<IpAddr>() {
        Ok(address) => ServerName::from(address),
        Err(_) => ServerName::try_from(host.to_owned()).map_err(|err| err.to_string())?,
    };
    TlsConnector::from(config).connect(name, stream).await.map_err(|err| format!("tls: {err}"))
}
