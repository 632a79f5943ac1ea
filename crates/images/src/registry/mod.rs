//! A client of one registry (the OCI distribution specification), for one pull.
//!
//! Promises: nothing hangs; tries, redirects and sizes are bounded; credentials go to the registry
//! and to the token server it names, never to another host and never in the open where the registry
//! itself is encrypted. Does not check digests.

mod auth;
mod failure;
mod http;

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use ::http::header::{
    ACCEPT, AUTHORIZATION, CONTENT_RANGE, HeaderMap, HeaderValue, LOCATION, RANGE,
};
use ::http::{StatusCode, Uri};
use bytes::Bytes;
use node_api::images::Credentials;
use stdx::Backoff;
use tokio::sync::mpsc;

use self::auth::Challenge;
pub(crate) use self::auth::matching;
pub(crate) use self::failure::Failure;
use self::http::{Connector, Reply};
use crate::Limits;
use crate::digest::Digest;
use crate::manifest::{DOCKER_LIST, DOCKER_MANIFEST, Descriptor, OCI_INDEX, OCI_MANIFEST};
use crate::reference::Reference;

/// Under its name there is only a web site.
const DOCKER_HUB: (&str, &str) = ("docker.io", "registry-1.docker.io");
const TRIES: u32 = 3;
const REDIRECTS_MAX: usize = 5;
const MANIFEST_MAX: u64 = 4 << 20;
const CONFIG_MAX: u64 = 8 << 20;
const ERROR_MAX: u64 = 64 << 10;
/// A download that has come so far since it last broke starts counting its tries anew.
const PROGRESS: u64 = 8 << 20;

/// A piece of a blob, or its regular end.
pub(crate) enum Chunk {
    Bytes(Bytes),
    End,
}

pub(crate) struct Client {
    connector: Connector,
    limits: Limits,
    /// Host and port.
    host: String,
    /// The name inside the registry.
    path: String,
    is_loopback: bool,
    credentials: Option<Credentials>,
    session: Mutex<Session>,
}

#[derive(Clone)]
struct Session {
    scheme: &'static str,
    authorization: Option<HeaderValue>,
}

pub(crate) struct Settings {
    pub(crate) certificates: Option<PathBuf>,
    pub(crate) insecure_registries: Vec<String>,
    pub(crate) limits: Limits,
}

fn host_of(registry: &str) -> &str {
    match registry.strip_prefix('[').and_then(|it| it.split_once(']')) {
        Some((host, _)) => host,
        None => registry.split(':').next().unwrap_or(registry),
    }
}

