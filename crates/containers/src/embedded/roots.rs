//! Where containers' root file systems come from.

use std::any::Any;
use std::path::PathBuf;

use node_api::images::ImageConfig;
use node_api::{Future, ImageId};

/// Keeps layers on disk while it lives.
pub type Lease = Box<dyn Any + Send + Sync>;

/// An unpacked image.
pub struct Root {
    pub config: ImageConfig,
    /// Uppermost first, as overlayfs wants them.
    pub layers: Vec<PathBuf>,
    pub lease: Lease,
}

/// [`images::Store`], or directories in tests.
pub trait Roots: Send + Sync {
    fn open(&self, image: &ImageId) -> Future<'_, Root>;
}
