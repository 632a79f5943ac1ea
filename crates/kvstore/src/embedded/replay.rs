//! What the frames of a log, visited in order, make of an empty store. Pure.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::core::Present;
use super::index::Index;
use super::log::{Frame, Kind};
use super::record::{Checkpoint, CommitRecord, HistoryHash, parse_commit, parse_revision};
use crate::state::{Commit, Keys, LeaseChange, Recent, State, put};
use crate::{LeaseId, Revision};

pub(super) struct Replay {
    keys: Keys,
    /// The bodies of the last commits, whose values stay in memory: slices of their segments until
    /// the end.
    recent: VecDeque<Bytes>,
    recent_bytes: usize,
    value_bytes: usize,
    index: Index,
    leases: BTreeMap<LeaseId, Duration>,
    revision: Revision,
    /// Of the last commit with events.
    committed: Revision,
    oldest: Revision,
    /// The last one counts: a clean end lowers it to what was really given out.
    ceiling: Revision,
    hash: HistoryHash,
}

/// The store as the log has it.
pub(super) struct Replayed {
    pub(super) present: Present,
    pub(super) oldest: Revision,
    pub(super) ceiling: Revision,
}

impl Replay {
    /// So many bytes of values stay in memory, the last ones.
    pub(super) fn new(value_bytes: usize) -> Self {
        Self {
            keys: Keys::new(),
            recent: VecDeque::new(),
            recent_bytes: 0,
            value_bytes,
            index: Index::default(),
            leases: BTreeMap::new(),
            revision: Revision::EMPTY,
            committed: Revision::EMPTY,
            oldest: Revision::EMPTY,
            ceiling: Revision::EMPTY,
            hash: HistoryHash::default(),
        }
    }

    /// The last revision seen.
    pub(super) fn revision(&self) -> Revision {
        self.revision
    }

    /// Fails with what cannot be understood.
    pub(super) fn visit(&mut self, frame: &Frame) -> Result<(), String> {
        let unreadable = |what: &str| format!("{what} is unreadable");
        match frame.kind {
            Kind::Checkpoint => {
                let checkpoint = Checkpoint::parse(&frame.body);
                self.checkpoint(checkpoint.ok_or_else(|| unreadable("a checkpoint"))?);
            }
            Kind::Commit => {
                let commit = parse_commit(&frame.body);
                self.commit(frame, &commit.ok_or_else(|| unreadable("a transaction"))?);
            }
            Kind::Compacted => {
                let oldest = parse_revision(&frame.body);
                self.oldest = self.oldest.max(oldest.ok_or_else(|| unreadable("a compaction"))?);
            }
            Kind::Ceiling => {
                let ceiling = parse_revision(&frame.body);
                self.ceiling = ceiling.ok_or_else(|| unreadable("a ceiling"))?;
            }
            Kind::Closed | Kind::Joined | Kind::Sealed => {}
        }
        Ok(())
    }

    fn checkpoint(&mut self, checkpoint: Checkpoint) {
        self.revision = self.revision.max(checkpoint.revision);
        self.oldest = self.oldest.max(checkpoint.oldest);
        self.ceiling = checkpoint.ceiling;
        self.hash = checkpoint.hash;
        self.leases = checkpoint.leases.into_iter().collect();
    }

    fn commit(&mut self, frame: &Frame, commit: &CommitRecord<'_>) {
        self.change_leases(&commit.leases);
        self.hash = commit.hash;
        // After a failed sync a commit can be in the log twice: the first one counts.
        if commit.events.is_empty() || commit.revision <= self.committed {
            return;
        }
        self.committed = commit.revision;
        self.revision = self.revision.max(commit.revision);
        for event in &commit.events {
            let before = match event.stored(commit.revision) {
                Some(entry) => put(&mut self.keys, event.key, entry),
                None => self.keys.remove(event.key),
            };
            self.index.note_event(commit.revision, event, before.as_ref());
        }
        let size = (frame.body.len(), commit.events.len());
        self.index.note_commit(commit.revision, frame.place, size, commit.time);
        self.note_recent(&frame.body);
    }

    fn note_recent(&mut self, body: &Bytes) {
        self.recent_bytes += body.len();
        self.recent.push_back(body.clone());
        while self.recent_bytes > self.value_bytes
            && let Some(oldest) = self.recent.pop_front()
        {
            self.recent_bytes -= oldest.len();
        }
    }

    fn change_leases(&mut self, changes: &[LeaseChange]) {
        for change in changes {
            match *change {
                LeaseChange::Granted { id, ttl } => drop(self.leases.insert(id, ttl)),
                LeaseChange::Revoked { id } => drop(self.leases.remove(&id)),
            }
        }
    }

    /// After a crash, relaxed transactions up to the ceiling may be missing: their revisions are
    /// not given again.
    pub(super) fn finish(mut self) -> Replayed {
        let revision = self.revision.max(self.oldest).max(self.ceiling);
        self.index.forget_marks(self.oldest);
        let mut recent = Recent::new(self.value_bytes);
        for commit in self.recent.iter().filter_map(|it| parse_commit(it)) {
            let events = commit.events.iter().map(|it| it.event(commit.revision, None)).collect();
            let (revision, leases) = (commit.revision, Vec::new());
            recent.push(Arc::new(Commit { revision, events, leases, lacks_previous: true }));
        }
        recent.trim(None);
        let state = State::restored(self.keys, self.leases, revision, recent);
        let present = Present { state, index: self.index, hash: self.hash };
        Replayed { present, oldest: self.oldest, ceiling: revision }
    }
}
