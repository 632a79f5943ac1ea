//! The store: finds, loads, holds and removes images. Disk work is done on tokio's blocking
//! threads, but for look-ups, which are from memory.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use node_api::containers::FilesystemUsage;
use node_api::images::{Credentials, Error, Image};
use node_api::{ContainerId, ImageId, Images};

use crate::archive::{self, Packed};
use crate::catalog::{Catalog, disk};
use crate::digest::Digest;
use crate::directory::{Directory, Lock, Stored, remove};
use crate::index::{Entry, Index, Names, Target};
use crate::layers::LayerStore;
use crate::pull::Flights;
use crate::reference::Reference;
use crate::toolbox::{Described, Toolbox};
use crate::unpack::{self, Budget, Expected};
use crate::{Config, toolbox};

/// Changes at every boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// The boot in which a layer was made without waiting for the disk.
const BOOT: &str = "boot";

/// Cheap to clone.
#[derive(Clone)]
pub struct Store {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) config: Config,
    directory: Arc<Directory>,
    pub(crate) catalog: Catalog,
    pub(crate) layers: LayerStore,
    toolbox: Option<Toolbox>,
    pub(crate) flights: Flights,
}

/// The unpacked layers of an image. They stay while the image is held, see [`Store::hold`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layers {
    /// The uppermost first, as overlayfs wants them.
    pub directories: Vec<PathBuf>,
}

/// An image whose layers are all there.
pub(crate) struct Complete {
    /// The content; its digest is the image's id.
    pub(crate) config: Vec<u8>,
    pub(crate) manifest: Option<(Digest, Vec<u8>)>,
    /// The lowest first.
    pub(crate) layers: Vec<Digest>,
    pub(crate) is_built_in: bool,
}

pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    match tokio::task::spawn_blocking(work).await {
        Ok(outcome) => outcome,
        Err(err) if err.is_panic() => std::panic::resume_unwind(err.into_panic()),
        // The process is ending.
        Err(err) => Err(disk("waiting for the disk")(io::Error::other(err))),
    }
}

/// An error of a layer, as an error of its image.
pub(crate) fn layer_error(reference: &str, err: unpack::Error) -> Error {
    match err {
        unpack::Error::WrongDigest { expected, actual } => Error::WrongDigest {
            reference: reference.to_owned(),
            what: "layer".to_owned(),
            expected: expected.to_string(),
            actual: actual.to_string(),
        },
        unpack::Error::Write(path, source) => Error::Disk {
            doing: format!("failed to pull and unpack image {reference:?}: unpacking {path:?}"),
            source,
        },
        err => {
            Error::Unusable { reference: reference.to_owned(), problem: stdx::error_chain(&err) }
        }
    }
}

