//! Whom to ask, as a configuration says it, with the connections that are kept to them. Dropped
//! with the configuration, and the connections with it.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT};
use http::{Request, Uri};
use http_body_util::Full;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::time::Instant;

use super::connection::{Connection, Way};
use super::failure::Failure;
use super::trust;

/// Connections that nobody uses at the moment, for one target.
const IDLE_MAX: usize = 16;
const IDLE_FOR: Duration = Duration::from_secs(90);
const AGENT: &str = "kube-apiserver-admission";

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    Url { url: String },
    Service { namespace: String, name: String, port: u16, path: String },
}

pub struct Target {
    place: Place,
    /// `https://host:port/path`
    base: String,
    host: String,
    port: u16,
    ca_bundle: Vec<u8>,
    tls: OnceLock<Result<Arc<ClientConfig>, Failure>>,
    idle: Mutex<Vec<Connection>>,
}

impl Target {
    /// What is wrong with it is said when it is asked.
    pub fn new(place: Place, ca_bundle: &[u8]) -> Self {
        let (base, host, port) = match &place {
            Place::Url { url } => {
                let uri: Uri = url.parse().unwrap_or_default();
                let host = uri.host().unwrap_or_default();
                let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
                (url.clone(), host, uri.port_u16().unwrap_or(443))
            }
            Place::Service { namespace, name, port, path } => {
                let host = format!("{name}.{namespace}.svc");
                let slash = if path.starts_with('/') { "" } else { "/" };
                (format!("https://{host}:{port}{slash}{path}"), host, *port)
            }
        };
        let ca_bundle = ca_bundle.to_vec();
        let (tls, idle) = Default::default();
        Self { place, base, host, port, ca_bundle, tls, idle }
    }

    pub fn place(&self) -> &Place {
        &self.place
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// With the time that there is, in whole seconds.
    pub(super) fn url(&self, timeout: Duration) -> String {
        let seconds = timeout.as_secs() + u64::from(timeout.subsec_nanos() > 0);
        format!("{}?timeout={seconds}s", self.base)
    }

    pub(super) fn tls(&self) -> Result<(Arc<ClientConfig>, ServerName<'static>), Failure> {
        let config = self.tls.get_or_init(|| trust::config(&self.ca_bundle)).clone()?;
        let name = ServerName::try_from(self.host.clone());
        let name = name.map_err(|_| Failure::new(format!("{:?} is no host", self.host)))?;
        Ok((config, name))
    }

    pub(super) fn request(&self, url: &str, body: Bytes) -> Result<Request<Full<Bytes>>, Failure> {
        let unusable = |err: http::Error| Failure::new(format!("building the request: {err}"));
        let uri: Uri = url.parse().map_err(|err| unusable(http::Error::from(err)))?;
        let path = uri.path_and_query().map_or("/", |it| it.as_str());
        let authority = uri.authority().map_or(self.host.as_str(), |it| it.as_str());
        Request::post(path)
            .header(HOST, authority)
            .header(ACCEPT, "application/json, */*")
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, AGENT)
            .body(Full::new(body))
            .map_err(unusable)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The one that was used last, of those that still lead to the target.
    pub(super) fn take_idle(&self, ways: &[Way]) -> Option<Connection> {
        let mut idle = self.idle();
        let now = Instant::now();
        idle.retain(|it| it.is_usable() && it.is_one_of(ways) && now - it.idle_since < IDLE_FOR);
        idle.pop()
    }

    /// For the next question, if another can be asked and there is room.
    pub(super) fn keep(&self, connection: Connection) {
        let mut idle = self.idle();
        if connection.is_usable() && idle.len() < IDLE_MAX {
            idle.push(connection);
        }
    }
}
