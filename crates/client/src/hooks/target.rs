//! Whom to ask, as a configuration says it, with the connections that are kept to them. Dropped
//! with the configuration, and the connections with it.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderValue, Request, Uri};
use http_body_util::Full;
use rustls::ClientConfig;
use rustls::client::{ResolvesClientCert, Resumption};
use rustls::pki_types::ServerName;
use tokio::time::Instant;

use super::connection::{Connection, Way};
use super::credentials::Credentials;
use super::failure::Failure;
use super::identity::Identity;
use crate::deprecated::Deprecated;
use crate::trust::Trust;

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
    trust: Trust,
    /// The name that its certificate must have, if not its host.
    server_name: Option<String>,
    /// Nobody, to most.
    identity: Option<Arc<Identity>>,
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
        let trust = Trust::Authorities(ca_bundle.to_vec());
        let (tls, idle, server_name, identity) = Default::default();
        Self { place, base, host, port, trust, server_name, identity, tls, idle }
    }

    /// As whoever the credentials name for it.
    #[must_use]
    pub fn known_by(self, credentials: &Credentials) -> Self {
        let bracket = |it: &str| if it.contains(':') { format!("[{it}]") } else { it.to_owned() };
        let authority = format!("{}:{}", bracket(&self.host), self.port);
        let identity = credentials.find(&authority).cloned();
        Self { identity, ..self }
    }

    #[must_use]
    pub fn as_user(self, identity: Identity) -> Self {
        Self { identity: Some(Arc::new(identity)), ..self }
    }

    /// By another name than its host's.
    #[must_use]
    pub fn named(self, server_name: Option<String>) -> Self {
        Self { server_name, ..self }
    }

    /// Whoever answers is believed.
    #[must_use]
    pub fn unverified(self) -> Self {
        Self { trust: Trust::Anybody, ..self }
    }

    /// Which identity is shown now, and the header that says so.
    pub(super) fn identify(&self) -> (u64, Option<HeaderValue>) {
        self.identity.as_ref().map(|it| it.refresh()).unwrap_or_default()
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

    pub(super) fn tls(
        &self,
        deprecated: &Arc<Deprecated>,
    ) -> Result<(Arc<ClientConfig>, ServerName<'static>), Failure> {
        let config = self.tls.get_or_init(|| self.config(deprecated)).clone()?;
        let host = self.server_name.as_ref().unwrap_or(&self.host);
        let name = ServerName::try_from(host.clone());
        let name = name.map_err(|_| Failure::new(format!("{host:?} is no host")))?;
        Ok((config, name))
    }

    /// HTTP/1.1 alone: with HTTP/2 all questions would go to the one endpoint that came first
    /// (kubernetes#75791).
    fn config(&self, deprecated: &Arc<Deprecated>) -> Result<Arc<ClientConfig>, Failure> {
        let shown = self.identity.as_ref().filter(|it| it.has_certificate());
        let resolver = shown.map(|it| it.clone() as Arc<dyn ResolvesClientCert>);
        let config = self.trust.config(resolver, deprecated);
        let mut config = config.map_err(|err| Failure::new(err.to_string()))?;
        if shown.is_some() {
            // A session that is taken up again would be of whoever we were before a rotation.
            config.resumption = Resumption::disabled();
        }
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    pub(super) fn request(
        &self,
        url: &str,
        body: Bytes,
        authorization: Option<&HeaderValue>,
    ) -> Result<Request<Full<Bytes>>, Failure> {
        let unusable = |err: http::Error| Failure::new(format!("building the request: {err}"));
        let uri: Uri = url.parse().map_err(|err| unusable(http::Error::from(err)))?;
        let path = uri.path_and_query().map_or("/", |it| it.as_str());
        let authority = uri.authority().map_or(self.host.as_str(), |it| it.as_str());
        let mut request = Request::post(path);
        if let Some(authorization) = authorization {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        request
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

    /// The one that was used last, of those that still lead to the target as who we are now.
    pub(super) fn take_idle(&self, ways: &[Way], shown: u64) -> Option<Connection> {
        let mut idle = self.idle();
        let now = Instant::now();
        idle.retain(|it| {
            let is_current = it.is_one_of(ways) && it.shown == shown;
            it.is_usable() && is_current && now - it.idle_since < IDLE_FOR
        });
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
