//! Where containers' root file systems come from.

use std::collections::BTreeSet;
use std::path::PathBuf;

use node_api::images::{self, ImageConfig};
use node_api::{ContainerId, Error, Future, ImageId, Images as _};

/// An unpacked image.
pub struct Root {
    pub config: ImageConfig,
    /// Uppermost first, as overlayfs wants them.
    pub layers: Vec<PathBuf>,
}

/// [`::images::Store`], or directories in tests.
pub trait Roots: Send + Sync {
    /// What a container of this image starts from. It stays until `owner` releases it, after a
    /// restart too.
    fn hold(&self, image: &ImageId, owner: &ContainerId) -> Future<'_, Root>;
    /// The layers, uppermost first, of an image that `owner` mounts beside its own, until it
    /// releases all.
    fn hold_too(&self, image: &ImageId, owner: &ContainerId) -> Future<'_, Vec<PathBuf>>;
    /// Nothing happens if it holds nothing.
    fn release(&self, owner: &ContainerId) -> Future<'_, ()>;
    /// Releases what a crash has left: all but these.
    fn retain(&self, owners: BTreeSet<ContainerId>) -> Future<'_, ()>;
}

impl Roots for ::images::Store {
    fn hold(&self, image: &ImageId, owner: &ContainerId) -> Future<'_, Root> {
        let (image, owner) = (image.clone(), owner.clone());
        Box::pin(async move {
            let found = self.find(image.as_str())?.ok_or_else(|| {
                Error::Image(images::Error::NotFound { reference: image.to_string() })
            })?;
            Self::hold(self, &found.id, &owner).await?;
            let layers = self.layers(&found.id).await?.directories;
            Ok(Root { config: found.config, layers })
        })
    }

    fn hold_too(&self, image: &ImageId, owner: &ContainerId) -> Future<'_, Vec<PathBuf>> {
        let (image, owner) = (image.clone(), owner.clone());
        Box::pin(async move {
            let found = self.find(image.as_str())?.ok_or_else(|| {
                Error::Image(images::Error::NotFound { reference: image.to_string() })
            })?;
            Self::hold_too(self, &found.id, &owner).await?;
            Ok(self.layers(&found.id).await?.directories)
        })
    }

    fn release(&self, owner: &ContainerId) -> Future<'_, ()> {
        let owner = owner.clone();
        Box::pin(async move { Ok(Self::release(self, &owner).await?) })
    }

    fn retain(&self, owners: BTreeSet<ContainerId>) -> Future<'_, ()> {
        Box::pin(async move { Ok(self.retain_holds(owners).await?) })
    }
}
