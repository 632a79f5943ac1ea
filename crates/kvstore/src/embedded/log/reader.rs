//! The reading ends of a log: one frame at its place, frames from a place on, and the scrub. Shared
//! by all who read.

use std::sync::Arc;

use bytes::Bytes;

use super::error::{Damage, Fault, ReadError};
use super::frame::{self, HEADER_BYTES, Header};
use super::scan::scan;
use super::segment::{Place, Segment, SegmentFile, Shared};
use super::{Frame, open};

/// The first read of a frame: most fit.
const FRAME_BYTES: usize = 4 << 10;
/// Frames that are no farther apart than this are read together, up to so many bytes at once.
const GAP_BYTES: u32 = 8 << 10;
const RUN_BYTES: u32 = 256 << 10;
/// One read of a walk over frames.
const WALK_BYTES: usize = 128 << 10;

/// Cheap to clone.
#[derive(Clone)]
pub struct Reader {
    pub(super) shared: Arc<Shared>,
}

/// Frames from a place on, across segments, to the end of the log as it is when the walk comes
/// there.
pub struct Frames {
    shared: Arc<Shared>,
    /// `None`: at the end.
    segment: Option<Arc<SegmentFile>>,
    offset: u32,
    /// What was read ahead of the segment, beginning at `offset`.
    ahead: Bytes,
    failure: Option<ReadError>,
}

impl Reader {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// The frame there, verified.
    pub fn frame(&self, place: Place) -> Result<Frame, ReadError> {
        let segment = self.shared.by_id(place.segment).ok_or(ReadError::Moved)?;
        let bytes = read_some(&segment, place.offset, FRAME_BYTES)?;
        let (header, bytes) = decode(&self.shared, &segment, place.offset, bytes)?;
        let body = bytes.slice(HEADER_BYTES..header.size());
        Ok(Frame { kind: header.kind, place, check: header.check, body })
    }

    /// The frame there, verified, if it can be had without waiting for the device.
    pub fn frame_cached(&self, place: Place) -> Option<Frame> {
        let segment = self.shared.by_id(place.segment)?;
        let left = segment.tip().size.checked_sub(place.offset)? as usize;
        let read = |size: usize| {
            let mut bytes = vec![0; size.min(left)];
            let n_read = segment.file.read_cached(u64::from(place.offset), &mut bytes)?;
            bytes.truncate(n_read);
            Some(bytes)
        };
        let mut bytes = read(FRAME_BYTES)?;
        let size = HEADER_BYTES + frame::length(&bytes).ok()?;
        if size > bytes.len() {
            bytes = read(size)?;
        }
        let header = frame::decode(&bytes, self.shared.salt()).ok()?;
        let body = Bytes::from(bytes).slice(HEADER_BYTES..header.size());
        Some(Frame { kind: header.kind, place, check: header.check, body })
    }

    /// The frames at these places, which are sorted, each verified and told by its position.
    /// Neighbors share a read.
    pub fn each(&self, places: &[Place], tell: &mut dyn FnMut(usize, Result<&Frame, ReadError>)) {
        let mut start = 0;
        while start < places.len() {
            let first = places[start];
            let mut end = start + 1;
            while end < places.len()
                && places[end].segment == first.segment
                && places[end].offset - places[end - 1].offset <= GAP_BYTES
                && places[end].offset - first.offset <= RUN_BYTES
            {
                end += 1;
            }
            self.read_run(start, &places[start..end], tell);
            start = end;
        }
    }

    fn read_run(
        &self,
        start: usize,
        places: &[Place],
        tell: &mut dyn FnMut(usize, Result<&Frame, ReadError>),
    ) {
        let Some(segment) = self.shared.by_id(places[0].segment) else {
            (start..start + places.len()).for_each(|it| tell(it, Err(ReadError::Moved)));
            return;
        };
        let first = places[0].offset;
        let size = (places[places.len() - 1].offset - first) as usize + FRAME_BYTES;
        let run = read_some(&segment, first, size);
        let mut last: Option<Frame> = None;
        for (n, place) in places.iter().enumerate() {
            // A transaction may have several of what is looked for.
            if last.as_ref().is_none_or(|it| it.place != *place) {
                let ahead = run.as_ref().map_or_else(
                    |_| Bytes::new(),
                    |it| it.slice(((place.offset - first) as usize).min(it.len())..),
                );
                match decode(&self.shared, &segment, place.offset, ahead) {
                    Ok((header, bytes)) => {
                        let body = bytes.slice(HEADER_BYTES..header.size());
                        let (kind, check) = (header.kind, header.check);
                        last = Some(Frame { kind, place: *place, check, body });
                    }
                    Err(error) => {
                        last = None;
                        tell(start + n, Err(error));
                    }
                }
            }
            if let Some(frame) = &last {
                tell(start + n, Ok(frame));
            }
        }
    }

