//! What the log needs from a file system: one flat directory of files with positioned reads and
//! writes.
//!
//! Promises, for each implementation: what was written is seen by every handle at once, and
//! survives a crash once `sync` returned; a name (made, renamed, removed) survives once
//! `sync_directory` returned. Nothing is promised of what was not synced: any part of it may be
//! there after a crash, in any order.

mod directory;
pub mod simulated;

use std::io;
use std::sync::Arc;

pub use directory::Directory;
pub use simulated::Simulated;

/// One directory. Names are plain file names.
pub trait Disk: Send + Sync {
    /// Sorted.
    fn list(&self) -> io::Result<Vec<String>>;
    /// For reading and writing. Fails with `NotFound` if it does not exist.
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>>;
    /// An empty file. Fails with `AlreadyExists` if it exists.
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>>;
    /// Replaces what `to` was. Handles stay with their file, whatever its name becomes.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Handles go on reading the file.
    fn remove(&self, name: &str) -> io::Result<()>;
    fn sync_directory(&self) -> io::Result<()>;
}

pub trait File: Send + Sync {
    fn size(&self) -> io::Result<u64>;
    /// Reads fewer bytes than the buffer has only at the end of the file.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
    /// The same without waiting for the device; `None` if that is not possible now.
    fn read_cached(&self, offset: u64, buffer: &mut [u8]) -> Option<usize>;
    /// All or an error, after which any part of it may have been written.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    fn set_size(&self, size: u64) -> io::Result<()>;
    /// Content and size. After a failure, what was not synced before is unknown, and stays so: a
    /// second `sync` may succeed without having written it (`man 2 fsync`, and the kernel drops the
    /// error once told).
    fn sync(&self) -> io::Result<()>;
    /// Lets the next read come from the device, so that it shows what is really there. Best effort,
    /// synced content only.
    fn drop_cache(&self);
}
