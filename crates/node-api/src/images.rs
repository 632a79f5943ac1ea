//! Images on the node.

use serde::{Deserialize, Serialize};

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
    #[error("failed to pull and unpack image {reference:?}: {reference}: not found")]
    NotFound { reference: String },
    /// Needs credentials, or other ones.
    #[error("failed to pull image {reference:?}: access denied: {message}")]
    Denied { reference: String, message: String },
    /// Upstream's reason: RegistryUnavailable.
    #[error("failed to pull image {reference:?}: registry {registry} cannot be reached")]
    Unavailable {
        reference: String,
        registry: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("failed to pull image {reference:?}: {what} has digest {actual}, expected {expected}")]
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

pub trait Images: Send + Sync {
    /// By reference as a user writes it (`nginx`, `host:5000/a/b:tag`, `...@sha256:...`) or by image id. From memory.
    fn find(&self, reference: &str) -> Result<Option<Image>, Error>;
    /// Returns when it is verified and unpacked. Two pulls of one reference share one download.
    fn pull(&self, reference: &str, credentials: Vec<Credentials>) -> Future<'_, Image>;
    fn list(&self) -> Vec<Image>;
    /// By reference or id. Removing one of several names keeps the others.
    fn remove(&self, reference: &str) -> Future<'_, ()>;
}
