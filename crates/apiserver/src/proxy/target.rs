//! Who is called: the name in the path with its scheme and port, and addresses that may be called.
//! Pure.

use std::net::IpAddr;
use std::sync::Arc;

use apimachinery::ApiError;
use rustls::ClientConfig;

/// `web`, `web:8080`, `https:web:8080`; a port may be a name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Named<'a> {
    pub(crate) is_https: bool,
    pub(crate) name: &'a str,
    /// Empty: whichever is meant.
    pub(crate) port: &'a str,
}

impl<'a> Named<'a> {
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        let parts: Vec<&str> = text.split(':').collect();
        let (scheme, name, port) = match parts[..] {
            [name] => ("", name, ""),
            [name, port] => ("", name, port),
            [scheme, name, port] => (scheme, name, port),
            _ => return None,
        };
        let is_valid = matches!(scheme, "" | "http" | "https") && !name.is_empty();
        is_valid.then_some(Self { is_https: scheme == "https", name, port })
    }
}

/// An address to call. Objects lead here; it is never a client's own word.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) address: IpAddr,
    pub(crate) port: u16,
    /// `None`: plain HTTP.
    pub(crate) tls: Option<Arc<ClientConfig>>,
}

impl Target {
    /// With the port as it was asked for; `None`: that of the scheme.
    pub(crate) fn new(
        address: &str,
        port: Option<u16>,
        tls: Option<Arc<ClientConfig>>,
    ) -> Result<Self, ApiError> {
        let address = address.parse().ok().filter(is_callable);
        let address = address.ok_or_else(|| ApiError::bad_request("address not allowed"))?;
        let port = port.unwrap_or_else(|| if tls.is_some() { 443 } else { 80 });
        Ok(Self { address, port, tls })
    }

    pub(crate) fn authority(&self) -> String {
        std::net::SocketAddr::new(self.address, self.port).to_string()
    }
}

/// Whether no loopback, link-local or multicast address is meant: behind those is this machine.
fn is_callable(address: &IpAddr) -> bool {
    let is_local = match address.to_canonical() {
        IpAddr::V4(it) => it.is_loopback() || it.is_link_local() || it.is_broadcast(),
        IpAddr::V6(it) => it.is_loopback() || it.is_unicast_link_local(),
    };
    !is_local && !address.is_unspecified() && !address.is_multicast()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_have_a_scheme_and_a_port() {
        let check = |text: &str, expected: Option<(bool, &str, &str)>| {
            let seen = Named::parse(text).map(|it| (it.is_https, it.name, it.port));
            assert_eq!(seen, expected, "{text}");
        };
        check("web", Some((false, "web", "")));
        check("web:80", Some((false, "web", "80")));
        check("web:metrics", Some((false, "web", "metrics")));
        check("http:web:80", Some((false, "web", "80")));
        check("https:web:80", Some((true, "web", "80")));
        check("https:web:", Some((true, "web", "")));
        check("ftp:web:80", None);
        check(":80", None);
        check("a:b:c:d", None);
    }

    #[test]
    fn what_leads_back_to_this_machine_is_not_called() {
        for address in [
            "127.0.0.1",
            "127.8.8.8",
            "::1",
            "169.254.169.254",
            "fe80::1",
            "0.0.0.0",
            "::",
            "224.0.0.1",
            "ff02::1",
            "255.255.255.255",
            "::ffff:127.0.0.1",
            "",
            "localhost",
        ] {
            let refused = Target::new(address, None, None).unwrap_err();
            assert_eq!((refused.code(), refused.message()), (400, "address not allowed"));
        }
        let target = Target::new("10.244.0.2", None, None).unwrap();
        assert_eq!(target.authority(), "10.244.0.2:80");
        assert_eq!(Target::new("fd00::2", Some(8080), None).unwrap().authority(), "[fd00::2]:8080");
    }
}
