//! Container images: pull, load, verify, unpack, share, remove.
//!
//! Promises: what is stored was verified by its digest; an image is there whole or not at all, also after kill -9; layers
//! are stored once. `Store` implements [`node_api::Images`].

use std::path::{Path, PathBuf};

use node_api::ImageId;
use node_api::images::{Error, Image};

pub struct Config {
    /// Everything is below it.
    pub directory: PathBuf,
    /// Registries (host or host:port) that are spoken to over plain HTTP; loopback ones always may be.
    pub insecure_registries: Vec<String>,
    /// The program that the built-in toolbox image is made of.
    pub toolbox: Option<PathBuf>,
}

/// Cheap to clone.
#[derive(Clone)]
pub struct Store;

impl Store {
    pub fn open(_config: Config) -> Result<Self, Error> {
        todo!()
    }

    /// The unpacked layers of an image, uppermost first, as overlayfs wants them. Valid while `Lease` lives.
    pub async fn layers(&self, _id: &ImageId) -> Result<Layers, Error> {
        todo!()
    }

    /// From an OCI or docker archive (tar, optionally compressed). Returns what was loaded.
    pub async fn load(&self, _archive: &Path) -> Result<Vec<Image>, Error> {
        todo!()
    }
}

pub struct Layers {
    pub directories: Vec<PathBuf>,
}
