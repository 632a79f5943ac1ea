//! Rewriting sealed segments without what is no longer needed, and joining neighbors into one.
//!
//! The new segment is written under another name, synced, and renamed over the last of those that
//! it stands for; its first frame says which those are, so that after a crash the next open knows
//! which of them are left over. Its last frame says where they ended and with which check, so that
//! the chain goes on.

use std::io;
use std::sync::{Arc, PoisonError};

use bytes::Bytes;

use super::error::ReadError;
use super::frame::{self, BODY_BYTES_MAX, Kind};
use super::segment::{self, Place, SegmentFile, Shared, Tip};
use super::{Frame, Reader, SEGMENT_BYTES_MAX};
use crate::embedded::disk::File;

/// One write of a new segment.
const WRITE_BYTES: usize = 1 << 20;

#[derive(Debug, thiserror::Error)]
pub enum RewriteError {
    #[error("cannot read what is to be rewritten")]
    Read(#[source] ReadError),
    #[error("the segments are not sealed neighbors")]
    NotNeighbors,
    #[error("the segments are too large to be joined")]
    TooLarge,
    #[error("cannot write {file}")]
    Write {
        file: String,
        #[source]
        source: io::Error,
    },
}

/// A rewrite that is done. The places of the old segments stay readable while this is held: replace
/// them everywhere, then drop it.
pub struct Rewritten {
    /// The new segment.
    pub segment: u32,
    /// Where the records went that were kept, in order: old place and new.
    pub moved: Vec<(Place, Place)>,
    pub bytes_before: u64,
    pub bytes_after: u64,
    /// Whether a crash cannot bring the old ones back any more.
    pub is_synced: bool,
    shared: Arc<Shared>,
    old: Vec<u32>,
}

/// The new segment while it is written.
struct Draft<'a> {
    shared: &'a Shared,
    file: Arc<dyn File>,
    buffer: Vec<u8>,
    /// What of it is in the file already.
    written: u32,
    check: u64,
    name: String,
}

/// A new segment that is in its file, synced.
struct Written {
    tip: Tip,
    /// Where its second frame is.
    begin: u32,
    /// Where the records went.
    moved: Vec<(Place, u32)>,
}

impl Reader {
    /// Replaces sealed neighbors by one segment with the bodies that `keep` returns for their
    /// records (`None`: dropped). One alone is rewritten in place. Readers and the appending end go
    /// on meanwhile. After an error all is as before.
    pub fn rewrite(
        &self,
        segments: &[u32],
        keep: &mut dyn FnMut(&Frame) -> Option<Bytes>,
    ) -> Result<Rewritten, RewriteError> {
        let mut is_undoable = self.shared.rewriting.lock().unwrap_or_else(PoisonError::into_inner);
        let old = self.neighbors(segments)?;
        let number = old[old.len() - 1].number;
        let failed = |source| RewriteError::Write { file: segment::name_new(number), source };
        let disk = &self.shared.disk;
        let name = segment::name_new(number);
        if *is_undoable {
            // What this one drops may be needless only because of what the last one dropped.
            disk.sync_directory().map_err(failed)?;
            *is_undoable = false;
        }
        match disk.remove(&name) {
            Err(err) if err.kind() != io::ErrorKind::NotFound => return Err(failed(err)),
            _ => {}
        }
        let file = disk.create(&name).map_err(failed)?;
        let written = self.write(&old, Arc::clone(&file), keep).and_then(|it| {
            disk.rename(&name, &segment::name(number)).map_err(failed)?;
            Ok(it)
        });
        let written = match written {
            Ok(it) => it,
            Err(err) => {
                // What is left of it is removed at the next rewrite or open.
                let _ = disk.remove(&name);
                return Err(err);
            }
        };
        // Only when the new name is there for good may the others go. If it is not, either is right
        // after a crash; but this process must go on from the new one, or a later rewrite could mix
        // the two. The next open removes what stays.
        let is_synced = disk.sync_directory().is_ok();
        *is_undoable = !is_synced;
        for it in old[..old.len() - 1].iter().filter(|_| is_synced) {
            let _ = disk.remove(&it.name());
        }
        let mut rewritten = self.publish(&old, file, written);
        rewritten.is_synced = is_synced;
        Ok(rewritten)
    }

