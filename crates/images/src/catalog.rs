//! The index on disk and in memory. Another process may replace the file; a look at its inode
//! tells, so that `xebec image load` is seen by a cluster that runs.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use node_api::ImageId;
use node_api::images::{Error, Image, ImageConfig};

use crate::digest::Digest;
use crate::directory::Directory;
use crate::index::{FORMAT, Index, Target};
use crate::manifest::ConfigFile;

pub(crate) struct Catalog {
    directory: Arc<Directory>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Of the file that `index` was read from; `None`: there was none.
    stamp: Option<Stamp>,
    index: Index,
    configs: BTreeMap<Digest, ImageConfig>,
}

/// Each version of the file is another inode, made while the one before still exists.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    changed: (i64, i64),
    size: u64,
}

pub(crate) fn disk(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
    let doing = doing.into();
    move |source| Error::Disk { doing, source }
}

impl Catalog {
    pub(crate) fn open(directory: Arc<Directory>) -> Result<Self, Error> {
        let catalog = Self { directory, state: Mutex::default() };
        drop(catalog.fresh()?);
        Ok(catalog)
    }

    fn stamp(&self) -> io::Result<Option<Stamp>> {
        match fs::metadata(self.directory.index()) {
            Ok(it) => Ok(Some(Stamp {
                inode: it.ino(),
                changed: (it.ctime(), it.ctime_nsec()),
                size: it.len(),
            })),
            Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(err) => Err(err),
        }
    }

    /// As the newest file has it.
    fn fresh(&self) -> Result<MutexGuard<'_, State>, Error> {
        let reading = || disk(format!("reading {}", self.directory.index().display()));
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = self.stamp().map_err(reading())?;
        if stamp == state.stamp {
            return Ok(state);
        }
        // If it is replaced between the two, the stamp is too old, and the next look reads again.
        let mut index: Index = match stamp {
            None => Index::default(),
            Some(_) => {
                let content = fs::read(self.directory.index()).map_err(reading())?;
                serde_json::from_slice(&content).map_err(|err| reading()(err.into()))?
            }
        };
        if index.format != FORMAT {
            let problem = format!("format {} is not known: use a newer xebec", index.format);
            return Err(reading()(io::Error::other(problem)));
        }
        self.read_configs(&mut index, &mut state.configs);
        state.stamp = stamp;
        state.index = index;
        Ok(state)
    }

    /// An image whose configuration is lost or damaged is not there: it is left out, and can be
    /// pulled anew.
    fn read_configs(&self, index: &mut Index, configs: &mut BTreeMap<Digest, ImageConfig>) {
        configs.retain(|id, _| index.images.contains_key(id));
        for id in index.images.keys().cloned().collect::<Vec<_>>() {
            if configs.contains_key(&id) {
                continue;
            }
            let content = fs::read(self.directory.blob(&id)).map_err(|err| err.to_string());
            match content.and_then(|it| ConfigFile::parse(&it)) {
                Ok(file) => {
                    configs.insert(id, file.into_image_config());
                }
                Err(problem) => {
                    tracing::warn!(image = %id, problem, "image is damaged and left out");
                    index.remove(&id);
                }
            }
        }
    }

    pub(crate) fn find(&self, target: &Target) -> Result<Option<Image>, Error> {
        let state = self.fresh()?;
        Ok(state.index.find(target).map(|id| state.image(id)))
    }

    pub(crate) fn list(&self) -> Result<Vec<Image>, Error> {
        let state = self.fresh()?;
        Ok(state.index.images.keys().map(|id| state.image(id)).collect())
    }

    /// The layers, the lowest first.
    pub(crate) fn layers(&self, id: &Digest) -> Result<Option<Vec<Digest>>, Error> {
        Ok(self.fresh()?.index.images.get(id).map(|it| it.layers.clone()))
    }

    pub(crate) fn index(&self) -> Result<Index, Error> {
        Ok(self.fresh()?.index.clone())
    }

    /// Reads, changes and writes under the lock of all processes. Blocks. Nothing is written if
    /// `change` fails.
    pub(crate) fn update<T>(
        &self,
        change: impl FnOnce(&mut Index) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let _lock = self.directory.lock_index().map_err(disk("locking the image index"))?;
        let mut index = self.index()?;
        let outcome = change(&mut index)?;
        let content = serde_json::to_vec(&index).map_err(io::Error::from);
        content
            .and_then(|it| self.directory.replace(&self.directory.index(), &it))
            .map_err(disk(format!("writing {}", self.directory.index().display())))?;
        drop(self.fresh()?);
        Ok(outcome)
    }
}

impl State {
    /// `id` is in the index.
    fn image(&self, id: &Digest) -> Image {
        Image {
            id: ImageId::new(id.to_string()),
            tags: self.index.tags_of(id),
            digests: self.index.digests_of(id),
            size: self.index.images.get(id).map_or(0, |it| it.size),
            config: self.configs.get(id).cloned().unwrap_or_default(),
        }
    }
}
