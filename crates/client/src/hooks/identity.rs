//! Who this server is to one of those that it asks: a client certificate, a token or a password,
//! as a user of a kubeconfig has them.
//!
//! Files are read again now and then, so that what is rotated on disk is taken; what cannot be used
//! leaves what there was. Never logs what it has.

use std::fmt;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use rustls::client::ResolvesClientCert;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use rustls::sign::CertifiedKey;
use rustls::{SignatureScheme, crypto};
use tokio::time::Instant;

use crate::kubeconfig::{Source, User};

/// As often as client-go reads a file with a token.
const REREAD: Duration = Duration::from_secs(60);
/// More is neither a certificate nor a token.
const FILE_MAX: u64 = 1 << 20;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{field}: reading {}", .path.display())]
    Read {
        field: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{field} is not PEM")]
    Pem {
        field: &'static str,
        #[source]
        source: pem::Error,
    },
    #[error("{0}: there is one without the other")]
    Half(&'static str),
    #[error("client-certificate and client-key")]
    Pair(#[source] rustls::Error),
    #[error("{0}: it has characters that no header can have")]
    Header(&'static str),
    #[error("token and username: there may be one of them")]
    Both,
}

/// What is shown, made ready; and what it was made of, to see when that changes.
struct Shown {
    key: Option<Arc<CertifiedKey>>,
    authorization: Option<HeaderValue>,
    made_of: [Option<Vec<u8>>; 3],
}

struct Current {
    shown: Shown,
    read_at: Instant,
    /// Grows when something else is shown.
    generation: u64,
}

pub struct Identity {
    /// With paths that are whole.
    user: User,
    current: Mutex<Current>,
}

impl Identity {
    /// Paths are relative to `folder`.
    pub fn new(user: &User, folder: &Path) -> Result<Self, Error> {
        let whole = |source: &Option<Source>| {
            source.clone().map(|it| match it {
                Source::File(path) => {
                    Source::File(folder.join(path).to_string_lossy().into_owned())
                }
                Source::Inline(_) => it,
            })
        };
        let user = User {
            client_certificate: whole(&user.client_certificate),
            client_key: whole(&user.client_key),
            token: whole(&user.token),
            username: user.username.clone(),
        };
        let shown = make(&user, sources(&user)?)?;
        let current = Current { shown, read_at: Instant::now(), generation: 0 };
        Ok(Self { user, current: Mutex::new(current) })
    }

    pub(super) fn has_certificate(&self) -> bool {
        self.user.client_certificate.is_some()
    }

    /// Looks whether something else is to be shown now: which it is, and the header that goes with
    /// a request.
    pub(super) fn refresh(&self) -> (u64, Option<HeaderValue>) {
        let mut current = self.lock();
        let now = Instant::now();
        if now - current.read_at >= REREAD {
            current.read_at = now;
            match sources(&self.user) {
                Ok(made_of) if made_of == current.shown.made_of => {}
                Ok(made_of) => match make(&self.user, made_of) {
                    Ok(shown) => {
                        current.shown = shown;
                        current.generation += 1;
                    }
                    Err(err) => keeping(&err),
                },
                Err(err) => keeping(&err),
            }
        }
        (current.generation, current.shown.authorization.clone())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn keeping(err: &Error) {
    let error = stdx::error_chain(err);
    tracing::warn!(%error, "credentials for webhooks cannot be used; those from before stay");
}

/// Certificate, key and token as they are at this moment.
fn sources(user: &User) -> Result<[Option<Vec<u8>>; 3], Error> {
    Ok([
        bytes("client-certificate", user.client_certificate.as_ref())?,
        bytes("client-key", user.client_key.as_ref())?,
        bytes("tokenFile", user.token.as_ref())?,
    ])
}

fn bytes(field: &'static str, source: Option<&Source>) -> Result<Option<Vec<u8>>, Error> {
    match source {
        None => Ok(None),
        Some(Source::Inline(bytes)) => Ok(Some(bytes.clone())),
        Some(Source::File(path)) => {
            let path = PathBuf::from(path);
            let mut bytes = Vec::new();
            let read =
                std::fs::File::open(&path).and_then(|it| it.take(FILE_MAX).read_to_end(&mut bytes));
            read.map_err(|source| Error::Read { field, path, source })?;
            Ok(Some(bytes))
        }
    }
}

fn make(user: &User, made_of: [Option<Vec<u8>>; 3]) -> Result<Shown, Error> {
    let [certificate, key, token] = &made_of;
    let key = match (certificate, key) {
        (None, None) => None,
        (Some(certificate), Some(key)) => Some(certified(certificate, key)?),
        (Some(_), None) => return Err(Error::Half("client-certificate")),
        (None, Some(_)) => return Err(Error::Half("client-key")),
    };
    let authorization = match (token, &user.username) {
        (None, None) => None,
        (Some(_), Some(_)) => return Err(Error::Both),
        (Some(token), None) => {
            let token = String::from_utf8_lossy(token);
            Some(header("token", &format!("Bearer {}", token.trim()))?)
        }
        (None, Some((name, password))) => {
            let both = STANDARD.encode(format!("{name}:{password}"));
            Some(header("username", &format!("Basic {both}"))?)
        }
    };
    Ok(Shown { key, authorization, made_of })
}

fn certified(certificate: &[u8], key: &[u8]) -> Result<Arc<CertifiedKey>, Error> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).collect();
    let chain = chain.map_err(|source| Error::Pem { field: "client-certificate", source })?;
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|source| Error::Pem { field: "client-key", source })?;
    let provider = crypto::aws_lc_rs::default_provider();
    let key = CertifiedKey::from_der(chain, key, &provider).map_err(Error::Pair)?;
    Ok(Arc::new(key))
}

fn header(field: &'static str, text: &str) -> Result<HeaderValue, Error> {
    let mut value = HeaderValue::from_str(text).map_err(|_| Error::Header(field))?;
    value.set_sensitive(true);
    Ok(value)
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity")
    }
}

impl ResolvesClientCert for Identity {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.lock().shown.key.clone()
    }

    fn has_certs(&self) -> bool {
        self.has_certificate()
    }
}
