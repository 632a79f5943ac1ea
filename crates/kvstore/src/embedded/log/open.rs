//! Opening: which files make the log, reading and verifying them ahead of the visitor, and removing what a crash left over.

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
    torn: Option<Torn>,
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
    let mut opened = Opened { torn: plan.torn.clone(), ..Opened::default() };
    let mut active: Option<Arc<SegmentFile>> = None;
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
            let tip = judge(part, &loaded, plan.salt, next, &mut opened)?;
            let begin = part.head.header.size() as u32;
            let before = (part.head.header.synced, part.head.header.previous);
            let segment = shared.add(|id| {
                let file = Arc::clone(&part.file);
                SegmentFile::new((id, part.first, part.number), file, before, begin, tip)
            });
            visit_all(&segment, &loaded, visit)?;
            opened.n_frames += loaded.scan.frames.len() as u64;
            opened.bytes += u64::from(tip.size);
            active = Some(segment);
        }
        Ok::<_, OpenError>(())
    })?;
    clean(disk.as_ref(), &plan, active.as_deref())?;
    Ok(assemble(shared, options, active, opened))
}

fn assemble(
    shared: Arc<Shared>,
    options: &Options,
    active: Option<Arc<SegmentFile>>,
    opened: Opened,
) -> Log {
    let (end, chain, mark) = match &active {
        Some(active) => {
            let tip = active.tip();
            (tip.end, tip.chain, Mark { number: active.number, offset: tip.end })
        }
        None => (0, shared.salt().0, Mark::default()),
    };
    let state = if opened.was_closed { State::Closed } else { State::Ready };
    let synced = Synced { mark, chain };
    let segment_bytes = options.segment_bytes;
    Log { shared, segment_bytes, active, end, chain, synced, state, opened, buffer: Vec::new() }
}

/// Reads the first frame of every file and decides which make the log.
fn plan(disk: &dyn Disk, options: &Options) -> Result<Plan, OpenError> {
    let names = disk.list().map_err(failed_name("listing", String::new()))?;
    let mut remove: Vec<String> =
        names.iter().filter(|it| segment::is_leftover(it)).cloned().collect();
    let numbers = names.iter().filter_map(|it| segment::parse_name(it)).collect::<Vec<_>>();
    let mut files = Vec::new();
    for number in numbers {
        let file = disk.open(&segment::name(number)).map_err(failed("opening", number))?;
        let size = file.size().map_err(failed("measuring", number))? as usize;
        if size > SEGMENT_BYTES_MAX as usize {
            return Err(Damage::new(segment::name(number), 0, Fault::TooLarge).into());
        }
        let head = read_head(file.as_ref(), size).map_err(failed("reading", number))?;
        files.push((number, file, size, head));
    }
    // Only the first frame of all verifies with its own `previous` as the salt.
    let find = |bytes: &Vec<u8>| {
        frame::salt(bytes).ok().filter(|salt| frame::decode(bytes, *salt).is_ok())
    };
    let salt = files.iter().find_map(|(_, _, _, head)| find(head));
    let Some(salt) = salt else {
        return plan_without_salt(
            files.into_iter().map(|(n, file, ..)| (n, file)).collect(),
            remove,
            options,
        );
    };
    let entries = files.into_iter().map(|(number, file, size, bytes)| {
        let head = frame::decode(&bytes, salt).map(|header| Head {
            header,
            body: Bytes::copy_from_slice(&bytes[HEADER_BYTES..header.size()]),
        });
        Entry { number, file, size, head }
    });
    let mut entries = entries.collect::<Vec<_>>();
    let torn = drop_unfinished(&mut entries, salt, &mut remove)?;
    let parts = chain(entries, &mut remove)?;
    Ok(Plan { salt, parts, remove, torn })
}

/// No first frame can be read. That is a new log whose creation was interrupted, if it is a lone file that was never synced.
fn plan_without_salt(
    files: Vec<(u32, Arc<dyn File>)>,
    mut remove: Vec<String>,
    options: &Options,
) -> Result<Plan, OpenError> {
    let mut torn = None;
    for (number, file) in &files {
        let bytes = read(file.as_ref(), None).map_err(failed("reading", *number))?;
        let salt = frame::salt(&bytes);
        let fault = salt.and_then(|it| frame::decode(&bytes, it)).err().unwrap_or(Fault::Cut);
        let verdict = tail::judge_first(&bytes, fault.clone());
        if files.len() > 1 || *number != 1 || verdict != Verdict::Torn {
            return Err(damaged_or_newer(Damage::new(segment::name(*number), 0, fault)));
        }
        let file = segment::name(*number);
        torn = Some(Torn { file: file.clone(), offset: 0, bytes: bytes.len() as u64 });
        remove.push(file);
    }
    Ok(Plan { salt: Salt(options.salt), parts: Vec::new(), remove, torn })
}

