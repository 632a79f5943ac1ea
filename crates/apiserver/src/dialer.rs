//! How this server connects to those that it passes requests on to.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::net::TcpStream;

type Connecting = BoxFuture<'static, io::Result<TcpStream>>;

/// From an address to a connection. Whoever tests, or reaches pods in another way, brings their
/// own.
#[derive(Clone)]
pub struct Dialer(Arc<dyn Fn(SocketAddr) -> Connecting + Send + Sync>);

impl Dialer {
    pub fn new(dial: impl Fn(SocketAddr) -> Connecting + Send + Sync + 'static) -> Self {
        Self(Arc::new(dial))
    }

    pub(crate) async fn dial(&self, address: SocketAddr) -> io::Result<TcpStream> {
        let stream = (self.0)(address).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

impl Default for Dialer {
    fn default() -> Self {
        Self::new(|address| Box::pin(TcpStream::connect(address)))
    }
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Dialer")
    }
}
