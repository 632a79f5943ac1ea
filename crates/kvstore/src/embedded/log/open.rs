//! Opening: which files make the log, reading and verifying them ahead of the visitor, and removing
//! what a crash left over.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use bytes::Bytes;

use super::error::{Damage, Fault, OpenError};
use super::frame::{self, BODY_BYTES_MAX, HEADER_BYTES, Header, Kind, Mark, Salt};
use super::scan::{Scan, scan};
use super::segment::{self, Place, SegmentFile, Shared, Tip};
use super::tail::{self, Verdict};
use super::{Frame, Log, Options, SEGMENT_BYTES_MAX, State, Synced};
use crate::embedded::disk::{Disk, File};

/// The first read of a file: most first frames fit.
const HEAD_BYTES: usize = 4 << 10;

/// What opening found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    pub n_frames: u64,
    pub bytes: u64,
    /// Whether the end was marked as clean.
    pub was_closed: bool,
    pub torn: Option<Torn>,
}

/// What a crash left of writes that were not acknowledged. It was cut off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torn {
    pub file: String,
    pub offset: u64,
    pub bytes: u64,
}

/// One file of the log, with its first frame.
struct Entry {
    number: u32,
    file: Arc<dyn File>,
    size: usize,
    head: Result<Head, Fault>,
}

#[derive(Clone)]
struct Head {
    header: Header,
    body: Bytes,
}

/// An entry that belongs to the log.
struct Part {
    first: u32,
    number: u32,
    file: Arc<dyn File>,
    size: usize,
    head: Head,
    /// Where the next segment says that this one ends; `None` for the last.
    end: Option<(Mark, u64)>,
}

/// What there is to open, and what is to be removed once it was found sound.
struct Plan {
    salt: Salt,
    parts: Vec<Part>,
    remove: Vec<String>,
}

/// The bytes of a part and what is in them.
struct Loaded {
    bytes: Bytes,
    scan: Scan,
}

pub(super) fn open(
    disk: Arc<dyn Disk>,
    options: &Options,
    visit: &mut dyn FnMut(&Frame) -> Result<(), String>,
) -> Result<Log, OpenError> {
    let plan = plan(disk.as_ref(), options)?;
    let shared = Arc::new(Shared::new(Arc::clone(&disk), plan.salt));
    let mut opened = Opened::default();
    let mut active: Option<(Arc<SegmentFile>, u32)> = None;
    thread::scope(|scope| {
        let mut loads = Vec::new();
        let n_threads = options.threads.clamp(1, plan.parts.len().max(1));
        for at in 0..n_threads {
            loads.push(spawn_loader(scope, &plan, at, n_threads)?);
        }
        for (at, part) in plan.parts.iter().enumerate() {
            // A loader ends early only by a panic, which the scope passes on.
            let Ok(loaded) = loads[at % n_threads].recv() else { break };
            let loaded = loaded.map_err(failed("reading", part.number))?;
            let next = plan.parts.get(at + 1);
            let (tip, filled) = judge(part, &loaded, plan.salt, next, &mut opened)?;
            let begin = part.head.header.size() as u32;
            let before = (part.head.header.synced, part.head.header.previous);
            let segment = shared.add(|id| {
                let file = Arc::clone(&part.file);
                SegmentFile::new((id, part.first, part.number), file, before, begin, tip)
            });
            visit_all(&segment, &loaded, visit)?;
            opened.n_frames += loaded.scan.frames.len() as u64;
            opened.bytes += u64::from(tip.size);
            active = Some((segment, filled));
        }
        Ok::<_, OpenError>(())
    })?;
    clean(disk.as_ref(), &plan, active.as_ref())?;
    Ok(assemble(shared, options, active, opened))
}

fn assemble(
    shared: Arc<Shared>,
    options: &Options,
    active: Option<(Arc<SegmentFile>, u32)>,
    opened: Opened,
) -> Log {
    let (end, chain, mark) = match &active {
        Some((active, _)) => {
            let tip = active.tip();
            (tip.end, tip.chain, Mark { number: active.number, offset: tip.end })
        }
        None => (0, shared.salt().0, Mark::default()),
    };
    let state = if opened.was_closed { State::Closed } else { State::Ready };
    let synced = Synced { mark, chain };
    let segment_bytes = options.segment_bytes;
    let (active, filled) = active.map_or((None, 0), |(it, filled)| (Some(it), filled));
    let buffer = Vec::new();
    Log { shared, segment_bytes, active, end, chain, filled, synced, state, opened, buffer }
}