    /// The records from that place on, the one there included.
    pub fn frames(&self, from: Place) -> Frames {
        let segment = self.shared.by_id(from.segment);
        let failure = segment.is_none().then_some(ReadError::Moved);
        let shared = Arc::clone(&self.shared);
        Frames { shared, segment, offset: from.offset, ahead: Bytes::new(), failure }
    }

    /// All records.
    pub fn all(&self) -> Frames {
        let segment = self.shared.after(0);
        let shared = Arc::clone(&self.shared);
        Frames { shared, segment, offset: 0, ahead: Bytes::new(), failure: None }
    }

    /// In order. The last is the one that is appended to.
    pub fn segments(&self) -> Vec<Segment> {
        let render = |it: Arc<SegmentFile>| {
            let tip = it.tip();
            let (id, first, last) = (it.id, it.first, it.number);
            Segment { id, first, last, bytes: tip.size, is_sealed: tip.is_sealed }
        };
        self.shared.all().into_iter().map(render).collect()
    }

    /// Reads a segment again, from the device as far as it can be, and verifies all of it.
    pub fn verify(&self, segment: u32) -> Result<(), ReadError> {
        let segment = self.shared.by_id(segment).ok_or(ReadError::Moved)?;
        segment.file.drop_cache();
        self.load(&segment).map(|_| ())
    }

    /// The frames of a whole segment, verified up to the end that is known in memory.
    pub(super) fn load(
        &self,
        segment: &SegmentFile,
    ) -> Result<(Bytes, Vec<(u32, Header)>), ReadError> {
        let tip = segment.tip();
        let bytes = open::read(segment.file.as_ref(), Some(tip.size as usize));
        let bytes = bytes.map_err(|source| ReadError::Io { file: segment.name(), source })?;
        let scan = scan(&bytes, self.shared.salt(), segment.before.1);
        let fault = match scan.fault {
            Some(fault) => fault,
            None if scan.end < tip.size as usize => Fault::Short,
            None if scan.check != tip.check => Fault::Chain,
            None => return Ok((Bytes::from(bytes), scan.frames)),
        };
        Err(Damage::new(segment.name(), scan.end, fault).into())
    }
}

impl Frames {
    fn step(&mut self) -> Result<Option<Frame>, ReadError> {
        loop {
            let Some(segment) = self.segment.clone() else { return Ok(None) };
            if self.offset >= segment.tip().size {
                self.segment = self.shared.after(segment.number);
                if self.segment.is_none() {
                    return Ok(None);
                }
                self.offset = 0;
                self.ahead = Bytes::new();
                continue;
            }
            if self.ahead.len() < HEADER_BYTES {
                self.ahead = read_some(&segment, self.offset, WALK_BYTES)?;
            }
            let place = Place { segment: segment.id, offset: self.offset };
            let is_whole = frame::length(&self.ahead)
                .is_ok_and(|length| HEADER_BYTES + length <= self.ahead.len());
            if !is_whole {
                self.ahead = read_some(&segment, self.offset, WALK_BYTES)?;
            }
            let ahead = self.ahead.clone();
            let (header, bytes) = decode(&self.shared, &segment, self.offset, ahead)?;
            self.offset += header.size() as u32;
            self.ahead = bytes.slice(header.size()..);
            if header.kind.is_record() {
                let body = bytes.slice(HEADER_BYTES..header.size());
                return Ok(Some(Frame { kind: header.kind, place, check: header.check, body }));
            }
        }
    }
}

impl Iterator for Frames {
    type Item = Result<Frame, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(failure) = self.failure.take() {
            return Some(Err(failure));
        }
        let stepped = self.step();
        if stepped.is_err() {
            self.segment = None;
        }
        stepped.transpose()
    }
}

/// The frame at the start of `bytes`, which were read at `offset`; reads more of them if it is
/// longer.
fn decode(
    shared: &Shared,
    segment: &SegmentFile,
    offset: u32,
    mut bytes: Bytes,
) -> Result<(Header, Bytes), ReadError> {
    let damaged = |fault| Damage::new(segment.name(), offset as usize, fault);
    if bytes.len() < HEADER_BYTES {
        bytes = read_some(segment, offset, FRAME_BYTES)?;
    }
    let size = HEADER_BYTES + frame::length(&bytes).map_err(damaged)?;
    if size > bytes.len() {
        bytes = read_some(segment, offset, size)?;
    }
    let header = frame::decode(&bytes, shared.salt()).map_err(damaged)?;
    Ok((header, bytes))
}

/// Up to so many bytes of the part of the file that counts.
fn read_some(segment: &SegmentFile, offset: u32, size: usize) -> Result<Bytes, ReadError> {
    let left = segment.tip().size.saturating_sub(offset) as usize;
    let mut bytes = vec![0; size.min(left)];
    let n_read = segment.file.read_at(u64::from(offset), &mut bytes);
    let n_read = n_read.map_err(|source| ReadError::Io { file: segment.name(), source })?;
    bytes.truncate(n_read);
    Ok(Bytes::from(bytes))
}
