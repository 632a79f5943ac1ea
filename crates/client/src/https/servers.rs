//! Where the servers of one API are. Any of them answers the same; which one is asked is the
//! business of the connection.

use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};

use http::Uri;

use super::Error;

/// Of one client. More are not tried.
const SERVERS_MAX: usize = 32;

/// Servers beside the one that a client was made for: a list that may change while it is in use,
/// shared by all clients that were given it.
#[derive(Clone, Debug, Default)]
pub struct Servers(Arc<RwLock<Arc<[SocketAddr]>>>);

impl Servers {
    pub fn new(addresses: &[SocketAddr]) -> Self {
        let servers = Self::default();
        servers.set(addresses);
        servers
    }

    /// From the next connection on. Those that are open stay.
    pub fn set(&self, addresses: &[SocketAddr]) {
        let some = &addresses[..addresses.len().min(SERVERS_MAX)];
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = some.into();
    }

    pub fn all(&self) -> Arc<[SocketAddr]> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// One server as it is connected to, and as requests name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    /// `https://host:port/prefix`, without a slash at the end.
    pub(super) base: String,
    /// A name, or an address without brackets.
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) is_tls: bool,
}

impl Endpoint {
    pub(super) fn parse(url: &str) -> Result<Self, Error> {
        let wrong = || Error::Server(url.to_owned());
        let base = url.trim_end_matches('/').to_owned();
        let uri: Uri = base.parse().map_err(|_| wrong())?;
        let host = uri.host().ok_or_else(wrong)?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let (default_port, is_tls) = match uri.scheme_str() {
            Some("https") => (443, true),
            Some("http") => (80, false),
            _ => return Err(wrong()),
        };
        Ok(Self { base, host, port: uri.port_u16().unwrap_or(default_port), is_tls })
    }

    /// Another one of the same API, spoken to in the same way.
    pub(super) fn beside(&self, address: SocketAddr) -> Self {
        let scheme = if self.is_tls { "https" } else { "http" };
        Self {
            base: format!("{scheme}://{address}"),
            host: address.ip().to_string(),
            port: address.port(),
            is_tls: self.is_tls,
        }
    }

    /// As metrics and errors name it.
    pub(super) fn name(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::{Endpoint, SERVERS_MAX, Servers};

    #[test]
    fn a_server_is_a_url() {
        let check = |url: &str, expected: &str| {
            let found = Endpoint::parse(url).map(|it| format!("{} {}", it.name(), it.base));
            assert_eq!(found.unwrap_or_else(|err| err.to_string()), expected);
        };
        check("https://a.example", "a.example:443 https://a.example");
        check("https://[fd00::1]:6443/k/", "fd00::1:6443 https://[fd00::1]:6443/k");
        check("http://127.0.0.1", "127.0.0.1:80 http://127.0.0.1");
        check("ftp://a", "\"ftp://a\" is not the URL of an API server");
        check("a:1", "\"a:1\" is not the URL of an API server");
    }

    #[test]
    fn others_are_spoken_to_as_the_first() {
        let first = Endpoint::parse("https://a.example:1/prefix").unwrap();
        let other = first.beside("[fd00::2]:6443".parse().unwrap());
        assert_eq!(other.base, "https://[fd00::2]:6443");
        assert_eq!((other.host.as_str(), other.port), ("fd00::2", 6443));
        assert!(other.is_tls);
    }

    #[test]
    fn the_list_is_bounded() {
        let many = vec!["192.0.2.1:1".parse().unwrap(); 2 * SERVERS_MAX];
        assert_eq!(Servers::new(&many).all().len(), SERVERS_MAX);
    }
}
