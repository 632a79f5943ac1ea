//! What is written beside a sandbox and a container: by `xebec` and the holder, for each other and
//! for the next `xebec`, which may be newer or older.
//!
//! The types are this crate's own, so that nobody who changes `node-api` changes what is on disks;
//! [`convert`] is the one place where they meet. Each record has a `version`; the first format had
//! none. A field that comes later has a default. A format that must not be read by those who do not
//! know it says so in `needs`. `golden/` has one file for each record of each format that was ever
//! written.
//!
//! What cannot be read is an [`Unreadable`]: whoever meets it leaves everything as it is.

mod container;
mod convert;
mod exit;
mod holder;
mod sandbox;
#[cfg(test)]
mod tests;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub(crate) use self::container::{ContainerRecord, HeldRecord};
pub(crate) use self::exit::{Exit, StartedRecord};
pub(crate) use self::holder::HolderRecord;
pub(crate) use self::sandbox::{Limits, SandboxRecord, Whose};
use crate::files;

/// What is written now. Raised when a field is added whose absence means something.
pub(crate) const VERSION: u32 = 2;

/// What a file of a sandbox's or a container's directory holds.
pub(crate) trait Record: DeserializeOwned {
    const FILE: &'static str;
}

/// Why a record cannot be used. It is still there.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreadable {
    #[error("reading {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{} is damaged", path.display())]
    Damaged {
        path: PathBuf,
        #[source]
        source: serde_json::Error,
    },
    #[error(
        "{} is of version {version}, which takes a xebec that knows version {needs}; this one knows {VERSION}",
        path.display()
    )]
    Newer { path: PathBuf, version: u32, needs: u32 },
}

/// What every record has.
#[derive(Deserialize)]
struct Stamp {
    #[serde(default = "first")]
    version: u32,
    /// Who does not know this version must not guess.
    #[serde(default = "first")]
    needs: u32,
}

fn first() -> u32 {
    1
}

#[derive(Serialize)]
struct Stamped<'a, T> {
    version: u32,
    #[serde(flatten)]
    record: &'a T,
}

pub(crate) fn write<T: Record + Serialize>(directory: &Path, record: &T) -> io::Result<()> {
    files::write_json(&directory.join(T::FILE), &Stamped { version: VERSION, record })
}

/// `Ok(None)`: there is none.
pub(crate) fn read<T: Record>(directory: &Path) -> Result<Option<T>, Unreadable> {
    let path = directory.join(T::FILE);
    match fs::read(&path) {
        Ok(bytes) => parse(&path, &bytes).map(Some),
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Unreadable::Read { path, source }),
    }
}

/// Whatever version it is of: only to say more about what is [`Unreadable`].
pub(crate) fn read_loosely<T: Record>(directory: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(directory.join(T::FILE)).ok()?).ok()
}

/// As [`read`], and nothing of the file is left in memory but what the value keeps.
pub(crate) fn read_and_forget<T: Record>(directory: &Path) -> Result<Option<T>, Unreadable> {
    let path = directory.join(T::FILE);
    match files::read_and_forget(&path, |bytes| parse(&path, bytes)) {
        Ok(read) => read.transpose(),
        Err(source) => Err(Unreadable::Read { path, source }),
    }
}

fn parse<T: Record>(path: &Path, bytes: &[u8]) -> Result<T, Unreadable> {
    let damaged = |source| Unreadable::Damaged { path: path.to_owned(), source };
    let Stamp { version, needs } = serde_json::from_slice(bytes).map_err(damaged)?;
    if needs > VERSION {
        return Err(Unreadable::Newer { path: path.to_owned(), version, needs });
    }
    serde_json::from_slice(bytes).map_err(damaged)
}
