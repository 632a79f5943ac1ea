//! The log on disk: a chain of checked frames in numbered segments, of which only the last is
//! appended to. Knows no keys.
//!
//! Promises: `open` verifies every byte that counts, visits every frame in order, and tells a torn
//! write from damage; what was appended before a successful `sync` is there at every later open,
//! and nothing is there that does not follow what was there before; after a failed write or sync
//! nothing is written until `recover`. Not promised: that what was appended since the last sync is
//! lost after a crash, or kept. One `Log` per directory: whoever opens it holds the lock.

mod error;
pub mod frame;
mod open;
mod reader;
mod rewrite;
pub mod scan;
mod segment;
pub mod tail;
#[cfg(test)]
mod tests;
pub mod torture;

use std::io;
use std::sync::Arc;

use bytes::Bytes;

pub use self::error::{Damage, Fault, OpenError, ReadError};
use self::frame::Mark;
pub use self::frame::{BODY_BYTES_MAX, HEADER_BYTES, Kind};
pub use self::open::{Opened, Torn};
pub use self::reader::{Frames, Reader};
pub use self::rewrite::{RewriteError, Rewritten};
pub use self::segment::{Place, Segment};
use self::segment::{SegmentFile, Shared};
use super::disk::{Disk, File};

/// No segment grows past this, whatever one batch holds: places have 32 bits, and opening reads a
/// segment at once.
pub const SEGMENT_BYTES_MAX: u32 = 1 << 30;

/// A batch that makes the file grow is followed by zeros up to the next multiple of a step. The
/// batches after it then change no metadata, so that their sync writes their pages alone: on ext4
/// 0.14 ms instead of 0.21 for 1 KB, and 4 KiB instead of about 16; 0.13 ms instead of 0.24 for 32
/// KB. (`fallocate` does not do it: its blocks are marked as unwritten, and marking each as written
/// is metadata again.) The step grows with the batch: who writes much soon needs it, and who writes
/// little is spared the zeros.
const FILL_STEPS: [(usize, u32); 2] = [(16 << 10, 64 << 10), (256 << 10, 1 << 20)];

#[derive(Clone, Debug)]
pub struct Options {
    /// When a segment is full. What does not fit into an empty one gets its own.
    pub segment_bytes: u32,
    /// How many segments are read and verified at once when opening.
    pub threads: usize,
    /// Of a new log; random, so that no stored value can pretend to be a frame. An existing log
    /// keeps its own.
    pub salt: u64,
}

/// One record, verified.
#[derive(Clone, Debug)]
pub struct Frame {
    pub kind: Kind,
    pub place: Place,
    pub check: u64,
    /// While opening it is a slice of the whole segment: copy what is to stay.
    pub body: Bytes,
}

/// The appending end. Needs one owner; `reader` gives as many reading ends as wanted.
pub struct Log {
    shared: Arc<Shared>,
    segment_bytes: u32,
    /// `None` until the first `rotate` of an empty log.
    active: Option<Arc<SegmentFile>>,
    /// Where the next frame goes in the active segment, and the check that it names.
    end: u32,
    chain: u64,
    /// How far the file goes: zeros follow the end.
    filled: u32,
    synced: Synced,
    state: State,
    opened: Opened,
    buffer: Vec<u8>,
}

/// How far the log is known to be on disk.
#[derive(Clone, Copy, Debug)]
struct Synced {
    mark: Mark,
    chain: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ready,
    /// The last frame is a `closed`.
    Closed,
    /// A write or sync failed: nobody knows what is there after `synced`.
    Failed,
}

/// A sync under way, for whoever wants to prepare the next batch meanwhile: `run` it on another
/// thread, then give the outcome to `Log::finish_sync`.
pub struct Syncing {
    file: Arc<dyn File>,
    reached: Synced,
}

/// The outcome of a `Syncing`.
pub struct SyncOutcome {
    reached: Synced,
    result: io::Result<()>,
}

impl Options {
    pub fn new(salt: u64) -> Self {
        let threads = std::thread::available_parallelism().map_or(2, |it| it.get().clamp(2, 4));
        Self { segment_bytes: 16 << 20, threads, salt }
    }
}

impl Syncing {
    pub fn run(self) -> SyncOutcome {
        SyncOutcome { reached: self.reached, result: self.file.sync() }
    }
}

impl Log {
    /// Verifies everything; calls `visit` for each record in order, checkpoints included (segments
    /// are read and verified by several threads ahead of it). What `visit` refuses is damage of
    /// that frame. Nothing is changed on disk before all of it is found to be sound; then what a
    /// crash left over is removed, and the rest is synced, since what a killed process wrote may be
    /// in the cache alone.
    ///
    /// An empty directory is an empty log: `rotate` is its first call.
    pub fn open(
        disk: Arc<dyn Disk>,
        options: &Options,
        visit: &mut dyn FnMut(&Frame) -> Result<(), String>,
    ) -> Result<Self, OpenError> {
        open::open(disk, options, visit)
    }

