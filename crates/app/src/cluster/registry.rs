//! Where the clusters of this machine are: one small file per data directory, named by the
//! cluster's id. An index, not the truth: whatever it says is looked up in the directory itself,
//! and an entry whose directory is gone or another's is nothing.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use node_api::ClusterId;
use serde::{Deserialize, Serialize};

use super::{Cluster, Name};
use crate::data_dir::{self, make_private, write_private};

/// Another place for the registry, for those who want clusters that do not know of each other.
pub(crate) const VARIABLE: &str = "XEBEC_REGISTRY";
const DIRECTORY: &str = "xebec-clusters";
const ENDING: &str = ".json";
/// How often one tries to get hold of a directory that others remove when they find it empty.
const TRIES: usize = 100;
/// Each takes a fifth of a second; who has the lock has it for a moment.
const LOCK_TRIES: usize = 50;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    data_dir: PathBuf,
}

/// A cluster that is there, running or not.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) data_dir: PathBuf,
    pub(crate) cluster: Cluster,
    /// The process that runs it, if one does.
    pub(crate) pid: Option<i32>,
}

pub(crate) struct Registry {
    directory: PathBuf,
}

/// While it lives nobody else changes the registry. The kernel lets go when the process ends,
/// however it ends.
pub(crate) struct Locked<'a> {
    registry: &'a Registry,
    _directory: File,
}

impl Registry {
    /// Of root, or of this user.
    pub(crate) fn of_this_user() -> Self {
        let given = std::env::var_os(VARIABLE).filter(|it| !it.is_empty()).map(PathBuf::from);
        Self { directory: given.unwrap_or_else(|| data_dir::default_parent().join(DIRECTORY)) }
    }

    /// Sorted by name. Those who run are asked for by their lock.
    pub(crate) fn clusters(&self) -> Result<Vec<Known>> {
        let mut known = Vec::new();
        for (id, _) in self.entries()? {
            known.extend(self.look_up(id));
        }
        known.sort_by(|a, b| a.cluster.name.cmp(&b.cluster.name));
        Ok(known)
    }

    /// Where a cluster is that is told by its directory or its name, be it there or not.
    pub(crate) fn place(&self, directory: Option<&Path>, name: Option<&Name>) -> Result<PathBuf> {
        if let Some(directory) = directory {
            return Ok(directory.to_owned());
        }
        let name = name.cloned().unwrap_or_default();
        let known = self.by_name(&name)?;
        Ok(known.map_or_else(|| data_dir::default_path(&name), |it| it.data_dir))
    }

    pub(crate) fn by_name(&self, name: &Name) -> Result<Option<Known>> {
        Ok(self.clusters()?.into_iter().find(|it| it.cluster.name == *name))
    }

    /// Makes the directory if need be.
    pub(crate) fn lock(&self) -> Result<Locked<'_>> {
        for _ in 0..TRIES {
            make_private(&self.directory)
                .with_context(|| format!("making {}", self.directory.display()))?;
            if let Some(directory) = self.lock_existing()? {
                return Ok(Locked { registry: self, _directory: directory });
            }
        }
        bail!("the registry {} comes and goes", self.directory.display())
    }

    /// `None`: it is gone.
    fn lock_existing(&self) -> Result<Option<File>> {
        let doing = || format!("opening the registry {}", self.directory.display());
        let directory = match File::open(&self.directory) {
            Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.with_context(doing)?,
        };
        if directory.metadata().with_context(doing)?.uid() != rustix::process::geteuid().as_raw() {
            bail!("the registry {} belongs to somebody else", self.directory.display());
        }
        if !(0..LOCK_TRIES).any(|_| stdx::lock_file(&directory)) {
            bail!("another xebec has held the registry {} for long", self.directory.display());
        }
        let inode = |it: io::Result<fs::Metadata>| it.map(|it| (it.dev(), it.ino())).ok();
        let is_same = inode(directory.metadata()) == inode(fs::metadata(&self.directory));
        Ok(is_same.then_some(directory))
    }

    /// Takes a cluster out.
    pub(crate) fn forget(&self, id: ClusterId) -> Result<()> {
        let Some(directory) = self.lock_existing()? else { return Ok(()) };
        Locked { registry: self, _directory: directory }.remove(id)
    }

    fn path(&self, id: ClusterId) -> PathBuf {
        self.directory.join(format!("{id}{ENDING}"))
    }

    fn entries(&self) -> Result<Vec<(ClusterId, PathBuf)>> {
        let doing = || format!("reading the registry {}", self.directory.display());
        let files = match fs::read_dir(&self.directory) {
            Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            files => files.with_context(doing)?,
        };
        let mut entries = Vec::new();
        for file in files {
            let path = file.with_context(doing)?.path();
            let name = path.file_name().and_then(|it| it.to_str()).unwrap_or_default();
            let id = name.strip_suffix(ENDING).and_then(|it| it.parse().ok());
            entries.extend(id.map(|it| (it, path)));
        }
        Ok(entries)
    }

    /// What the directory says that the entry names; `None` when that has nothing to do with the
    /// entry any more.
    fn look_up(&self, id: ClusterId) -> Option<Known> {
        let entry: Entry = serde_json::from_slice(&fs::read(self.path(id)).ok()?).ok()?;
        let cluster = Cluster::load(&entry.data_dir).ok().flatten().filter(|it| it.id == id)?;
        let pid = data_dir::running(&entry.data_dir).ok()?.map(|it| it.as_raw_nonzero().get());
        Some(Known { data_dir: entry.data_dir, cluster, pid })
    }
}

impl Drop for Locked<'_> {
    /// The directory goes with its last entry, and with whoever has not come to write one.
    fn drop(&mut self) {
        // Fails while there are entries.
        let _ = fs::remove_dir(&self.registry.directory);
    }
}

impl Locked<'_> {
    /// Entries that say nothing any more go at the same time.
    pub(crate) fn put(&self, id: ClusterId, data_dir: &Path) -> Result<()> {
        for (other, _) in self.registry.entries()? {
            if other != id && self.registry.look_up(other).is_none() {
                self.remove(other)?;
            }
        }
        // By whatever links one came there.
        let data_dir = fs::canonicalize(data_dir)
            .with_context(|| format!("finding {}", data_dir.display()))?;
        let entry = Entry { data_dir };
        let json = serde_json::to_vec(&entry).context("encoding an entry of the registry")?;
        let path = self.registry.path(id);
        write_private(&path, &json).with_context(|| format!("writing {}", path.display()))
    }

    fn remove(&self, id: ClusterId) -> Result<()> {
        let path = self.registry.path(id);
        match fs::remove_file(&path) {
            Err(err) if err.kind() != io::ErrorKind::NotFound => {
                Err(err).with_context(|| format!("removing {}", path.display()))
            }
            _ => Ok(()),
        }
    }
}