/// Reads the first frame of every file and decides which make the log.
fn plan(disk: &dyn Disk, options: &Options) -> Result<Plan, OpenError> {
    let names = disk.list().map_err(failed_name("listing", String::new()))?;
    let mut remove: Vec<String> =
        names.iter().filter(|it| segment::is_leftover(it)).cloned().collect();
    let numbers = names.iter().filter_map(|it| segment::parse_name(it)).collect::<Vec<_>>();
    let mut files = Vec::new();
    for number in numbers.iter().copied() {
        let file = disk.open(&segment::name(number)).map_err(failed("opening", number))?;
        if numbers.last() == Some(&number) {
            settle(file.as_ref(), number)?;
        }
        let size = file.size().map_err(failed("measuring", number))? as usize;
        if size > SEGMENT_BYTES_MAX as usize {
            return Err(Damage::new(segment::name(number), 0, Fault::TooLarge).into());
        }
        let head = read_head(file.as_ref(), size).map_err(failed("reading", number))?;
        files.push((number, file, size, head));
    }
    // Only the first frame of all verifies with its own `previous` as the salt.
    let find = |bytes: &Vec<u8>| {
        let salt = frame::salt(bytes).ok()?;
        let decoded = frame::decode(bytes, salt);
        matches!(decoded, Ok(_) | Err(Fault::Newer { .. } | Fault::Kind { .. })).then_some(salt)
    };
    let salt = match files.iter().find_map(|(_, _, _, head)| find(head)) {
        Some(salt) => salt,
        None if files.is_empty() => Salt(options.salt),
        None => return Err(Damage::new(segment::name(files[0].0), 0, Fault::Check).into()),
    };
    let entries = files.into_iter().map(|(number, file, size, bytes)| {
        let head = frame::decode(&bytes, salt).map(|header| Head {
            header,
            body: Bytes::copy_from_slice(&bytes[HEADER_BYTES..header.size()]),
        });
        Entry { number, file, size, head }
    });
    let parts = chain(entries.collect(), &mut remove)?;
    if let Some(it) = parts.first().filter(|it| it.head.header.previous != salt.0) {
        return Err(Damage::new(segment::name(it.number), 0, Fault::Chain).into());
    }
    Ok(Plan { salt, parts, remove })
}

/// Makes sure that what is read of the last segment is what the device has. A killed process leaves
/// writes in the cache alone; and if their sync had failed, they count as clean, and would be there
/// until the cache is dropped.
fn settle(file: &dyn File, number: u32) -> Result<(), OpenError> {
    file.sync().map_err(failed("syncing", number))?;
    file.drop_cache();
    Ok(())
}

/// Leaves out the segments that a joined one stands for, and links the rest: none may be missing.
fn chain(entries: Vec<Entry>, remove: &mut Vec<String>) -> Result<Vec<Part>, OpenError> {
    let mut parts: Vec<Part> = Vec::new();
    for entry in entries.into_iter().rev() {
        let name = segment::name(entry.number);
        if parts.last().is_some_and(|it| entry.number >= it.first) {
            remove.push(name);
            continue;
        }
        let head = entry.head.map_err(|it| damaged_or_newer(Damage::new(name.clone(), 0, it)))?;
        let first = match (head.header.kind, <[u8; 4]>::try_from(head.body.as_ref())) {
            (Kind::Checkpoint, _) => entry.number,
            (Kind::Joined, Ok(first))
                if (1..=entry.number).contains(&u32::from_le_bytes(first)) =>
            {
                u32::from_le_bytes(first)
            }
            _ => return Err(Damage::new(name, 0, Fault::Begin).into()),
        };
        let end = match parts.last() {
            Some(next) if next.first != entry.number + 1 => {
                return Err(missing(name, entry.size, &next.head));
            }
            Some(next) => Some((next.head.header.synced, next.head.header.previous)),
            None => None,
        };
        let Entry { number, file, size, .. } = entry;
        parts.push(Part { first, number, file, size, head, end });
    }
    if let Some(it) = parts.last().filter(|it| it.first != 1) {
        return Err(missing(segment::name(it.first - 1), 0, &it.head));
    }
    if let Some(it) = parts.first().filter(|it| it.head.header.kind == Kind::Joined) {
        // Only what another segment follows is ever joined.
        let damage = Damage::new(segment::name(it.number), it.size, Fault::Missing);
        return Err(damage.into());
    }
    parts.reverse();
    Ok(parts)
}

