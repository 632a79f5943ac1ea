//! Reading from the log: values that are not in memory, ranges at old revisions, and commits for
//! watches that are behind the ring. Only verified frames are served, and no lock is held while the
//! disk is read.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;

use super::core::{Core, Present};
use super::index::Found;
use super::log::{Frame, Kind, Place, ReadError};
use super::record::parse_commit;
use crate::hub::{self, History, Wanted};
use crate::state::{Commit, Drafted, Unread};
use crate::{Error, KeyRange, KeyValue, RangeRequest, RangeResponse, Revision, Want};

/// One read of history returns about this much at most.
const CHUNK_EVENTS: usize = 1024;
const CHUNK_COMMITS: usize = 4096;
const CHUNK_BYTES: usize = 4 << 20;
/// Bodies that one read keeps, because a transaction often has several of the keys that it looks
/// for.
const CACHE_BYTES: usize = 16 << 20;

/// Keys that are looked at before others, writers above all, get their turn.
const STEP_KEYS: usize = 2048;

/// Values that are looked for in the kernel's cache before another thread is asked to wait for the
/// disk.
const CACHED_MAX: usize = 4;

/// How often a commit can be elsewhere when we come to where it was.
const MOVES_MAX: usize = 16;

/// The answer to a range request, some of it not read yet.
struct Gathered {
    slots: Vec<Slot>,
    count: u64,
    limit: usize,
    want: Want,
}

enum Slot {
    Entry(KeyValue),
    Read(Stored),
}

/// What a key became at a revision: the commit there has it.
struct Stored {
    key: Bytes,
    revision: Revision,
    /// Where that commit was when we looked. `None`: nowhere.
    place: Option<Place>,
}

impl Gathered {
    fn new(request: &RangeRequest) -> Self {
        let limit = if request.limit == 0 { usize::MAX } else { request.limit };
        Self { slots: Vec::new(), count: 0, limit, want: request.want }
    }

    fn take(&mut self, present: &Present, found: Found<'_>) {
        self.count += 1;
        if self.slots.len() >= self.limit || self.want == Want::Count {
            return;
        }
        let (key, revision) = match found {
            Found::Current { key, entry } if self.want == Want::Keys => {
                self.slots.push(Slot::Entry(entry.without_value(key)));
                return;
            }
            Found::Current { key, entry } => (key, entry.mod_revision),
            Found::Superseded { key, revision } => (key, revision),
        };
        self.slots.push(match present.state.value(key, revision) {
            Some(entry) => Slot::Entry(entry.clone()),
            None => {
                let key = Bytes::copy_from_slice(key);
                Slot::Read(Stored { key, revision, place: present.index.place(revision) })
            }
        });
    }

    fn unread(&mut self) -> impl Iterator<Item = &mut Slot> {
        self.slots.iter_mut().filter(|it| matches!(it, Slot::Read(_)))
    }

    fn is_read(&self) -> bool {
        self.slots.iter().all(|it| matches!(it, Slot::Entry(_)))
    }
}

impl Core {
    pub(super) async fn range(
        self: &Arc<Self>,
        request: RangeRequest,
    ) -> Result<RangeResponse, Error> {
        let gathered = match request.at {
            Some(at) => Ok((self.gather(&request, at)?, at)),
            None => self.gather_latest(&request),
        };
        let filled = match gathered {
            Ok((mut gathered, at)) => {
                self.fill_cached(&mut gathered);
                if gathered.is_read() {
                    self.fill(gathered, at)
                } else {
                    let core = self.clone();
                    let read = tokio::task::spawn_blocking(move || core.fill(gathered, at));
                    read.await.unwrap_or(Err(Error::Closed))
                }
            }
            Err(error) => Err(error),
        };
        match filled {
            Err(Error::Compacted { .. }) if request.at.is_none() => {
                let core = self.clone();
                let read = tokio::task::spawn_blocking(move || core.range_kept(&request));
                read.await.unwrap_or(Err(Error::Closed))
            }
            filled => filled,
        }
    }

