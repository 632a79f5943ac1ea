//! The store's directory: where things are, who may change them, and what a crash may leave.
//!
//! `index.json` says which images there are; `blobs/<hex>` are manifests and configurations;
//! `layers/<hex>/fs` are unpacked layers; `holds/<owner>` names the image that a container uses;
//! `tmp/<process>/` is work under way. Whatever is not in the index may be removed by whoever holds
//! `content.lock` alone. Locks are flock(2), so they end with their process.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::digest::Digest;

const SUBDIRECTORIES: &[&str] = &["blobs", "holds", "layers", "tmp"];
const MODE_PRIVATE: u32 = 0o700;

pub(crate) struct Directory {
    path: PathBuf,
    /// Ours alone, below `tmp`.
    scratch: PathBuf,
    /// Tells other processes that the one above is in use.
    _scratch_lock: File,
    n_scratch: AtomicU64,
}

/// A lock that ends when it is dropped.
pub(crate) struct Lock(#[expect(dead_code, reason = "held, not read")] File);

impl Directory {
    /// Makes what is missing and removes what dead processes have left.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        for name in SUBDIRECTORIES {
            fs::DirBuilder::new().recursive(true).mode(MODE_PRIVATE).create(path.join(name))?;
        }
        let _lock = lock(&path.join("index.lock"), FlockOperation::LockExclusive)?;
        for entry in fs::read_dir(path.join("tmp"))? {
            let entry = entry?.path();
            let is_in_use = File::open(&entry)
                .and_then(|it| Ok(flock(&it, FlockOperation::NonBlockingLockExclusive)?))
                .is_err();
            if !is_in_use {
                remove(&entry)?;
            }
        }
        let (scratch, scratch_lock) = make_scratch(&path.join("tmp"))?;
        Ok(Self {
            path: path.to_owned(),
            scratch,
            _scratch_lock: scratch_lock,
            n_scratch: AtomicU64::new(0),
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn index(&self) -> PathBuf {
        self.path.join("index.json")
    }

    pub(crate) fn blob(&self, digest: &Digest) -> PathBuf {
        self.path.join("blobs").join(digest.hex())
    }

    /// What belongs to a layer; its files are in `fs` there.
    pub(crate) fn layer(&self, diff_id: &Digest) -> PathBuf {
        self.path.join("layers").join(diff_id.hex())
    }

    pub(crate) fn holds(&self) -> PathBuf {
        self.path.join("holds")
    }

    /// A path in our part of `tmp` that nobody else uses. Nothing is there yet.
    pub(crate) fn scratch(&self) -> PathBuf {
        self.scratch.join(self.n_scratch.fetch_add(1, Ordering::Relaxed).to_string())
    }

    /// For reading, changing and writing the index, and for holds. Short.
    pub(crate) fn lock_index(&self) -> io::Result<Lock> {
        lock(&self.path.join("index.lock"), FlockOperation::LockExclusive)
    }

    /// For adding content that the index does not name yet.
    pub(crate) fn lock_content(&self) -> io::Result<Lock> {
        lock(&self.path.join("content.lock"), FlockOperation::LockShared)
    }

    /// For removing content; `None` while somebody adds.
    pub(crate) fn try_lock_content_alone(&self) -> io::Result<Option<Lock>> {
        match lock(&self.path.join("content.lock"), FlockOperation::NonBlockingLockExclusive) {
            Err(err) if err.kind() == io::ErrorKind::WouldBlock => Ok(None),
            outcome => outcome.map(Some),
        }
    }

    /// Whole or not at all, as long as the power stays: [`Self::sync`] comes before the index names
    /// it.
    pub(crate) fn write_blob(&self, digest: &Digest, content: &[u8]) -> io::Result<()> {
        let path = self.blob(digest);
        if fs::read(&path).is_ok_and(|it| it == content) {
            return Ok(());
        }
        let beside = self.scratch();
        fs::write(&beside, content)?;
        fs::rename(&beside, path)
    }

    /// Whole or not at all, and on disk when it returns.
    pub(crate) fn replace(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let beside = self.scratch();
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&beside, path)?;
        path.parent().map_or(Ok(()), |it| File::open(it)?.sync_all())
    }

    /// Moves a finished layer to its place. If another process was first, its layer is as good as
    /// ours.
    pub(crate) fn place_layer(&self, scratch: &Path, diff_id: &Digest) -> io::Result<()> {
        match rustix::fs::rename(scratch, self.layer(diff_id)) {
            Err(Errno::NOTEMPTY | Errno::EXIST) => remove(scratch),
            outcome => Ok(outcome?),
        }
    }

    /// Takes it away at once; the time it takes to delete many files is spent on what nobody can
    /// find any more.
    pub(crate) fn discard(&self, path: &Path) -> io::Result<PathBuf> {
        let scratch = self.scratch();
        fs::rename(path, &scratch)?;
        Ok(scratch)
    }

    /// Everything that was acknowledged so far survives a power cut.
    pub(crate) fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(File::open(&self.path)?)?)
    }

    pub(crate) fn stored(&self, kind: Stored) -> io::Result<Vec<(Digest, PathBuf)>> {
        let name = match kind {
            Stored::Blobs => "blobs",
            Stored::Layers => "layers",
        };
        let mut found = Vec::new();
        for entry in fs::read_dir(self.path.join(name))? {
            let path = entry?.path();
            let hex = path.file_name().map(|it| it.to_string_lossy().into_owned());
            if let Ok(digest) = Digest::parse(&format!("sha256:{}", hex.unwrap_or_default())) {
                found.push((digest, path));
            }
        }
        Ok(found)
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Stored {
    Blobs,
    Layers,
}

impl Drop for Directory {
    fn drop(&mut self) {
        // If it fails, the next opening does it.
        let _ = fs::remove_dir_all(&self.scratch);
    }
}

fn lock(path: &Path, operation: FlockOperation) -> io::Result<Lock> {
    let file =
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    flock(&file, operation)?;
    Ok(Lock(file))
}

/// Named after the process for whoever looks, with a number for its other stores.
fn make_scratch(tmp: &Path) -> io::Result<(PathBuf, File)> {
    for n in 0u64.. {
        let path = tmp.join(format!("{}-{n}", std::process::id()));
        match fs::DirBuilder::new().mode(MODE_PRIVATE).create(&path) {
            Err(err) if err.kind() == io::ErrorKind::AlreadyExists => {}
            outcome => {
                outcome?;
                let file = File::open(&path)?;
                flock(&file, FlockOperation::LockExclusive)?;
                return Ok((path, file));
            }
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// A file or a whole tree; what is gone is fine.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(it) if it.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(err) => Err(err),
    };
    match removed {
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}

/// A directory that containers see; not narrowed by the process' umask.
pub(crate) fn make_directory(path: &Path, mode: u32) -> io::Result<()> {
    fs::create_dir_all(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}