    fn neighbors(&self, ids: &[u32]) -> Result<Vec<Arc<SegmentFile>>, RewriteError> {
        let all = self.shared.all();
        let start = all.iter().position(|it| ids.first() == Some(&it.id));
        let found = start.and_then(|at| all.get(at..at + ids.len()));
        found
            .filter(|it| it.iter().zip(ids).all(|(it, id)| it.id == *id && it.tip().is_sealed))
            .map(<[_]>::to_vec)
            .ok_or(RewriteError::NotNeighbors)
    }

    fn write(
        &self,
        old: &[Arc<SegmentFile>],
        file: Arc<dyn File>,
        keep: &mut dyn FnMut(&Frame) -> Option<Bytes>,
    ) -> Result<Written, RewriteError> {
        let (oldest, newest) = (&old[0], &old[old.len() - 1]);
        let (synced, check) = oldest.before;
        let (name, buffer) = (segment::name_new(newest.number), Vec::new());
        let mut draft = Draft { shared: &self.shared, file, buffer, written: 0, check, name };
        draft.add((Kind::Joined, &oldest.first.to_le_bytes()), synced)?;
        let begin = draft.size();
        let mut moved = Vec::new();
        for segment in old {
            let (bytes, frames) = self.load(segment).map_err(RewriteError::Read)?;
            for (offset, header) in frames.into_iter().filter(|(_, it)| it.kind.is_record()) {
                let at = offset as usize;
                let body = bytes.slice(at + frame::HEADER_BYTES..at + header.size());
                let place = Place { segment: segment.id, offset };
                let frame = Frame { kind: header.kind, place, check: header.check, body };
                let Some(body) = keep(&frame) else { continue };
                moved.push((place, draft.size()));
                draft.add((frame.kind, &body), synced)?;
            }
        }
        let Tip { end, chain, .. } = newest.tip();
        let mut seal = end.to_le_bytes().to_vec();
        seal.extend_from_slice(&chain.to_le_bytes());
        draft.add((Kind::Sealed, &seal), synced)?;
        draft.flush()?;
        draft.file.sync().map_err(|source| draft.failed(source))?;
        let tip = Tip { size: draft.size(), check: draft.check, end, chain, is_sealed: true };
        Ok(Written { tip, begin, moved })
    }

    fn publish(
        &self,
        old: &[Arc<SegmentFile>],
        file: Arc<dyn File>,
        Written { tip, begin, moved }: Written,
    ) -> Rewritten {
        let (first, before, number) = (old[0].first, old[0].before, old[old.len() - 1].number);
        let segment = self
            .shared
            .replace(old, |id| SegmentFile::new((id, first, number), file, before, begin, tip));
        let place = |offset| Place { segment: segment.id, offset };
        Rewritten {
            segment: segment.id,
            moved: moved.into_iter().map(|(from, to)| (from, place(to))).collect(),
            bytes_before: old.iter().map(|it| u64::from(it.tip().size)).sum(),
            bytes_after: u64::from(tip.size),
            is_synced: false,
            shared: Arc::clone(&self.shared),
            old: old.iter().map(|it| it.id).collect(),
        }
    }
}

impl Draft<'_> {
    fn size(&self) -> u32 {
        self.written + self.buffer.len() as u32
    }

    fn add(
        &mut self,
        (kind, body): (Kind, &[u8]),
        synced: frame::Mark,
    ) -> Result<(), RewriteError> {
        let size = self.size() as usize + frame::HEADER_BYTES + body.len();
        if body.len() > BODY_BYTES_MAX || size > SEGMENT_BYTES_MAX as usize {
            return Err(RewriteError::TooLarge);
        }
        let salt = self.shared.salt();
        self.check = frame::encode(&mut self.buffer, salt, (kind, body), synced, self.check);
        if self.buffer.len() < WRITE_BYTES { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> Result<(), RewriteError> {
        let written = self.file.write_at(u64::from(self.written), &self.buffer);
        written.map_err(|source| self.failed(source))?;
        self.written += self.buffer.len() as u32;
        self.buffer.clear();
        Ok(())
    }

    fn failed(&self, source: io::Error) -> RewriteError {
        RewriteError::Write { file: self.name.clone(), source }
    }
}

impl Drop for Rewritten {
    fn drop(&mut self) {
        self.shared.release(&self.old);
    }
}