/// Leaves out the last file if its creation was interrupted.
fn drop_unfinished(
    entries: &mut Vec<Entry>,
    salt: Salt,
    remove: &mut Vec<String>,
) -> Result<Option<Torn>, OpenError> {
    let Some(entry) = entries.pop_if(|it| it.head.is_err()) else { return Ok(None) };
    let file = segment::name(entry.number);
    let bytes = read(entry.file.as_ref(), None).map_err(failed("reading", entry.number))?;
    let Err(fault) = entry.head else { return Ok(None) };
    match tail::judge(&bytes, entry.number, salt, 0, fault) {
        Verdict::Torn => {
            remove.push(file.clone());
            Ok(Some(Torn { file, offset: 0, bytes: bytes.len() as u64 }))
        }
        Verdict::Damaged(fault) => Err(damaged_or_newer(Damage {
            next: next_frame(&bytes, salt, 0),
            ..Damage::new(file, 0, fault)
        })),
    }
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
            (Kind::Joined, Ok(first)) => u32::from_le_bytes(first),
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
    // What lies behind the end of a segment that the next one names was given up when a write failed.
    let is_joined = part.head.header.kind == Kind::Joined;
    let limit = part.end.filter(|_| !is_joined).map(|(mark, _)| mark.offset as usize);
    let bytes = Bytes::from(read(part.file.as_ref(), limit)?);
    let scan = scan(&bytes, salt, part.head.header.previous);
    Ok(Loaded { bytes, scan })
}

/// Whether a part is what it should be, and where it ends. The last one may have a torn end.
fn judge(
    part: &Part,
    Loaded { bytes, scan }: &Loaded,
    salt: Salt,
    next: Option<&Part>,
    opened: &mut Opened,
) -> Result<Tip, OpenError> {
    let damage = |offset: usize, fault: Fault| {
        let next_head = next.map(|it| (it.head.header.kind, it.head.body.clone()));
        let next = next_frame(bytes, salt, offset).or(next_head);
        damaged_or_newer(Damage { next, ..Damage::new(segment::name(part.number), offset, fault) })
    };
    let size = scan.end as u32;
    let tip = Tip { size, check: scan.check, end: size, chain: scan.check, is_sealed: true };
    let Some((mark, chain)) = part.end else {
        if let Some(fault) = &scan.fault {
            match tail::judge(bytes, part.number, salt, scan.end, fault.clone()) {
                Verdict::Damaged(fault) => return Err(damage(scan.end, fault)),
                Verdict::Torn => {
                    let (offset, cut) = (scan.end as u64, (bytes.len() - scan.end) as u64);
                    let file = segment::name(part.number);
                    opened.torn = Some(Torn { file, offset, bytes: cut });
                }
            }
        }
        let is_closed = scan.frames.last().is_some_and(|(_, it)| it.kind == Kind::Closed);
        opened.was_closed = is_closed && scan.fault.is_none();
        return Ok(Tip { is_sealed: false, ..tip });
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
    Ok(tip)
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

/// Removes what a crash left, and makes sure of what was found: a killed process may have left it in the cache alone.
fn clean(disk: &dyn Disk, plan: &Plan, active: Option<&SegmentFile>) -> Result<(), OpenError> {
    // Names first: what a rewritten segment stands for may go only when that one is there for good.
    disk.sync_directory().map_err(failed_name("syncing the directory of", "it".to_owned()))?;
    for name in &plan.remove {
        disk.remove(name).map_err(failed_name("removing", name.clone()))?;
    }
    if !plan.remove.is_empty() {
        disk.sync_directory().map_err(failed_name("syncing the directory of", "it".to_owned()))?;
    }
    let Some(active) = active else { return Ok(()) };
    let end = u64::from(active.tip().size);
    if active.file.size().map_err(failed("measuring", active.number))? > end {
        active.file.set_size(end).map_err(failed("cutting", active.number))?;
    }
    active.file.sync().map_err(failed("syncing", active.number))
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

/// The whole file, or as much of it as `limit` says. The size of a file is bounded before it is read.
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