    /// For a reader of the latest revision that a compaction has overtaken: gathers in one step,
    /// and lets nothing be forgotten until it is read.
    pub(super) fn range_kept(&self, request: &RangeRequest) -> Result<RangeResponse, Error> {
        let _kept = self.keep();
        let mut gathered = Gathered::new(request);
        let present = self.present();
        let at = present.state.revision();
        let entries = present.state.entries(&request.range);
        entries.for_each(|(key, entry)| gathered.take(&present, Found::Current { key, entry }));
        drop(present);
        self.fill(gathered, at)
    }

    /// For the writer's transactions: reads the disk in this thread.
    pub(super) fn range_at(
        &self,
        request: &RangeRequest,
        at: Revision,
    ) -> Result<RangeResponse, Error> {
        self.fill(self.gather(request, at)?, at)
    }

    /// For the writer's transactions: reads what they need, in this thread.
    pub(super) fn read_values(&self, unread: Vec<Unread>, drafted: &mut Drafted) {
        let wanted: Vec<Stored> = {
            let present = self.present();
            let place = |it: Revision| present.index.place(it);
            let stored =
                |Unread { key, revision }: Unread| Stored { key, revision, place: place(revision) };
            unread.into_iter().map(stored).collect()
        };
        self.read_stored(&wanted, &mut |at, entry| {
            let Stored { key, revision, .. } = &wanted[at];
            let it = Unread { key: key.clone(), revision: *revision };
            drafted.note_read(it, entry.map(|it| it.value));
        });
    }

    /// Begins with the present; if the range is a long one, the rest is read as it was at that
    /// moment.
    fn gather_latest(&self, request: &RangeRequest) -> Result<(Gathered, Revision), Error> {
        let mut gathered = Gathered::new(request);
        let present = self.present();
        let at = present.state.revision();
        let mut entries = present.state.entries(&request.range);
        let step = entries.by_ref().take(STEP_KEYS);
        step.for_each(|(key, entry)| gathered.take(&present, Found::Current { key, entry }));
        let next = entries.next().map(|(key, _)| Bytes::copy_from_slice(key));
        drop(entries);
        drop(present);
        if let Some(start) = next {
            self.gather_from(
                &mut gathered,
                KeyRange { start, end: request.range.end.clone() },
                at,
            )?;
        }
        Ok((gathered, at))
    }

    fn gather(&self, request: &RangeRequest, at: Revision) -> Result<Gathered, Error> {
        let mut gathered = Gathered::new(request);
        self.gather_from(&mut gathered, request.range.clone(), at)?;
        Ok(gathered)
    }

    fn gather_from(
        &self,
        gathered: &mut Gathered,
        mut range: KeyRange,
        at: Revision,
    ) -> Result<(), Error> {
        loop {
            let present = self.present();
            self.hub.check_readable(at)?;
            let (state, limits) = (&present.state, (at, STEP_KEYS));
            let next = present.index.visit_at(state, &range, limits, |it| {
                gathered.take(&present, it);
            });
            match next {
                Some(next) => range.start = next,
                None => return Ok(()),
            }
        }
    }

    /// Reads a few values if that needs no waiting. What goes wrong is left to those who may wait.
    fn fill_cached(&self, gathered: &mut Gathered) {
        if gathered.unread().nth(CACHED_MAX).is_some() {
            return;
        }
        for slot in gathered.unread() {
            let Slot::Read(Stored { key, revision, place: Some(place) }) = slot else { return };
            let Some(frame) = self.log.frame_cached(*place) else { return };
            let Some(entry) = entry_in(&frame, key, *revision) else { return };
            *slot = Slot::Entry(entry);
        }
    }