fn missing(file: String, size: usize, next: &Head) -> OpenError {
    let next = Some((next.header.kind, next.body.clone()));
    Damage { next, ..Damage::new(file, size, Fault::Missing) }.into()
}

/// Loads every `step`th part, beginning with `at`, not far ahead of the visitor.
fn spawn_loader<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    plan: &'scope Plan,
    at: usize,
    step: usize,
) -> Result<Receiver<io::Result<Loaded>>, OpenError> {
    let (tx, rx) = sync_channel(1);
    let load = move || {
        for part in plan.parts.iter().skip(at).step_by(step) {
            // Nobody receives when opening has failed already.
            if tx.send(load(part, plan.salt)).is_err() {
                return;
            }
        }
    };
    let spawned = thread::Builder::new().name("store-open".to_owned()).spawn_scoped(scope, load);
    spawned.map_err(failed_name("starting a thread for", "it".to_owned()))?;
    Ok(rx)
}

fn load(part: &Part, salt: Salt) -> io::Result<Loaded> {
    // What lies behind the end of a segment that the next one names was given up when a write
    // failed.
    let is_joined = part.head.header.kind == Kind::Joined;
    let limit = part.end.filter(|_| !is_joined).map(|(mark, _)| mark.offset as usize);
    let bytes = Bytes::from(read(part.file.as_ref(), limit)?);
    let scan = scan(&bytes, salt, part.head.header.previous);
    Ok(Loaded { bytes, scan })
}

/// Whether a part is what it should be, where it ends, and how far it is filled with zeros after
/// that. The last one may have a torn end.
fn judge(
    part: &Part,
    Loaded { bytes, scan }: &Loaded,
    salt: Salt,
    next: Option<&Part>,
    opened: &mut Opened,
) -> Result<(Tip, u32), OpenError> {
    let damage = |offset: usize, fault: Fault| {
        let next_head = next.map(|it| (it.head.header.kind, it.head.body.clone()));
        let next = next_frame(bytes, salt, offset).or(next_head);
        damaged_or_newer(Damage { next, ..Damage::new(segment::name(part.number), offset, fault) })
    };
    let size = scan.end as u32;
    let tip = Tip { size, check: scan.check, end: size, chain: scan.check, is_sealed: true };
    let Some((mark, chain)) = part.end else {
        let tip = Tip { is_sealed: false, ..tip };
        opened.was_closed = scan.frames.last().is_some_and(|(_, it)| it.kind == Kind::Closed);
        let Some(fault) = scan.fault.clone() else { return Ok((tip, size)) };
        if bytes[scan.end..].iter().all(|it| *it == 0) {
            return Ok((tip, bytes.len() as u32));
        }
        opened.was_closed = false;
        match tail::judge(bytes, part.number, salt, scan.end, fault) {
            Verdict::Damaged(fault) => return Err(damage(scan.end, fault)),
            Verdict::Torn => {
                let (offset, cut) = (scan.end as u64, (bytes.len() - scan.end) as u64);
                opened.torn = Some(Torn { file: segment::name(part.number), offset, bytes: cut });
                return Ok((tip, size));
            }
        }
    };
    if let Some(fault) = &scan.fault {
        return Err(damage(scan.end, fault.clone()));
    }
    let (tip, has_end) = match part.head.header.kind {
        Kind::Joined => match parse_seal(bytes, scan) {
            Some((end, chain)) => (Tip { end, chain, ..tip }, true),
            None => (tip, false),
        },
        _ => (tip, true),
    };
    if !has_end || mark != (Mark { number: part.number, offset: tip.end }) {
        return Err(damage(scan.end, Fault::Short));
    }
    if tip.chain != chain {
        return Err(damage(scan.end, Fault::Chain));
    }
    Ok((tip, size))
}

