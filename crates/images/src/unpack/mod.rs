//! A layer from a stream: decompressed, hashed on both sides of it and written into a directory, in
//! one pass.
//!
//! Promise: what [`unpack`] returns without error has the digests that were expected. Does not
//! touch anything outside of the directory it is given.

mod decompress;
mod entries;
mod root;
#[cfg(test)]
mod tests;

use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) use decompress::{decompress, is_compressed};
pub(crate) use entries::{Entries, Kind};
use root::{CleanPath, Root};

use crate::digest::{Digest, Hashing};

const WHITEOUT: &[u8] = b".wh.";
const WHITEOUT_OPAQUE: &[u8] = b".wh..wh..opq";
/// What aufs keeps for itself.
const WHITEOUT_PRIVATE: &[u8] = b".wh..wh.";

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// Of the stream: it ended early, or is no layer.
    #[error("reading layer")]
    Read(#[source] io::Error),
    #[error("layer has digest {actual}, expected {expected}")]
    WrongDigest { expected: Digest, actual: Digest },
    #[error("path {0:?} leads outside of the layer")]
    Outside(String),
    #[error("layer has more than {0} entries")]
    TooManyEntries(u64),
    #[error("unpacking {0:?}")]
    Write(String, #[source] io::Error),
}

/// How many bytes an image may still unpack to; shared by its layers.
#[derive(Clone)]
pub(crate) struct Budget {
    left: Arc<AtomicU64>,
    size_max: u64,
    entries_max: u64,
}

impl Budget {
    pub(crate) fn new(size_max: u64, entries_max: u64) -> Self {
        Self { left: Arc::new(AtomicU64::new(size_max)), size_max, entries_max }
    }

    pub(crate) fn entries_max(&self) -> u64 {
        self.entries_max
    }

    /// The same reader, within the budget.
    pub(crate) fn limit<R: Read>(&self, reader: R) -> impl Read + use<R> {
        Limited { reader, budget: self.clone() }
    }

    pub(crate) fn take(&self, n: u64) -> io::Result<()> {
        let taken = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(n));
        match taken {
            Ok(_) => Ok(()),
            Err(_) => Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("image unpacks to more than the limit of {} bytes", self.size_max),
            )),
        }
    }
}

struct Limited<R> {
    reader: R,
    budget: Budget,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.reader.read(buffer)?;
        self.budget.take(n as u64)?;
        Ok(n)
    }
}

/// What the layer must turn out to be.
pub(crate) struct Expected {
    /// Of the stream as it comes; archives of docker have none.
    pub(crate) digest: Option<Digest>,
    /// Of the uncompressed tar.
    pub(crate) diff_id: Digest,
}

pub(crate) struct Unpacked {
    /// Of the files' contents.
    pub(crate) size: u64,
    /// Directories that had no entry of their own.
    pub(crate) implied: Vec<Vec<u8>>,
}

/// Blocks; `directory` exists and is empty. What it leaves there after an error is rubbish.
pub(crate) fn unpack(
    source: impl Read,
    directory: &Path,
    expected: &Expected,
    budget: &Budget,
) -> Result<Unpacked, Error> {
    let mut compressed = Hashing::new(source);
    let (unpacked, diff_id) = {
        let plain = decompress(&mut compressed).map_err(Error::Read)?;
        let mut plain = Hashing::new(budget.limit(plain));
        let unpacked = unpack_tar(&mut plain, directory, budget)?;
        // What follows the end of the archive counts for the digest.
        io::copy(&mut plain, &mut io::sink()).map_err(Error::Read)?;
        (unpacked, plain.finish())
    };
    io::copy(&mut compressed, &mut io::sink()).map_err(Error::Read)?;
    let digest = compressed.finish();
    // The outer one first: if it is wrong, the registry or the way to it is to blame, not who made
    // the image.
    for (expected, actual) in
        expected.digest.iter().zip([digest]).chain([(&expected.diff_id, diff_id)])
    {
        if *expected != actual {
            return Err(Error::WrongDigest { expected: expected.clone(), actual });
        }
    }
    Ok(unpacked)
}

fn unpack_tar(source: impl Read, directory: &Path, budget: &Budget) -> Result<Unpacked, Error> {
    let display = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
    let mut root =
        Root::open(directory).map_err(|err| Error::Write(directory.display().to_string(), err))?;
    let mut entries = Entries::new(source);
    let (mut size, mut n_entries) = (0u64, 0);
    while let Some(entry) = entries.next().map_err(Error::Read)? {
        n_entries += 1;
        if n_entries > budget.entries_max {
            return Err(Error::TooManyEntries(budget.entries_max));
        }
        let path =
            CleanPath::parse(&entry.path).ok_or_else(|| Error::Outside(display(&entry.path)))?;
        if entry.kind == Kind::HardLink && CleanPath::parse(&entry.link).is_none() {
            return Err(Error::Outside(display(&entry.link)));
        }
        let name = path.name().map(|it| it.as_encoded_bytes().to_vec()).unwrap_or_default();
        let made = match name.strip_prefix(WHITEOUT) {
            _ if name == WHITEOUT_OPAQUE => root.opaque(&path.parent()),
            _ if name.starts_with(WHITEOUT_PRIVATE) => Ok(()),
            Some([]) | Some(b".") | Some(b"..") => {
                return Err(Error::Outside(display(&entry.path)));
            }
            Some(removed) => root.whiteout(&path.with_name(removed)),
            None => {
                size = size.saturating_add(entry.size);
                let mut content = ReadErrors { inner: entries.content(), failed: None };
                let made = root.make(&path, &entry, &mut content);
                if let Some(err) = content.failed {
                    return Err(Error::Read(err));
                }
                made
            }
        };
        made.map_err(|err| Error::Write(display(&entry.path), err))?;
    }
    let implied =
        root.finish().map_err(|err| Error::Write(directory.display().to_string(), err))?;
    Ok(Unpacked { size, implied })
}

/// Tells errors of the stream from those of the disk, which `io::copy` mixes.
struct ReadErrors<R> {
    inner: R,
    failed: Option<io::Error>,
}

impl<R: Read> Read for ReadErrors<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.inner.read(buffer).map_err(|err| {
            let kind = err.kind();
            if kind != io::ErrorKind::Interrupted {
                self.failed = Some(err);
            }
            kind.into()
        })
    }
}
