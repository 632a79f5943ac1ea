//! A snapshot as a file: a line that says what it is, records, and at the end a hash of everything
//! before it.
//!
//! ```text
//! "xebec-snapshot 1\n" | (kind u8, length u32, body)* | end u8, length u32 = 8, hash u64
//! ```
//!
//! One that `etcdctl snapshot save` fetched has zeros after that, up to a whole block, and a
//! SHA-256 sum, as it wants.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::Xxh3;

use super::Error;
use crate::embedded::log::BODY_BYTES_MAX;
use crate::embedded::record::Checkpoint;

pub(in crate::embedded) const MAGIC: &[u8] = b"xebec-snapshot 1\n";
const MAGIC_ANY: &[u8] = b"xebec-snapshot ";
const CHECKPOINT: u8 = 1;
const COMMIT: u8 = 2;
pub(in crate::embedded) const END: u8 = 3;
/// What etcdctl takes a file for whole by: blocks of this size, and a sum of that one.
const ETCDCTL_BLOCK: u64 = 512;
const ETCDCTL_SUM: u64 = 32;

pub(super) struct Writer {
    file: BufWriter<File>,
    hash: Xxh3,
}

/// One record of a snapshot, not yet known to be sound: the hash comes at the end.
pub(super) enum Record {
    Checkpoint(Checkpoint),
    Commit(Vec<u8>),
}

pub(super) struct Reader<R> {
    path: PathBuf,
    file: R,
    hash: Xxh3,
    n_bytes: u64,
}

impl Writer {
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        // Secrets are in it: for its owner alone.
        let file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        let mut writer = Self { file: BufWriter::new(file), hash: Xxh3::new() };
        writer.write(MAGIC)?;
        Ok(writer)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hash.update(bytes);
        self.file.write_all(bytes)
    }

    fn record(&mut self, kind: u8, body: &[u8]) -> io::Result<()> {
        let length = u32::try_from(body.len()).map_err(io::Error::other)?;
        self.write(&[kind])?;
        self.write(&length.to_le_bytes())?;
        self.write(body)
    }

    pub(super) fn checkpoint(&mut self, checkpoint: &Checkpoint) -> io::Result<()> {
        self.record(CHECKPOINT, &checkpoint.render())
    }

    pub(super) fn commit(&mut self, body: &[u8]) -> io::Result<()> {
        self.record(COMMIT, body)
    }

    /// Ends the file, and syncs it.
    pub(super) fn finish(mut self) -> io::Result<()> {
        let hash = self.hash.digest();
        self.record(END, &hash.to_le_bytes())?;
        let file = self.file.into_inner().map_err(|it| it.into_error())?;
        file.sync_all()
    }
}

impl Reader<BufReader<File>> {
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let read = |source| Error::Read { path: path.to_owned(), source };
        Self::new(path, BufReader::new(File::open(path).map_err(read)?))
    }
}

impl<R: Read> Reader<R> {
    /// `path` is for what errors say.
    pub(super) fn new(path: &Path, file: R) -> Result<Self, Error> {
        let mut reader = Self { path: path.to_owned(), file, hash: Xxh3::new(), n_bytes: 0 };
        let mut magic = [0; MAGIC.len()];
        let is_whole = reader.read(&mut magic)?;
        if !is_whole || !magic.starts_with(MAGIC_ANY) {
            return Err(Error::Foreign { path: path.to_owned() });
        }
        if magic != MAGIC {
            return Err(Error::Newer { path: path.to_owned() });
        }
        Ok(reader)
    }

    /// False: the file ends before.
    fn read(&mut self, buffer: &mut [u8]) -> Result<bool, Error> {
        match self.file.read_exact(buffer) {
            Ok(()) => {
                self.count(buffer);
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(source) => Err(Error::Read { path: self.path.clone(), source }),
        }
    }

    fn count(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
        self.n_bytes += bytes.len() as u64;
    }

    fn damaged(&self, what: &'static str) -> Error {
        Error::Damaged { path: self.path.clone(), what }
    }

    /// `None` at the end, when the hash was right.
    pub(super) fn next(&mut self) -> Result<Option<Record>, Error> {
        let hash = self.hash.digest();
        let mut header = [0; 5];
        if !self.read(&mut header)? {
            return Err(self.damaged("it is cut off"));
        }
        let [kind, length @ ..] = header;
        let length = u32::from_le_bytes(length) as usize;
        if length > BODY_BYTES_MAX {
            return Err(self.damaged("a record claims to be longer than any is"));
        }
        let mut body = Vec::new();
        let n_read = self.file.by_ref().take(length as u64).read_to_end(&mut body);
        n_read.map_err(|source| Error::Read { path: self.path.clone(), source })?;
        if body.len() < length {
            return Err(self.damaged("it is cut off"));
        }
        self.count(&body);
        match kind {
            CHECKPOINT => match Checkpoint::parse(&body) {
                Some(checkpoint) => Ok(Some(Record::Checkpoint(checkpoint))),
                None => Err(self.damaged("its first record is unreadable")),
            },
            COMMIT => Ok(Some(Record::Commit(body))),
            END if body == hash.to_le_bytes() => {
                self.check_rest()?;
                Ok(None)
            }
            END => Err(self.damaged("its hash is not that of its content")),
            _ => Err(self.damaged("a record is of an unknown kind")),
        }
    }

    /// Nothing, or what etcdctl wants. Its sum is not computed: the hash has told that all before
    /// is sound.
    fn check_rest(&mut self) -> Result<(), Error> {
        let padding = self.n_bytes.next_multiple_of(ETCDCTL_BLOCK) - self.n_bytes;
        let longest = padding + ETCDCTL_SUM;
        let mut rest = Vec::new();
        let read = self.file.by_ref().take(longest + 1).read_to_end(&mut rest);
        let length = read.map_err(|source| Error::Read { path: self.path.clone(), source })? as u64;
        let is_padded = || rest.iter().zip(0..padding).all(|(byte, _)| *byte == 0);
        if length == 0 || (length == longest && is_padded()) {
            return Ok(());
        }
        Err(self.damaged("something follows its end"))
    }
}