/// The end and the chain that a rewritten segment tells in its last frame.
pub(super) fn parse_seal(bytes: &[u8], scan: &Scan) -> Option<(u32, u64)> {
    let (offset, header) = scan.frames.last().filter(|(_, it)| it.kind == Kind::Sealed)?;
    let body = &bytes[*offset as usize + HEADER_BYTES..*offset as usize + header.size()];
    let (end, chain) = body.split_first_chunk::<4>()?;
    Some((u32::from_le_bytes(*end), u64::from_le_bytes(chain.try_into().ok()?)))
}

fn visit_all(
    segment: &SegmentFile,
    Loaded { bytes, scan }: &Loaded,
    visit: &mut dyn FnMut(&Frame) -> Result<(), String>,
) -> Result<(), OpenError> {
    for (offset, header) in scan.frames.iter().filter(|(_, it)| it.kind.is_record()) {
        let at = *offset as usize;
        let body = bytes.slice(at + HEADER_BYTES..at + header.size());
        let place = Place { segment: segment.id, offset: *offset };
        let frame = Frame { kind: header.kind, place, check: header.check, body };
        visit(&frame).map_err(|why| Damage::new(segment.name(), at, Fault::Body { why }))?;
    }
    Ok(())
}

/// Removes what a crash left, and makes sure of what was found: a killed process may have left it
/// in the cache alone.
fn clean(
    disk: &dyn Disk,
    plan: &Plan,
    active: Option<&(Arc<SegmentFile>, u32)>,
) -> Result<(), OpenError> {
    // Names first: what a rewritten segment stands for may go only when that one is there for good.
    disk.sync_directory().map_err(failed_name("syncing the directory of", "it".to_owned()))?;
    for name in &plan.remove {
        disk.remove(name).map_err(failed_name("removing", name.clone()))?;
    }
    if !plan.remove.is_empty() {
        disk.sync_directory().map_err(failed_name("syncing the directory of", "it".to_owned()))?;
    }
    let Some((active, filled)) = active else { return Ok(()) };
    let end = u64::from(*filled);
    if active.file.size().map_err(failed("measuring", active.number))? > end {
        active.file.set_size(end).map_err(failed("cutting", active.number))?;
        active.file.sync().map_err(failed("syncing", active.number))?;
    }
    Ok(())
}

/// The bytes of the first frame as far as the file has them.
fn read_head(file: &dyn File, size: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; size.min(HEAD_BYTES)];
    let n_read = file.read_at(0, &mut bytes)?;
    bytes.truncate(n_read);
    let length = frame::length(&bytes).unwrap_or(0).min(BODY_BYTES_MAX);
    if HEADER_BYTES + length <= bytes.len() {
        return Ok(bytes);
    }
    read(file, Some(HEADER_BYTES + length))
}

/// The whole file, or as much of it as `limit` says. The size of a file is bounded before it is
/// read.
pub(super) fn read(file: &dyn File, limit: Option<usize>) -> io::Result<Vec<u8>> {
    let size = (file.size()? as usize).min(SEGMENT_BYTES_MAX as usize);
    let mut bytes = vec![0; limit.map_or(size, |it| it.min(size))];
    let n_read = file.read_at(0, &mut bytes)?;
    bytes.truncate(n_read);
    Ok(bytes)
}

fn next_frame(bytes: &[u8], salt: Salt, bad: usize) -> Option<(Kind, Bytes)> {
    let (at, header) = frame::find_frame(bytes, salt, bad)?;
    let body = Bytes::copy_from_slice(&bytes[at + HEADER_BYTES..at + header.size()]);
    Some((header.kind, body))
}

fn damaged_or_newer(damage: Damage) -> OpenError {
    match damage.fault {
        Fault::Newer { version } => OpenError::Newer { file: damage.file, version },
        _ => OpenError::Damaged(damage),
    }
}

fn failed(doing: &'static str, number: u32) -> impl FnOnce(io::Error) -> OpenError {
    failed_name(doing, segment::name(number))
}

fn failed_name(doing: &'static str, file: String) -> impl FnOnce(io::Error) -> OpenError {
    move |source| OpenError::Io { doing, file, source }
}
