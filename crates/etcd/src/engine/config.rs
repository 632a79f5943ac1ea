//! Where the cluster is, how to show who we are, and how long things may take.

use std::sync::Arc;
use std::time::Duration;

use crate::wire::channel::{Endpoint, Timing};
use crate::wire::tls::{self, Identity};

#[derive(Clone)]
pub struct Config {
    /// `http://host:port` or `https://host:port`, one for each member that is known. They are one
    /// cluster.
    pub endpoints: Vec<String>,
    /// What `https` members must be certified by, as PEM.
    pub ca_pem: Option<Vec<u8>>,
    /// What this client shows to `https` members.
    pub identity: Option<Identity>,
    pub credentials: Option<Credentials>,
    /// Names this server among those over the same cluster: each has a fence of its own (see the
    /// engine's header). Two that share a name only make each other try again.
    pub name: String,
    pub limits: Limits,
}

#[derive(Clone)]
pub struct Credentials {
    pub user: String,
    pub password: String,
}

/// How long and how much.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// For a request in all, with every retry. Ranges have six times as long, since they can be
    /// large.
    pub timeout_request: Duration,
    /// After this long without an answer a read is also asked of another member, and a write is
    /// given up and looked for.
    pub timeout_attempt: Duration,
    /// How long the tail may hear nothing while writes are known that it has not seen.
    pub timeout_tail: Duration,
    /// How long a write waits for its own events, so that its reader's watches have them.
    pub timeout_own_events: Duration,
    /// How many revisions before the current one are read at start, for watches that resume.
    pub recall: u64,
    /// What is kept in memory for watches, in transactions and in bytes.
    pub ring_commits: usize,
    pub ring_bytes: usize,
    pub timing: Timing,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            timeout_request: Duration::from_secs(15),
            timeout_attempt: Duration::from_secs(3),
            timeout_tail: Duration::from_secs(3),
            timeout_own_events: Duration::from_millis(250),
            recall: 1000,
            ring_commits: 16_384,
            ring_bytes: 64 << 20,
            timing: Timing {
                timeout_connect: Duration::from_secs(2),
                // etcd ends connections that are pinged more often than each 5 s.
                ping_interval: Duration::from_secs(6),
                timeout_ping: Duration::from_secs(3),
            },
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("no endpoint of etcd is given")]
    NoEndpoint,
    #[error("{endpoint:?} is not http://host:port or https://host:port")]
    ParseEndpoint { endpoint: String },
    #[error("{endpoint} needs the CA that its certificate is of")]
    NoCa { endpoint: String },
    #[error("reading the certificates for etcd")]
    ReadCertificates {
        #[source]
        source: tls::Error,
    },
}

impl Config {
    pub fn new(endpoints: Vec<String>) -> Self {
        Self {
            endpoints,
            ca_pem: None,
            identity: None,
            credentials: None,
            name: "xebec".to_owned(),
            limits: Limits::default(),
        }
    }

    pub(super) fn parse_endpoints(&self) -> Result<Vec<Endpoint>, Error> {
        let tls = match &self.ca_pem {
            Some(ca) => Some(
                tls::client_config(ca, self.identity.as_ref())
                    .map_err(|source| Error::ReadCertificates { source })?,
            ),
            None => None,
        };
        let endpoints: Vec<_> = self
            .endpoints
            .iter()
            .map(|it| parse_endpoint(it, tls.as_ref()))
            .collect::<Result<_, _>>()?;
        if endpoints.is_empty() {
            return Err(Error::NoEndpoint);
        }
        Ok(endpoints)
    }
}

fn parse_endpoint(text: &str, tls: Option<&Arc<rustls::ClientConfig>>) -> Result<Endpoint, Error> {
    let unparsable = || Error::ParseEndpoint { endpoint: text.to_owned() };
    let (scheme, rest) = text.trim().split_once("://").ok_or_else(unparsable)?;
    let (host, port) = rest.trim_end_matches('/').rsplit_once(':').ok_or_else(unparsable)?;
    let port = port.parse().map_err(|_| unparsable())?;
    let host = host.trim_matches(['[', ']']).to_owned();
    if host.is_empty() || host.contains('/') {
        return Err(unparsable());
    }
    let tls = match (scheme, tls) {
        ("http", _) => None,
        ("https", Some(tls)) => Some(tls.clone()),
        ("https", None) => return Err(Error::NoCa { endpoint: text.to_owned() }),
        _ => return Err(unparsable()),
    };
    Ok(Endpoint { host, port, tls })
}

#[cfg(test)]
mod tests {
    use super::{Config, Error};

    fn check(endpoint: &str, expected: Option<(&str, u16)>) {
        let parsed = Config::new(vec![endpoint.to_owned()]).parse_endpoints();
        let parsed = parsed.ok().map(|it| (it[0].host.clone(), it[0].port));
        assert_eq!(parsed, expected.map(|(host, port)| (host.to_owned(), port)), "{endpoint}");
    }

    #[test]
    fn endpoints_are_urls_with_a_port() {
        check("http://127.0.0.1:2379", Some(("127.0.0.1", 2379)));
        check("http://etcd.local:2379/", Some(("etcd.local", 2379)));
        check("http://[::1]:2379", Some(("::1", 2379)));
        check("http://127.0.0.1", None);
        check("127.0.0.1:2379", None);
        check("unix://a:1", None);
        check("http://:2379", None);
        check("http://a/b:2379", None);
    }

    #[test]
    fn https_needs_a_ca() {
        let config = Config::new(vec!["https://127.0.0.1:2379".to_owned()]);
        assert!(matches!(config.parse_endpoints(), Err(Error::NoCa { .. })));
        assert!(matches!(Config::new(vec![]).parse_endpoints(), Err(Error::NoEndpoint)));
    }
}