fn is_loopback(registry: &str) -> bool {
    let host = host_of(registry);
    host == "localhost"
        || host.ends_with(".localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|it| it.is_loopback())
}

impl Client {
    pub(crate) fn new(
        settings: Settings,
        reference: &Reference,
        credentials: Option<Credentials>,
    ) -> Self {
        let registry = reference.registry();
        let is_insecure =
            settings.insecure_registries.iter().any(|it| it == registry || it == host_of(registry));
        let host = if registry == DOCKER_HUB.0 { DOCKER_HUB.1 } else { registry };
        let scheme = if is_insecure { "http" } else { "https" };
        Self {
            connector: Connector::new(settings.certificates, &settings.limits),
            limits: settings.limits,
            host: host.to_owned(),
            path: reference.path().to_owned(),
            is_loopback: is_loopback(registry),
            credentials,
            session: Mutex::new(Session { scheme, authorization: None }),
        }
    }

    fn session(&self) -> Session {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_session(&self, session: Session) {
        *self.session.lock().unwrap_or_else(PoisonError::into_inner) = session;
    }

    /// For messages.
    pub(crate) fn manifest_address(&self, object: &str) -> String {
        self.address(&format!("manifests/{object}"))
    }

    pub(crate) fn blob_address(&self, digest: &Digest) -> String {
        self.address(&format!("blobs/{digest}"))
    }

    fn address(&self, object: &str) -> String {
        format!("{}://{}/v2/{}/{object}", self.session().scheme, self.host, self.path)
    }

    pub(crate) async fn manifest(&self, object: &str) -> Result<Bytes, Failure> {
        let accept = [OCI_INDEX, OCI_MANIFEST, DOCKER_LIST, DOCKER_MANIFEST].join(", ");
        let mut headers = HeaderMap::new();
        headers.extend(HeaderValue::try_from(accept).ok().map(|it| (ACCEPT, it)));
        self.small(&format!("manifests/{object}"), &headers, MANIFEST_MAX).await
    }

    pub(crate) async fn config(&self, digest: &Digest) -> Result<Bytes, Failure> {
        self.small(&format!("blobs/{digest}"), &HeaderMap::new(), CONFIG_MAX).await
    }

    async fn small(
        &self,
        object: &str,
        headers: &HeaderMap,
        size_max: u64,
    ) -> Result<Bytes, Failure> {
        let mut tries = Tries::new(&self.limits);
        loop {
            let content = match self.get(object, headers).await {
                Ok(reply) => reply.body.read(size_max).await,
                Err(failure) => Err(failure),
            };
            match content {
                Err(failure) => tries.again(failure).await?,
                content => return content,
            }
        }
    }

    /// Sends a blob in pieces. Where a connection breaks, the next goes on.
    pub(crate) async fn blob(
        &self,
        blob: &Descriptor,
        chunks: mpsc::Sender<Chunk>,
    ) -> Result<(), Failure> {
        let mut tries = Tries::new(&self.limits);
        let (mut received, mut counted) = (0, 0);
        while let Err(failure) = self.blob_from(blob, &mut received, &chunks).await {
            if received - counted >= PROGRESS {
                counted = received;
                tries = Tries::new(&self.limits);
            }
            tries.again(failure).await?;
        }
        chunks.send(Chunk::End).await.map_err(|_| Failure::Unwanted)
    }

    async fn blob_from(
        &self,
        blob: &Descriptor,
        received: &mut u64,
        chunks: &mpsc::Sender<Chunk>,
    ) -> Result<(), Failure> {
        let mut headers = HeaderMap::new();
        if *received > 0 {
            let range = HeaderValue::try_from(format!("bytes={received}-"));
            headers.extend(range.ok().map(|it| (RANGE, it)));
        }
        let mut reply = self.get(&format!("blobs/{}", blob.digest), &headers).await?;
        // A server that knows no ranges starts over.
        let mut skip = match reply.status {
            StatusCode::PARTIAL_CONTENT => {
                let start = reply.headers.get(CONTENT_RANGE).and_then(|it| it.to_str().ok());
                let expected = format!("bytes {received}-");
                if !start.is_some_and(|it| it.starts_with(&expected)) {
                    return Err(Failure::NoResume(*received));
                }
                0
            }
            _ => *received,
        };
        while let Some(mut chunk) = reply.body.chunk().await? {
            let skipped = chunk.len().min(usize::try_from(skip).unwrap_or(usize::MAX));
            skip -= skipped as u64;
            let chunk = chunk.split_off(skipped);
            if chunk.is_empty() {
                continue;
            }
            *received += chunk.len() as u64;
            if blob.size > 0 && *received > blob.size {
                return Err(Failure::TooLarge(blob.size));
            }
            chunks.send(Chunk::Bytes(chunk)).await.map_err(|_| Failure::Unwanted)?;
        }
        match *received < blob.size {
            true => Err(Failure::Truncated { received: *received, expected: blob.size }),
            false => Ok(()),
        }
    }

    /// The successful answer, after redirects and with a token, if one is wanted.
    async fn get(&self, object: &str, headers: &HeaderMap) -> Result<Reply, Failure> {
        let mut reply = self.ask(object, headers).await?;
        if reply.status == StatusCode::UNAUTHORIZED {
            self.authenticate(reply).await?;
            reply = self.ask(object, headers).await?;
        }
        match reply.status.is_success() {
            true => Ok(reply),
            false => Err(refusal(reply).await),
        }
    }

    /// Over HTTPS; a registry on this machine that does not speak it is asked in the open.
    async fn ask(&self, object: &str, headers: &HeaderMap) -> Result<Reply, Failure> {
        let asked = self.follow(&self.address(object), headers).await;
        let session = self.session();
        let is_plain = |failure: &Failure| {
            matches!(failure, Failure::NotTls)
                || matches!(failure, Failure::Tls(problem) if problem == "handshake timed out")
        };
        match asked {
            Err(failure) if self.is_loopback && session.scheme == "https" && is_plain(&failure) => {
                self.set_session(Session { scheme: "http", ..session });
                self.follow(&self.address(object), headers).await
            }
            outcome => outcome,
        }
    }

    async fn follow(&self, address: &str, headers: &HeaderMap) -> Result<Reply, Failure> {
        let refused = |address: &str| Failure::Redirect(address.to_owned());
        let first: Uri = address.parse().map_err(|_| refused(address))?;
        let mut uri = first.clone();
        for _ in 0..=REDIRECTS_MAX {
            let mut headers = headers.clone();
            let is_registry =
                (uri.scheme(), uri.authority()) == (first.scheme(), first.authority());
            if is_registry {
                headers.extend(self.session().authorization.map(|it| (AUTHORIZATION, it)));
            }
            let reply = self.connector.get(&uri, headers).await?;
            let location = reply.headers.get(LOCATION).filter(|_| reply.status.is_redirection());
            let Some(location) = location else { return Ok(reply) };
            let location = location.to_str().unwrap_or_default();
            let next = resolve(&uri, location).ok_or_else(|| refused(location))?;
            let is_downgrade =
                uri.scheme_str() == Some("https") && next.scheme_str() != Some("https");
            if is_downgrade {
                return Err(refused(location));
            }
            uri = next;
        }
        Err(Failure::TooManyRedirects(REDIRECTS_MAX))
    }

    /// Answers the challenge; later requests carry the answer.
    async fn authenticate(&self, reply: Reply) -> Result<(), Failure> {
        let challenge = auth::parse(&reply.headers);
        let refused = refusal(reply).await;
        let session = self.session();
        let authorization = match (challenge, &self.credentials) {
            (Some(Challenge::Basic), Some(credentials)) => auth::basic(credentials),
            (Some(Challenge::Bearer { realm, service, scope }), credentials) => {
                let address =
                    auth::token_address(&realm, service.as_deref(), scope.as_deref(), &self.path);
                format!("Bearer {}", self.token(&address, credentials.as_ref()).await?)
            }
            _ => return Err(refused),
        };
        let mut authorization = HeaderValue::try_from(authorization)
            .map_err(|_| Failure::Malformed("the token cannot be sent".to_owned()))?;
        authorization.set_sensitive(true);
        self.set_session(Session { authorization: Some(authorization), ..session });
        Ok(())
    }

    async fn token(
        &self,
        address: &str,
        credentials: Option<&Credentials>,
    ) -> Result<String, Failure> {
        let malformed = || Failure::Malformed(format!("{address:?} cannot be asked for a token"));
        let uri: Uri = address.parse().map_err(|_| malformed())?;
        let is_open = uri.scheme_str() != Some("https");
        if is_open && self.session().scheme == "https" {
            return Err(Failure::Redirect(address.to_owned()));
        }
        let mut headers = HeaderMap::new();
        if let Some(credentials) = credentials {
            let mut value =
                HeaderValue::try_from(auth::basic(credentials)).map_err(|_| malformed())?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let reply = self.connector.get(&uri, headers).await?;
        if !reply.status.is_success() {
            return Err(match refusal(reply).await {
                Failure::Status { status, message } if status.is_client_error() => {
                    Failure::Unauthorized(format!("failed to fetch token: {status}{message}"))
                }
                failure => failure,
            });
        }
        auth::parse_token(&reply.body.read(CONFIG_MAX).await?).ok_or_else(malformed)
    }
}

/// Relative to where it was said.
fn resolve(base: &Uri, location: &str) -> Option<Uri> {
    let uri = match location.starts_with('/') && !location.starts_with("//") {
        true => format!("{}://{}{location}", base.scheme_str()?, base.authority()?),
        false => location.to_owned(),
    };
    let uri: Uri = uri.parse().ok()?;
    let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
    (is_http && uri.authority().is_some()).then_some(uri)
}

async fn refusal(reply: Reply) -> Failure {
    let status = reply.status;
    let message = reply.body.read(ERROR_MAX).await;
    let message = message.map(|it| auth::server_message(&it)).unwrap_or_default();
    Failure::Status { status, message }
}

/// Counts what is tried and waits in between.
struct Tries {
    left: u32,
    backoff: Backoff,
}

impl Tries {
    fn new(limits: &Limits) -> Self {
        let delay = limits.retry_delay;
        Self { left: TRIES - 1, backoff: Backoff::new(delay, delay * 2) }
    }

    /// Gives the failure back if it is final.
    async fn again(&mut self, failure: Failure) -> Result<(), Failure> {
        if self.left == 0 || !failure.is_passing() {
            return Err(failure);
        }
        self.left -= 1;
        tokio::time::sleep(self.backoff.step()).await;
        Ok(())
    }
}