    /// Appends with one write. The places are where each body went. Not durable before a `sync`.
    pub fn append(&mut self, bodies: &[(Kind, &[u8])]) -> io::Result<Vec<Place>> {
        let active = self.writable()?;
        if bodies.iter().any(|(_, body)| body.len() > BODY_BYTES_MAX) {
            return Err(invalid("a body is too long"));
        }
        self.buffer.clear();
        self.buffer.reserve(bodies.iter().map(|(_, body)| HEADER_BYTES + body.len()).sum());
        let mut chain = self.chain;
        let mut places = Vec::with_capacity(bodies.len());
        for &(kind, body) in bodies {
            if self.end as usize + self.buffer.len() + HEADER_BYTES + body.len()
                > SEGMENT_BYTES_MAX as usize
            {
                return Err(invalid("a batch does not fit into a segment"));
            }
            places.push(Place { segment: active.id, offset: self.end + self.buffer.len() as u32 });
            let salt = self.shared.salt();
            chain = frame::encode(&mut self.buffer, salt, (kind, body), self.synced.mark, chain);
        }
        let end = self.end + self.buffer.len() as u32;
        self.fill(self.end, self.filled);
        if let Err(err) = active.file.write_at(u64::from(self.end), &self.buffer) {
            self.state = State::Failed;
            return Err(err);
        }
        self.filled = self.filled.max(self.end + self.buffer.len() as u32);
        self.end = end;
        self.chain = chain;
        self.state = State::Ready;
        active.extend(self.end, chain);
        self.shrink_buffer();
        Ok(places)
    }

    /// Everything appended so far survives a crash, once this returned.
    pub fn sync(&mut self) -> io::Result<()> {
        match self.start_sync()? {
            None => Ok(()),
            Some(syncing) => self.finish_sync(syncing.run()),
        }
    }

    /// The sync of everything appended so far, to be run elsewhere; `None` if all of it is synced.
    /// Until its outcome is given to `finish_sync`, more may be appended, but not rotated.
    pub fn start_sync(&self) -> io::Result<Option<Syncing>> {
        if self.state == State::Failed {
            return Err(refused());
        }
        let Some(active) = &self.active else { return Ok(None) };
        let mark = Mark { number: active.number, offset: self.end };
        if self.synced.mark == mark {
            return Ok(None);
        }
        let reached = Synced { mark, chain: self.chain };
        Ok(Some(Syncing { file: Arc::clone(&active.file), reached }))
    }

    pub fn finish_sync(&mut self, outcome: SyncOutcome) -> io::Result<()> {
        if self.state == State::Failed {
            return Err(refused());
        }
        match outcome.result {
            Ok(()) => self.synced = outcome.reached,
            Err(err) => {
                self.state = State::Failed;
                return Err(err);
            }
        }
        Ok(())
    }

    /// Whether the next batch, of so many bytes of bodies, should go into a new segment: call
    /// `rotate` before it then.
    pub fn is_full(&self, n_bodies: usize, body_bytes: usize) -> bool {
        let batch = n_bodies * HEADER_BYTES + body_bytes;
        // A segment that has nothing but its checkpoint is not left, or a large batch would leave
        // empty ones behind.
        self.has_records() && self.end as usize + batch > self.segment_bytes as usize
    }

    /// Whether the segment under way has more than its checkpoint.
    pub fn has_records(&self) -> bool {
        self.active.as_ref().is_some_and(|it| self.end > it.begin)
    }

    /// Syncs, and begins a new segment with this checkpoint, synced as well.
    pub fn rotate(&mut self, checkpoint: &[u8]) -> io::Result<()> {
        self.sync()?;
        self.begin(checkpoint)
    }

    /// Goes on after a failed write, sync or rotation: the log ends where the last successful sync
    /// reached, and a new segment begins there with this checkpoint. What was appended after it is
    /// gone for good: no page of a file whose sync failed is trusted. So what was published of it
    /// (relaxed writes) is to be appended again. May fail, and be tried again.
    pub fn recover(&mut self, checkpoint: &[u8]) -> io::Result<()> {
        self.begin(checkpoint)
    }

    /// The end of what is synced: frames of that segment from there on may be lost, and `recover`
    /// gives them up.
    pub fn synced(&self) -> Option<Place> {
        self.active.as_ref().map(|it| Place { segment: it.id, offset: self.synced.mark.offset })
    }

