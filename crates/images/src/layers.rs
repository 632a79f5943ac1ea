//! Unpacked layers in the store: each is made once, whoever asks, and is there whole or not at all.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use node_api::images::Error;
use tokio::sync::OwnedMutexGuard;

use crate::catalog::disk;
use crate::digest::Digest;
use crate::directory::{Directory, make_directory, remove};
use crate::unpack::{self, Budget, Expected};

/// The files of the layer, as overlayfs wants them.
const FILES: &str = "fs";
/// How many bytes its files have, in decimal.
const SIZE: &str = "size";
/// Paths of directories that the archive has not described, each ended by a zero byte, until they
/// are described.
const IMPLIED: &str = "implied";

#[derive(Clone)]
pub(crate) struct LayerStore {
    directory: Arc<Directory>,
    /// Of layers that are being made in this process. Who holds one may make the layer.
    locks: Arc<Mutex<BTreeMap<Digest, Weak<tokio::sync::Mutex<()>>>>>,
}

/// The right to make one layer, which is not there yet.
pub(crate) struct Claim {
    pub(crate) diff_id: Digest,
    directory: Arc<Directory>,
    _guard: OwnedMutexGuard<()>,
}

impl LayerStore {
    pub(crate) fn new(directory: Arc<Directory>) -> Self {
        Self { directory, locks: Arc::default() }
    }

    pub(crate) fn is_there(&self, diff_id: &Digest) -> bool {
        // The size is written last, before the layer is moved to its place.
        self.directory.layer(diff_id).join(SIZE).exists()
    }

    pub(crate) fn files(&self, diff_id: &Digest) -> PathBuf {
        self.directory.layer(diff_id).join(FILES)
    }

    pub(crate) fn size(&self, diff_id: &Digest) -> Result<u64, Error> {
        let path = self.directory.layer(diff_id).join(SIZE);
        let text = fs::read_to_string(&path);
        text.and_then(|it| it.parse().map_err(io::Error::other))
            .map_err(disk(format!("reading {}", path.display())))
    }

    /// Waits for whoever is making it. `None`: it is there.
    pub(crate) async fn claim(&self, diff_id: &Digest) -> Option<Claim> {
        let lock = {
            let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
            locks.retain(|_, it| it.strong_count() > 0);
            let lock = locks.get(diff_id).and_then(Weak::upgrade).unwrap_or_default();
            locks.insert(diff_id.clone(), Arc::downgrade(&lock));
            lock
        };
        let guard = lock.lock_owned().await;
        let claim =
            Claim { diff_id: diff_id.clone(), directory: self.directory.clone(), _guard: guard };
        (!self.is_there(diff_id)).then_some(claim)
    }

    /// Overlayfs shows a directory as the uppermost layer has it. A layer that puts a file into
    /// `/tmp` without saying what `/tmp` is would give it our default mode; so it takes after the
    /// one below. `layers`: the lowest first. Blocks.
    pub(crate) fn describe_implied(&self, layers: &[Digest]) -> Result<(), Error> {
        for (n, diff_id) in layers.iter().enumerate() {
            let list = self.directory.layer(diff_id).join(IMPLIED);
            let Ok(paths) = fs::read(&list) else { continue };
            for path in paths.split(|it| *it == 0).filter(|it| !it.is_empty()) {
                let path = Path::new(std::ffi::OsStr::from_bytes(path));
                let below = layers[..n].iter().rev().map(|it| self.files(it));
                copy_description(&self.files(diff_id), path, below)
                    .map_err(disk(format!("describing {} in a layer", path.display())))?;
            }
            remove(&list).map_err(disk(format!("removing {}", list.display())))?;
        }
        Ok(())
    }
}

/// From the first that has something of that name.
fn copy_description(
    layer: &Path,
    path: &Path,
    below: impl Iterator<Item = PathBuf>,
) -> io::Result<()> {
    for root in below {
        // A link on the way would lead out of the layer; a real directory there is another one.
        let mut at = root.clone();
        let mut found = None;
        for part in path.components() {
            at.push(part);
            found = fs::symlink_metadata(&at).ok();
            if !found.as_ref().is_some_and(fs::Metadata::is_dir) {
                break;
            }
        }
        let Some(found) = found else { continue };
        if !found.is_dir() || at != root.join(path) {
            return Ok(());
        }
        let target = layer.join(path);
        std::os::unix::fs::lchown(&target, Some(found.uid()), Some(found.gid()))?;
        return fs::set_permissions(&target, found.permissions());
    }
    Ok(())
}

impl Claim {
    /// From a stream. Blocks.
    pub(crate) fn unpack(
        &self,
        source: impl Read,
        expected: &Expected,
        budget: &Budget,
    ) -> Result<(), unpack::Error> {
        let scratch = self.directory.scratch();
        let made = make_directory(&scratch.join(FILES), 0o755)
            .map_err(|err| unpack::Error::Write("/".to_owned(), err))
            .and_then(|()| unpack::unpack(source, &scratch.join(FILES), expected, budget))
            .and_then(|unpacked| {
                if !unpacked.implied.is_empty() {
                    let list: Vec<u8> = unpacked
                        .implied
                        .into_iter()
                        .flat_map(|it| [it, vec![0]].concat())
                        .collect();
                    fs::write(scratch.join(IMPLIED), list)
                        .map_err(|err| unpack::Error::Write(IMPLIED.to_owned(), err))?;
                }
                self.place(&scratch, unpacked.size)
                    .map_err(|err| unpack::Error::Write("/".to_owned(), err))
            });
        made.inspect_err(|_| clean(&scratch))
    }

    /// From files that `make` puts into the directory it is given, returning their size. Blocks.
    pub(crate) fn make(&self, make: impl FnOnce(&Path) -> Result<u64, Error>) -> Result<(), Error> {
        let scratch = self.directory.scratch();
        let made = make_directory(&scratch.join(FILES), 0o755)
            .map_err(disk("making a layer"))
            .and_then(|()| make(&scratch.join(FILES)))
            .and_then(|size| self.place(&scratch, size).map_err(disk("placing a layer")));
        made.inspect_err(|_| clean(&scratch))
    }

    fn place(&self, scratch: &Path, size: u64) -> io::Result<()> {
        fs::write(scratch.join(SIZE), size.to_string())?;
        self.directory.place_layer(scratch, &self.diff_id)
    }
}

/// What cannot be removed now goes when the store is opened again.
fn clean(scratch: &Path) {
    if let Err(err) = remove(scratch) {
        tracing::warn!(path = %scratch.display(), error = %err, "rubbish stays until restart");
    }
}
