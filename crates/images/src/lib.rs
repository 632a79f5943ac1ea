//! Container images: pull, load, verify, unpack, share, remove.
//!
//! Promises: what is stored was verified by its digest; an image is there whole or not at all, also
//! after kill -9; layers are stored once. `Store` implements [`node_api::Images`]. Several
//! processes may have the same directory open.

mod archive;
mod catalog;
mod digest;
mod directory;
pub mod garbage;
mod index;
mod layers;
mod manifest;
mod pull;
mod reference;
mod registry;
mod store;
mod toolbox;
mod unpack;

use std::path::PathBuf;
use std::time::Duration;

pub use digest::Digest;
pub use reference::Reference;
pub use store::{Layers, Store};

#[derive(Clone, Debug)]
pub struct Config {
    /// Everything is below it.
    pub directory: PathBuf,
    /// Registries (host or host:port) that are spoken to over plain HTTP; loopback ones always may
    /// be.
    pub insecure_registries: Vec<String>,
    /// Certificates (PEM) that registries are trusted by; `None`: the system's.
    pub certificates: Option<PathBuf>,
    /// The program that the built-in toolbox image is made of.
    pub toolbox: Option<PathBuf>,
    /// Names in its `/bin` that lead to the program.
    pub toolbox_tools: Vec<String>,
    pub limits: Limits,
}

#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes that one image may unpack to.
    pub size_max: u64,
    /// Files that one layer may have.
    pub entries_max: u64,
    pub timeout_connect: Duration,
    /// A registry that sends nothing for so long counts as gone.
    pub timeout_idle: Duration,
    /// Before the second try; doubled before the third, which is the last.
    pub retry_delay: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            size_max: 64 << 30,
            entries_max: 1_000_000,
            timeout_connect: Duration::from_secs(10),
            timeout_idle: Duration::from_secs(30),
            retry_delay: Duration::from_millis(500),
        }
    }
}

impl Config {
    /// With everything else as most want it.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            insecure_registries: Vec::new(),
            certificates: None,
            toolbox: None,
            toolbox_tools: Vec::new(),
            limits: Limits::default(),
        }
    }
}