    fn fill(&self, gathered: Gathered, at: Revision) -> Result<RangeResponse, Error> {
        let Gathered { slots, count, want, .. } = gathered;
        let mut entries = Vec::with_capacity(slots.len());
        let (mut wanted, mut places) = (Vec::new(), Vec::new());
        for slot in slots {
            entries.push(match slot {
                Slot::Entry(entry) => Some(entry),
                Slot::Read(stored) => {
                    places.push(entries.len());
                    wanted.push(stored);
                    None
                }
            });
        }
        let mut failed = None;
        self.read_stored(&wanted, &mut |n, read| match read {
            Ok(entry) => entries[places[n]] = Some(entry),
            Err(error) => failed = Some(error),
        });
        if let Some(error) = failed {
            // What a compaction took away since is no damage.
            return Err(self.hub.check_readable(at).err().unwrap_or(error));
        }
        let mut entries: Vec<KeyValue> = entries.into_iter().flatten().collect();
        if want == Want::Keys {
            entries.iter_mut().for_each(|it| it.value = Bytes::new());
        }
        let has_more = want != Want::Count && count > entries.len() as u64;
        Ok(RangeResponse { entries, has_more, count, revision: at })
    }

    /// Reads in the order in which it lies on disk, and tells for each, by its position, what it
    /// is.
    fn read_stored(&self, wanted: &[Stored], tell: &mut dyn FnMut(usize, Result<KeyValue, Error>)) {
        let mut order: Vec<usize> = (0..wanted.len()).collect();
        order.sort_by_key(|it| wanted[*it].place);
        let placed = order.iter().map(|it| (wanted[*it].place, *it));
        let placed: Vec<(Place, usize)> =
            placed.filter_map(|(place, it)| Some((place?, it))).collect();
        let mut moved: Vec<usize> = order[..order.len() - placed.len()].to_vec();
        let places: Vec<Place> = placed.iter().map(|it| it.0).collect();
        self.log.each(&places, &mut |n, frame| {
            let at = placed[n].1;
            let Stored { key, revision, .. } = &wanted[at];
            match frame.ok().and_then(|it| entry_in(it, key, *revision)) {
                Some(entry) => tell(at, Ok(entry)),
                None => moved.push(at),
            }
        });
        let mut reading = Reading::new(self);
        for at in moved {
            let Stored { key, revision, .. } = &wanted[at];
            let entry = reading.entry(key, *revision);
            tell(at, entry.and_then(|it| it.ok_or_else(|| missing(*revision))));
        }
    }

    /// As many commits as make a chunk.
    pub(super) fn commits(&self, wanted: &Wanted) -> Result<hub::Past, Error> {
        let revisions: Vec<Revision> = {
            let present = self.present();
            let commits = present.index.commits(wanted.from, wanted.through);
            commits.take(CHUNK_COMMITS).map(|(it, _)| it).collect()
        };
        let mut reading = Reading::new(self);
        let mut past = hub::Past { commits: Vec::new(), through: wanted.through };
        if revisions.len() == CHUNK_COMMITS
            && let Some(last) = revisions.last()
        {
            past.through = *last;
        }
        let (mut n_events, mut n_bytes) = (0, 0);
        for revision in revisions {
            let (commit, bytes) = reading.commit(revision, wanted)?;
            n_events += commit.events.len();
            n_bytes += bytes;
            past.commits.push(Arc::new(commit));
            if n_events >= CHUNK_EVENTS || n_bytes >= CHUNK_BYTES {
                past.through = revision;
                break;
            }
        }
        Ok(past)
    }
}

/// The history of a store for its watches.
pub(super) struct Past(pub(super) Arc<Core>);

impl History for Past {
    fn commits(self: Arc<Self>, wanted: Wanted) -> BoxFuture<'static, Result<hub::Past, Error>> {
        Box::pin(async move {
            let read = tokio::task::spawn_blocking(move || self.0.commits(&wanted));
            read.await.unwrap_or(Err(Error::Closed))
        })
    }
}

/// One look at the log, which remembers the transactions it read.
pub(super) struct Reading<'a> {
    core: &'a Core,
    bodies: BTreeMap<Revision, Bytes>,
    bytes: usize,
}

