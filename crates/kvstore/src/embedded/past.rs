//! Reading the past from the log: ranges at old revisions, and commits for watches that are behind the ring. Only verified
//! frames are served, and no lock is held while the disk is read.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;

use super::core::Core;
use super::index::Found;
use super::log::{Kind, Place, ReadError};
use super::record::parse_commit;
use crate::hub::{self, History, Wanted};
use crate::state::Commit;
use crate::{Error, KeyRange, KeyValue, RangeRequest, RangeResponse, Revision, Want};

/// One read of history returns about this much at most.
const CHUNK_EVENTS: usize = 1024;
const CHUNK_COMMITS: usize = 4096;
const CHUNK_BYTES: usize = 4 << 20;
/// Bodies that one read keeps, because a transaction often has several of the keys that it looks for.
const CACHE_BYTES: usize = 16 << 20;

/// Keys that are looked at before others, writers above all, get their turn.
const STEP_KEYS: usize = 2048;

/// The answer to a range request, some of it not read yet.
struct Gathered {
    slots: Vec<Slot>,
    count: u64,
    limit: usize,
    want: Want,
}

enum Slot {
    Entry(KeyValue),
    /// The commit of this revision has it.
    Read {
        key: Bytes,
        revision: Revision,
    },
}

impl Gathered {
    fn new(request: &RangeRequest) -> Self {
        let limit = if request.limit == 0 { usize::MAX } else { request.limit };
        Self { slots: Vec::new(), count: 0, limit, want: request.want }
    }

    fn take(&mut self, found: Found<'_>) {
        self.count += 1;
        if self.slots.len() < self.limit && self.want != Want::Count {
            self.slots.push(match found {
                Found::Current(entry) => Slot::Entry(entry.clone()),
                Found::Superseded { key, revision } => Slot::Read { key: key.clone(), revision },
            });
        }
    }
}

impl Core {
    pub(super) async fn range(
        self: &Arc<Self>,
        request: RangeRequest,
    ) -> Result<RangeResponse, Error> {
        let (gathered, at) = match request.at {
            Some(at) => (self.gather(&request, at)?, at),
            None => match self.gather_latest(&request) {
                Ok(gathered) => gathered,
                // Compacted away meanwhile: then in one step.
                Err(_) => return Ok(self.present().state.range(&request)),
            },
        };
        if gathered.slots.iter().all(|it| matches!(it, Slot::Entry(_))) {
            return self.fill(gathered, at);
        }
        let core = self.clone();
        let read = tokio::task::spawn_blocking(move || core.fill(gathered, at));
        read.await.unwrap_or(Err(Error::Closed))
    }

    /// For the writer's transactions: reads the disk in this thread.
    pub(super) fn range_at(
        &self,
        request: &RangeRequest,
        at: Revision,
    ) -> Result<RangeResponse, Error> {
        self.fill(self.gather(request, at)?, at)
    }

    /// Begins with the present; if the range is a long one, the rest is read as it was at that moment.
    fn gather_latest(&self, request: &RangeRequest) -> Result<(Gathered, Revision), Error> {
        let mut gathered = Gathered::new(request);
        let present = self.present();
        let at = present.state.revision();
        if let Some(key) = request.range.single() {
            present.state.get(key).into_iter().for_each(|it| gathered.take(Found::Current(it)));
            return Ok((gathered, at));
        }
        let mut entries = present.state.entries(&request.range);
        entries.by_ref().take(STEP_KEYS).for_each(|it| gathered.take(Found::Current(it)));
        let next = entries.next().map(|it| it.key.clone());
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
            match present.index.visit_at(state, &range, limits, |it| gathered.take(it)) {
                Some(next) => range.start = next,
                None => return Ok(()),
            }
        }
    }

    fn fill(&self, gathered: Gathered, at: Revision) -> Result<RangeResponse, Error> {
        let Gathered { slots, count, want, .. } = gathered;
        let mut reading = Reading::new(self);
        let mut entries = Vec::with_capacity(slots.len());
        for slot in slots {
            let mut entry = match slot {
                Slot::Entry(entry) => entry,
                Slot::Read { key, revision } => {
                    let read = reading.entry(&key, revision);
                    let read = read.and_then(|it| it.ok_or_else(|| missing(revision)));
                    // What a compaction took away since is no damage.
                    read.map_err(|error| self.hub.check_readable(at).err().unwrap_or(error))?
                }
            };
            if want == Want::Keys {
                entry.value = Bytes::new();
            }
            entries.push(entry);
        }
        let has_more = want != Want::Count && count > entries.len() as u64;
        Ok(RangeResponse { entries, has_more, count, revision: at })
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
        Ok((Commit { revision, events, leases: record.leases }, body.len()))
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
        if let Ok(body) = self.read_commit(first, revision) {
            return Ok(Some(body));
        }
        // The cleaner may have moved it. It is not at work while we look again.
        let _still = self.places();
        match place(self) {
            Some(place) => self.read_commit(place, revision).map(Some),
            None => Ok(None),
        }
    }

    fn read_commit(&self, place: Place, revision: Revision) -> Result<Bytes, Error> {
        let frame = self.log.frame(place).map_err(unreadable)?;
        let is_it = frame.kind == Kind::Commit
            && parse_commit(&frame.body).is_some_and(|it| it.revision == revision);
        if is_it { Ok(frame.body) } else { Err(missing(revision)) }
    }
}

fn unreadable(error: ReadError) -> Error {
    Error::Io { doing: "reading history", source: Arc::new(error) }
}

fn missing(revision: Revision) -> Error {
    let missing =
        std::io::Error::other(format!("revision {} is not where it should be", revision.0));
    Error::Io { doing: "reading history", source: Arc::new(missing) }
}