impl Store {
    pub fn open(config: Config) -> Result<Self, Error> {
        let opening = disk(format!("opening the image store {}", config.directory.display()));
        let directory = Arc::new(Directory::open(&config.directory).map_err(opening)?);
        let tools = config.toolbox_tools.clone();
        let toolbox = config.toolbox.clone().map(|program| Toolbox::new(program, tools));
        let inner = Inner {
            catalog: Catalog::open(directory.clone())?,
            layers: LayerStore::new(directory.clone()),
            flights: Flights::default(),
            directory,
            toolbox,
            config,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Keeps the image from being removed until `owner` releases it: after a restart too, and
    /// against other processes.
    pub async fn hold(&self, id: &ImageId, owner: &ContainerId) -> Result<(), Error> {
        self.write_hold(id, owner, Held::Alone).await
    }

    /// As [`Self::hold`], beside what the owner holds already. One release is for all.
    pub async fn hold_too(&self, id: &ImageId, owner: &ContainerId) -> Result<(), Error> {
        self.write_hold(id, owner, Held::Too).await
    }

    async fn write_hold(&self, id: &ImageId, owner: &ContainerId, held: Held) -> Result<(), Error> {
        let id = self.made(id).await?;
        let (inner, owner) = (self.inner.clone(), owner.clone());
        blocking(move || {
            let holding = || disk(format!("holding image {id} for container {owner}"));
            let path = inner.hold_path(&owner).map_err(holding())?;
            let _lock = inner.directory.lock_index().map_err(holding())?;
            if inner.catalog.layers(&id)?.is_none() {
                return Err(Error::NotFound { reference: id.to_string() });
            }
            let before = match held {
                Held::Alone => String::new(),
                Held::Too => fs::read_to_string(&path).map_err(holding())? + "\n",
            };
            fs::write(path, before + &id.to_string()).map_err(holding())
        })
        .await
    }

    /// Nothing happens if it holds nothing.
    pub async fn release(&self, owner: &ContainerId) -> Result<(), Error> {
        let (inner, owner) = (self.inner.clone(), owner.clone());
        blocking(move || {
            let path = inner.hold_path(&owner);
            path.and_then(|it| remove(&it)).map_err(disk(format!("releasing container {owner}")))
        })
        .await
    }

    /// Releases what a crash has left: all but these.
    pub async fn retain_holds(&self, owners: BTreeSet<ContainerId>) -> Result<(), Error> {
        let inner = self.inner.clone();
        blocking(move || {
            let names: BTreeSet<&str> = owners.iter().map(ContainerId::as_str).collect();
            let release = || {
                for entry in fs::read_dir(inner.directory.holds())? {
                    let entry = entry?;
                    if !entry.file_name().to_str().is_some_and(|it| names.contains(it)) {
                        remove(&entry.path())?;
                    }
                }
                Ok(())
            };
            release().map_err(disk("releasing images of containers that are gone"))
        })
        .await
    }

    /// The unpacked layers of an image. Hold it first.
    pub async fn layers(&self, id: &ImageId) -> Result<Layers, Error> {
        let id = self.made(id).await?;
        let layers = self.inner.catalog.layers(&id)?;
        let layers = layers.ok_or_else(|| Error::NotFound { reference: id.to_string() })?;
        let directories = layers.iter().rev().map(|it| self.inner.layers.files(it)).collect();
        Ok(Layers { directories })
    }

    /// From an OCI or docker archive (tar, optionally compressed). Returns what was loaded.
    pub async fn load(&self, archive: &Path) -> Result<Vec<Image>, Error> {
        self.load_as(archive, None).await
    }

    /// With a name in place of those in the archive, which must have one image alone.
    pub async fn load_as(
        &self,
        archive: &Path,
        name: Option<Reference>,
    ) -> Result<Vec<Image>, Error> {
        let _content = self.lock_content().await?;
        let (inner, path) = (self.inner.clone(), archive.to_owned());
        let mut images =
            blocking(move || archive::read(&path, &inner.directory, &inner.budget())).await?;
        let shown = archive.display().to_string();
        if let Some(name) = name {
            let n_images = images.len();
            let [image] = images.as_mut_slice() else {
                let problem = format!("it has {n_images} images, but one name was given");
                return Err(Error::Unusable { reference: shown, problem });
            };
            image.names = vec![name];
        }
        let mut loaded = Vec::new();
        for image in images {
            loaded.push(self.load_packed(&shown, image).await?);
        }
        Ok(loaded)
    }

    async fn load_packed(&self, shown: &str, image: Packed) -> Result<Image, Error> {
        let config = image
            .validate()
            .map_err(|problem| Error::Unusable { reference: shown.to_owned(), problem })?;
        let budget = self.inner.budget();
        let diff_ids = config.rootfs.diff_ids;
        for ((digest, section), diff_id) in image.layers.into_iter().zip(&diff_ids) {
            let Some(claim) = self.inner.layers.claim(diff_id).await else { continue };
            let expected = Expected { digest, diff_id: diff_id.clone() };
            let (budget, shown) = (budget.clone(), shown.to_owned());
            blocking(move || {
                let unpacked = claim.unpack(section, &expected, &budget);
                unpacked.map_err(|err| layer_error(&shown, err))
            })
            .await?;
        }
        let digest = image.manifest.as_ref().map(|it| &it.0);
        let by_digest = image.names.iter().zip(digest).map(|(name, it)| name.with_digest(it));
        let names = Names {
            tags: image.names.iter().filter_map(Reference::tagged).collect(),
            digests: by_digest.collect(),
        };
        let complete = Complete {
            config: image.config,
            manifest: image.manifest,
            layers: diff_ids,
            is_built_in: false,
        };
        self.commit(complete, names).await
    }

    /// Held while content is added that the index does not name yet.
    pub(crate) async fn lock_content(&self) -> Result<Lock, Error> {
        let inner = self.inner.clone();
        blocking(move || inner.directory.lock_content().map_err(disk("locking the image store")))
            .await
    }

    /// The image is there, from now on and after a crash. The caller holds the content lock.
    pub(crate) async fn commit(&self, image: Complete, names: Names) -> Result<Image, Error> {
        let inner = self.inner.clone();
        blocking(move || {
            inner.layers.describe_implied(&image.layers)?;
            let storing = || disk("storing the image");
            let id = Digest::of(&image.config);
            inner.directory.write_blob(&id, &image.config).map_err(storing())?;
            if let Some((digest, content)) = &image.manifest {
                inner.directory.write_blob(digest, content).map_err(storing())?;
            }
            // What a power cut takes of the built-in image is made again.
            if !image.is_built_in {
                inner.directory.sync().map_err(storing())?;
            }
            let sizes = image.layers.iter().map(|it| inner.layers.size(it));
            let entry = Entry {
                manifest: image.manifest.map(|it| it.0),
                size: sizes.sum::<Result<_, _>>()?,
                layers: image.layers,
                is_built_in: image.is_built_in,
            };
            inner.catalog.update(|index| {
                index.add(&id, entry, names);
                Ok(())
            })?;
            let found = inner.catalog.find(&Target::Id(id.clone()))?;
            found.ok_or_else(|| Error::NotFound { reference: id.to_string() })
        })
        .await
    }

    /// The id; if it is the built-in image's, the image is made.
    async fn made(&self, id: &ImageId) -> Result<Digest, Error> {
        let id = Digest::parse(id.as_str())
            .map_err(|problem| Error::InvalidName { reference: id.to_string(), problem })?;
        if let Some(described) = self.inner.toolbox_with(&id) {
            self.make_toolbox(described).await?;
        }
        Ok(id)
    }

    pub(crate) async fn make_toolbox(&self, described: Arc<Described>) -> Result<(), Error> {
        let inner = self.inner.clone();
        let is_current = || {
            let boot = inner.directory.layer(&described.layer).join(BOOT);
            fs::read(boot).is_ok_and(|it| Some(it) == fs::read(BOOT_ID).ok())
        };
        if is_current() && inner.catalog.layers(&described.id)?.is_some() {
            return Ok(());
        }
        let _content = self.lock_content().await?;
        if !is_current() && inner.layers.is_there(&described.layer) {
            // It was not waited for when it was written, so after a power cut it may be damaged.
            // Nothing runs on it: no container outlives a boot.
            let (directory, layer) = (inner.directory.clone(), described.layer.clone());
            let removing = disk("removing the old toolbox image");
            blocking(move || {
                let stale = directory.discard(&directory.layer(&layer));
                stale.and_then(|it| remove(&it)).map_err(removing)
            })
            .await?;
        }
        if let Some(claim) = inner.layers.claim(&described.layer).await {
            let (inner, described) = (inner.clone(), described.clone());
            blocking(move || {
                let toolbox = inner
                    .toolbox
                    .as_ref()
                    .ok_or_else(|| Error::NotFound { reference: toolbox::REGISTRY.to_owned() })?;
                claim.make(|root| {
                    let size = toolbox.make(&described, root)?;
                    let boot = root.parent().unwrap_or(root).join(BOOT);
                    fs::copy(BOOT_ID, boot).map_err(disk("making the toolbox image"))?;
                    Ok(size)
                })
            })
            .await?;
        }
        let complete = Complete {
            config: described.config.clone(),
            manifest: None,
            layers: vec![described.layer.clone()],
            is_built_in: true,
        };
        let names = Names { tags: Toolbox::tags(), digests: Vec::new() };
        self.commit(complete, names).await.map(|_| ())
    }

    async fn remove_image(&self, reference: &str) -> Result<(), Error> {
        let target = Target::parse(reference)?;
        let inner = self.inner.clone();
        blocking(move || {
            inner.catalog.update(|index| inner.unname(index, &target))?;
            inner.collect()
        })
        .await
    }
}

impl Inner {
    pub(crate) fn budget(&self) -> Budget {
        Budget::new(self.config.limits.size_max, self.config.limits.entries_max)
    }

    pub(crate) fn describe_toolbox(&self) -> Result<Option<Arc<Described>>, Error> {
        self.toolbox.as_ref().map(Toolbox::describe).transpose()
    }

    /// The present one, if that is its id. A program that cannot be read is no reason to lose other
    /// images.
    fn toolbox_with(&self, id: &Digest) -> Option<Arc<Described>> {
        self.describe_toolbox().ok().flatten().filter(|it| it.id == *id)
    }

    fn hold_path(&self, owner: &ContainerId) -> io::Result<PathBuf> {
        let name = owner.as_str();
        match name.is_empty() || name.starts_with('.') || name.contains('/') {
            true => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a container's id")),
            false => Ok(self.directory.holds().join(name)),
        }
    }

    /// Under the index' lock.
    fn held(&self) -> Result<BTreeSet<Digest>, Error> {
        let read = || {
            let mut held = BTreeSet::new();
            for entry in fs::read_dir(self.directory.holds())? {
                match fs::read_to_string(entry?.path()) {
                    Err(err) if err.kind() == io::ErrorKind::NotFound => {}
                    // One image to a line.
                    outcome => {
                        held.extend(outcome?.lines().filter_map(|it| Digest::parse(it).ok()));
                    }
                }
            }
            Ok(held)
        };
        read().map_err(disk("reading which images are held"))
    }

    /// Takes a name away, or the image if none is left.
    fn unname(&self, index: &mut Index, target: &Target) -> Result<(), Error> {
        let held = self.held()?;
        let outdated = |id: &Digest, it: &Entry, index: &Index| {
            it.is_built_in && index.tags_of(id).is_empty() && !held.contains(id)
        };
        if let Some(rest) = index.without(target) {
            *index = rest;
        } else if let Some(id) = index.find(target).cloned() {
            if held.contains(&id) {
                return Err(Error::InUse(ImageId::new(id.to_string())));
            }
            index.remove(&id);
        }
        let outdated: Vec<Digest> = index
            .images
            .iter()
            .filter(|(id, it)| outdated(id, it, index))
            .map(|(id, _)| id.clone())
            .collect();
        outdated.iter().for_each(|id| index.remove(id));
        Ok(())
    }

    /// Walks through everything. Blocks.
    fn measure(&self) -> Result<FilesystemUsage, Error> {
        let mountpoint = self.directory.path().to_owned();
        let counted = count(&mountpoint).map_err(disk("measuring images"))?;
        Ok(FilesystemUsage { mountpoint, used_bytes: counted.0, inodes_used: counted.1 })
    }

    /// Removes what no image needs. While something is being added it is left for the next time.
    /// Blocks.
    fn collect(&self) -> Result<(), Error> {
        let collecting = || disk("removing unused layers");
        let lock = self.directory.try_lock_content_alone().map_err(collecting())?;
        let Some(lock) = lock else { return Ok(()) };
        let index = self.catalog.index()?;
        let mut discarded = Vec::new();
        for (kind, used) in [(Stored::Layers, index.layers()), (Stored::Blobs, index.blobs())] {
            for (digest, path) in self.directory.stored(kind).map_err(collecting())? {
                if !used.contains(&digest) {
                    discarded.push(self.directory.discard(&path).map_err(collecting())?);
                }
            }
        }
        drop(lock);
        discarded.iter().try_for_each(|it| remove(it)).map_err(collecting())
    }
}

enum Held {
    Alone,
    Too,
}

/// Bytes on disk, and inodes. What goes meanwhile is not counted.
fn count(directory: &Path) -> io::Result<(u64, u64)> {
    let (mut bytes, mut inodes) = (0, 0);
    let mut left = vec![directory.to_owned()];
    while let Some(directory) = left.pop() {
        let entries = match fs::read_dir(&directory) {
            Err(err) if err.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let Ok(metadata) = entry.metadata() else { continue };
            bytes += metadata.blocks() * 512;
            inodes += 1;
            if metadata.is_dir() {
                left.push(entry.path());
            }
        }
    }
    Ok((bytes, inodes))
}

impl Images for Store {
    fn find(&self, reference: &str) -> Result<Option<Image>, Error> {
        let target = Target::parse(reference)?;
        let built_in = match &target {
            Target::Named(reference) if Toolbox::is_named(reference) => {
                self.inner.describe_toolbox()?
            }
            Target::Named(_) => None,
            Target::Id(id) => self.inner.toolbox_with(id),
        };
        match built_in {
            Some(described) => Ok(Some(described.image())),
            None => self.inner.catalog.find(&target),
        }
    }

    fn pull(&self, reference: &str, credentials: Vec<Credentials>) -> node_api::Future<'_, Image> {
        let reference = reference.to_owned();
        Box::pin(async move { Ok(self.pull_shared(&reference, credentials).await?) })
    }

    fn list(&self) -> Vec<Image> {
        let listed = self.inner.catalog.list().unwrap_or_else(|err| {
            tracing::warn!(error = stdx::error_chain(&err), "images cannot be listed");
            Vec::new()
        });
        let described = self.inner.describe_toolbox().ok().flatten();
        let is_new = |it: &Arc<Described>| {
            let id = it.id.to_string();
            !listed.iter().any(|image| image.id.as_str() == id)
        };
        let unmade = described.filter(is_new).map(|it| it.image());
        listed.into_iter().chain(unmade).collect()
    }

    fn remove(&self, reference: &str) -> node_api::Future<'_, ()> {
        let reference = reference.to_owned();
        Box::pin(async move { Ok(self.remove_image(&reference).await?) })
    }

    fn filesystem(&self) -> node_api::Future<'_, FilesystemUsage> {
        let inner = self.inner.clone();
        Box::pin(async move { Ok(blocking(move || inner.measure()).await?) })
    }
}