impl<'a> Reading<'a> {
    pub(super) fn new(core: &'a Core) -> Self {
        Self { core, bodies: BTreeMap::new(), bytes: 0 }
    }

    /// What `key` became at `revision`. `None` when no such commit is needed any more.
    fn entry(&mut self, key: &[u8], revision: Revision) -> Result<Option<KeyValue>, Error> {
        if let Some(entry) = self.core.present().state.value(key, revision) {
            return Ok(Some(entry.clone()));
        }
        let Some(body) = self.body(revision)? else { return Ok(None) };
        let commit = parse_commit(&body).ok_or_else(|| missing(revision))?;
        Ok(commit.events.iter().find(|it| it.key == key).and_then(|it| it.entry(revision)))
    }

    /// With the wanted events, and how many bytes it took.
    fn commit(&mut self, revision: Revision, wanted: &Wanted) -> Result<(Commit, usize), Error> {
        let body = self.body(revision)?.ok_or_else(|| missing(revision))?;
        let record = parse_commit(&body).ok_or_else(|| missing(revision))?;
        let mut events = Vec::new();
        for event in record.events.iter().filter(|it| wanted.range.contains(it.key)) {
            let previous = match event.previous.filter(|_| wanted.previous) {
                Some(revision) => self.entry(event.key, revision)?,
                None => None,
            };
            events.push(event.event(revision, previous));
        }
        let lacks_previous = !wanted.previous;
        Ok((Commit { revision, events, leases: record.leases, lacks_previous }, body.len()))
    }

    /// The body of the commit's frame, verified.
    fn body(&mut self, revision: Revision) -> Result<Option<Bytes>, Error> {
        if let Some(body) = self.bodies.get(&revision) {
            return Ok(Some(body.clone()));
        }
        let Some(body) = self.core.commit_body(revision)? else { return Ok(None) };
        if self.bytes + body.len() > CACHE_BYTES {
            self.bodies.clear();
            self.bytes = 0;
        }
        self.bytes += body.len();
        self.bodies.insert(revision, body.clone());
        Ok(Some(body))
    }
}

impl Core {
    pub(super) fn commit_body(&self, revision: Revision) -> Result<Option<Bytes>, Error> {
        let place = |core: &Self| core.present().index.place(revision);
        let Some(first) = place(self) else { return Ok(None) };
        if let Ok(frame) = self.log.frame(first)
            && is_commit(&frame, revision)
        {
            return Ok(Some(frame.body));
        }
        // The cleaner may have moved it, and again before we looked there. The writer moves nothing
        // while we look.
        let _still = self.places();
        for _ in 0..MOVES_MAX {
            let Some(place) = place(self) else { return Ok(None) };
            match self.log.frame(place) {
                Ok(frame) if is_commit(&frame, revision) => return Ok(Some(frame.body)),
                Ok(_) => break,
                Err(ReadError::Moved) => {}
                Err(error) => {
                    self.tell_damage(&error);
                    return Err(Error::Io { doing: "reading the log", source: Arc::new(error) });
                }
            }
        }
        Err(missing(revision))
    }
}

fn is_commit(frame: &Frame, revision: Revision) -> bool {
    frame.kind == Kind::Commit
        && parse_commit(&frame.body).is_some_and(|it| it.revision == revision)
}

/// What the key became in that commit, if the frame is it.
fn entry_in(frame: &Frame, key: &[u8], revision: Revision) -> Option<KeyValue> {
    let commit = parse_commit(&frame.body).filter(|_| frame.kind == Kind::Commit)?;
    let event = commit.events.iter().find(|it| it.key == key)?;
    event.entry(revision).filter(|_| commit.revision == revision)
}

fn missing(revision: Revision) -> Error {
    let missing =
        std::io::Error::other(format!("revision {} is not where it should be", revision.0));
    Error::Io { doing: "reading the log", source: Arc::new(missing) }
}