    /// Stands for everything appended so far.
    #[cfg(test)]
    pub(super) fn chain(&self) -> u64 {
        self.chain
    }

    pub fn reader(&self) -> Reader {
        Reader::new(Arc::clone(&self.shared))
    }

    /// What opening found.
    pub fn opened(&self) -> &Opened {
        &self.opened
    }

    /// Whether it has no segment yet, so that `rotate` has to come first.
    pub fn is_empty(&self) -> bool {
        self.active.is_none()
    }

    /// Whether it refuses to be written until `recover`.
    pub fn is_failed(&self) -> bool {
        self.state == State::Failed
    }

    /// Syncs and marks the end as clean, so that damage to the last batch cannot be taken for a
    /// torn write. Writes nothing if nothing was appended since the last close.
    pub fn close(mut self) -> io::Result<()> {
        self.sync()?;
        if self.state == State::Closed || self.active.is_none() {
            return Ok(());
        }
        // The body lets every flipped bit before it be told from a write that was cut short.
        self.append(&[(Kind::Closed, &[0xff])])?;
        let active = self.writable()?;
        active.file.set_size(u64::from(self.end))?;
        self.sync()
    }

    /// Adds zeros to a batch that goes to `offset` of a file that ends at `filled`, if that is
    /// worth it: not for a batch that is larger than all steps are for.
    fn fill(&mut self, offset: u32, filled: u32) {
        let end = offset + self.buffer.len() as u32;
        let step = FILL_STEPS.iter().find(|(batch_bytes, _)| self.buffer.len() < *batch_bytes);
        if end > filled
            && let Some((_, step)) = step
        {
            let filled = end.next_multiple_of(*step).min(self.segment_bytes).max(end);
            self.buffer.resize((filled - offset) as usize, 0);
        }
    }

    fn writable(&self) -> io::Result<Arc<SegmentFile>> {
        if self.state == State::Failed {
            return Err(refused());
        }
        self.active.clone().ok_or_else(|| invalid("a log begins with a checkpoint"))
    }

    /// The new segment names the end of the last synced one as its beginning. Whatever lies behind
    /// that end in the old segment is no part of the log from here on.
    fn begin(&mut self, checkpoint: &[u8]) -> io::Result<()> {
        if checkpoint.len() > BODY_BYTES_MAX {
            return Err(invalid("a checkpoint is too long"));
        }
        // Until the new segment is complete, the old one must not grow: it may have been superseded
        // already.
        self.state = State::Failed;
        let number = self.synced.mark.number.checked_add(1);
        let number = number.ok_or_else(|| invalid("there are no more numbers for segments"))?;
        let (name, name_new) = (segment::name(number), segment::name_new(number));
        let disk = Arc::clone(&self.shared.disk);
        // Left over from an attempt that failed. Gone for good before the names are used again.
        for name in [&name, &name_new] {
            match disk.remove(name) {
                Ok(()) => disk.sync_directory()?,
                Err(err) if err.kind() == io::ErrorKind::NotFound => {}
                Err(err) => return Err(err),
            }
        }
        let Synced { mark, chain } = self.synced;
        self.buffer.clear();
        let salt = self.shared.salt();
        let body = (Kind::Checkpoint, checkpoint);
        let check = frame::encode(&mut self.buffer, salt, body, mark, chain);
        let end = self.buffer.len() as u32;
        let file = disk.create(&name_new)?;
        self.fill(0, 0);
        file.write_at(0, &self.buffer)?;
        file.sync()?;
        // A file that has the name of a segment begins with a whole frame: if not, it is damaged,
        // not torn.
        disk.rename(&name_new, &name)?;
        disk.sync_directory()?;

        if let Some(old) = self.active.take() {
            old.seal(mark.offset, chain);
            if self.filled > mark.offset {
                // Only to give the space back.
                let _ = old.file.set_size(u64::from(mark.offset));
            }
        }
        self.filled = self.buffer.len() as u32;
        let segment = self
            .shared
            .add(|id| SegmentFile::begun((id, number), file, (mark, chain), (end, check)));
        self.active = Some(segment);
        self.end = end;
        self.chain = check;
        self.synced = Synced { mark: Mark { number, offset: end }, chain: check };
        self.state = State::Ready;
        self.shrink_buffer();
        Ok(())
    }

    /// One large batch must not keep its memory for good.
    fn shrink_buffer(&mut self) {
        if self.buffer.capacity() > 4 << 20 {
            self.buffer = Vec::new();
        }
    }
}

fn refused() -> io::Error {
    io::Error::other("the log refuses writes until it has recovered from a failed one")
}

fn invalid(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}
