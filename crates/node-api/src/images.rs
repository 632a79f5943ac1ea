//! Images on the node.

use serde::{Deserialize, Serialize};

use crate::containers::FilesystemUsage;
use crate::{Future, ImageId};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    pub id: ImageId,
    /// `registry/name:tag`, normalized.
    pub tags: Vec<String>,
    /// `registry/name@sha256:...`
    pub digests: Vec<String>,
    /// Bytes on disk, shared layers counted in full.
    pub size: u64,
    pub config: ImageConfig,
}

/// The part of the OCI image configuration that containers start from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageConfig {
    pub user: String,
    pub env: Vec<String>,
    pub entrypoint: Vec<String>,
    pub command: Vec<String>,
    pub working_dir: String,
    pub stop_signal: Option<String>,
    pub volumes: Vec<String>,
    pub exposed_ports: Vec<String>,
}

#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The registry's host (and port) they are for; `None`: any.
    pub registry: Option<String>,
    pub user: String,
    pub password: String,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Upstream's reason: InvalidImageName.
    #[error("couldn't parse image name {reference:?}: {problem}")]
    InvalidName { reference: String, problem: String },
    /// The registry has no such name, tag or digest.
    #[error(
        "failed to pull and unpack image {reference:?}: failed to resolve reference {reference:?}: {reference}: not found"
    )]
    NotFound { reference: String },
    /// Needs credentials, or other ones.
    #[error(
        "failed to pull and unpack image {reference:?}: failed to resolve reference {reference:?}: pull access denied, \
         repository does not exist or may require authorization: {message}"
    )]
    Denied { reference: String, message: String },
    /// Upstream shows ErrImagePull for it, as for every other failure of a pull.
    #[error("failed to pull and unpack image {reference:?}: registry {registry} cannot be reached")]
    Unavailable {
        reference: String,
        registry: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error(
        "failed to pull and unpack image {reference:?}: {what} has unexpected digest {actual}, expected {expected}"
    )]
    WrongDigest { reference: String, what: String, expected: String, actual: String },
    /// Not an image for this machine, or not an image.
    #[error("image {reference:?} cannot be used: {problem}")]
    Unusable { reference: String, problem: String },
    #[error("image {0} is used by a container")]
    InUse(ImageId),
    #[error("{doing}")]
    Disk {
        doing: String,
        #[source]
        source: std::io::Error,
    },
}

/// The text of a cause that several share.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct SharedCause(String);

impl Error {
    /// The same for another who waited for the same; of a cause only its text.
    #[must_use]
    pub fn share(&self) -> Self {
        match self {
            Self::InvalidName { reference, problem } => {
                Self::InvalidName { reference: reference.clone(), problem: problem.clone() }
            }
            Self::NotFound { reference } => Self::NotFound { reference: reference.clone() },
            Self::Denied { reference, message } => {
                Self::Denied { reference: reference.clone(), message: message.clone() }
            }
            Self::Unavailable { reference, registry, source } => Self::Unavailable {
                reference: reference.clone(),
                registry: registry.clone(),
                source: Box::new(SharedCause(chain(&**source))),
            },
            Self::WrongDigest { reference, what, expected, actual } => Self::WrongDigest {
                reference: reference.clone(),
                what: what.clone(),
                expected: expected.clone(),
                actual: actual.clone(),
            },
            Self::Unusable { reference, problem } => {
                Self::Unusable { reference: reference.clone(), problem: problem.clone() }
            }
            Self::InUse(id) => Self::InUse(id.clone()),
            Self::Disk { doing, source } => Self::Disk {
                doing: doing.clone(),
                source: std::io::Error::new(source.kind(), source.to_string()),
            },
        }
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", chain(cause)),
        None => error.to_string(),
    }
}

pub trait Images: Send + Sync {
    /// By reference as a user writes it (`nginx`, `host:5000/a/b:tag`, `...@sha256:...`) or by
    /// image id. From memory.
    fn find(&self, reference: &str) -> Result<Option<Image>, Error>;
    /// Returns when it is verified and unpacked. Two pulls of one reference share one download.
    fn pull(&self, reference: &str, credentials: Vec<Credentials>) -> Future<'_, Image>;
    fn list(&self) -> Vec<Image>;
    /// By reference or id. Removing one of several names keeps the others.
    fn remove(&self, reference: &str) -> Future<'_, ()>;
    /// What all images take in all, shared layers counted once.
    fn filesystem(&self) -> Future<'_, FilesystemUsage>;
}
