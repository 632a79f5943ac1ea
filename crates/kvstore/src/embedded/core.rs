//! What readers, the writer and the cleaner share: the present, the index of the past, the watches,
//! and how the store is.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use stdx::error_chain;
use tokio::sync::watch;
use tokio::time::Instant;

use super::index::Index;
use super::log::{Place, Reader};
use super::record::{EventRecord, HistoryHash, WallTime};
use super::writer::Reply;
use crate::deadlines::Deadlines;
use crate::hub::Hub;
use crate::state::{Commit, LeaseChange, State};
use crate::{Revision, Status};

pub(super) struct Core {
    /// Changed by the writer's publishing and by the cleaner, never while anybody waits for the
    /// disk. Locked before the hub.
    present: RwLock<Present>,
    pub(super) hub: Arc<Hub>,
    pub(super) log: Reader,
    /// Held while commits move in the log: who found a commit gone from its place looks again under
    /// this lock. Locked before `present`.
    places: Mutex<()>,
    /// Held while the index must not forget, or forgets. Locked before `present`.
    keep: Mutex<()>,
    /// When the leases end. Locked after `present`.
    deadlines: Mutex<Deadlines>,
    /// Who waits for the cleaner to give space back; the writer adds them. Locked before nothing
    /// else.
    reclaims: Mutex<Vec<Reply<()>>>,
    /// Locked before nothing else.
    conditions: Mutex<Conditions>,
    /// The same in words.
    condition: watch::Sender<Option<String>>,
}

pub(super) struct Present {
    pub(super) state: State,
    pub(super) index: Index,
    pub(super) hash: HistoryHash,
}

/// What is wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Conditions {
    read_only: Option<String>,
    damage: Vec<String>,
}

/// A commit that is in the log.
pub(super) struct Written {
    pub(super) commit: Arc<Commit>,
    pub(super) place: Place,
    /// Of the frame's body.
    pub(super) bytes: usize,
    /// With it.
    pub(super) hash: HistoryHash,
}

impl Core {
    pub(super) fn new(present: Present, hub: Hub, log: Reader) -> Self {
        let (mut deadlines, now) = (Deadlines::default(), Instant::now());
        for (id, lease) in present.state.leases() {
            deadlines.grant(id, lease.ttl, now);
        }
        Self {
            present: RwLock::new(present),
            hub: Arc::new(hub),
            log,
            places: Mutex::new(()),
            keep: Mutex::new(()),
            deadlines: Mutex::new(deadlines),
            reclaims: Mutex::default(),
            conditions: Mutex::default(),
            condition: watch::Sender::new(None),
        }
    }

    pub(super) fn present(&self) -> RwLockReadGuard<'_, Present> {
        self.present.read().expect("no code panics while it holds the present")
    }

    pub(super) fn present_mut(&self) -> RwLockWriteGuard<'_, Present> {
        self.present.write().expect("no code panics while it holds the present")
    }

    /// No commit changes its place while this is held.
    pub(super) fn places(&self) -> MutexGuard<'_, ()> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing is forgotten by the index while this is held.
    pub(super) fn keep(&self) -> MutexGuard<'_, ()> {
        self.keep.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn deadlines(&self) -> MutexGuard<'_, Deadlines> {
        self.deadlines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn reclaims(&self) -> MutexGuard<'_, Vec<Reply<()>>> {
        self.reclaims.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn revision(&self) -> Revision {
        self.present().state.revision()
    }

    /// Makes commits that are in the log visible to ranges and watches at one moment. From
    /// `unsynced` on their values stay in memory: if the sync fails, the log no longer has them.
    pub(super) fn publish(&self, written: &[Written], time: WallTime, unsynced: Option<Revision>) {
        let mut present = self.present_mut();
        let mut with_events = Vec::with_capacity(written.len());
        for it in written {
            present.note(it, time);
            self.note_leases(&it.commit.leases);
            if !it.commit.events.is_empty() {
                with_events.push(it.commit.clone());
            }
        }
        present.state.trim(unsynced);
        self.hub.publish(&with_events);
    }

    fn note_leases(&self, changes: &[LeaseChange]) {
        if changes.is_empty() {
            return;
        }
        let (mut deadlines, now) = (self.deadlines(), Instant::now());
        for change in changes {
            match *change {
                LeaseChange::Granted { id, ttl } => deadlines.grant(id, ttl, now),
                LeaseChange::Revoked { id } => deadlines.revoke(id),
            }
        }
    }

    pub(super) fn condition(&self) -> watch::Receiver<Option<String>> {
        self.condition.subscribe()
    }

    pub(super) fn set_read_only(&self, why: Option<String>) {
        self.change_conditions(|it| it.read_only = why);
    }

    /// Makes damage known: it is never served, but whoever keeps the store should know.
    pub(super) fn tell_damage(&self, damage: &(dyn std::error::Error + 'static)) {
        let damage = error_chain(damage);
        let is_new = self.change_conditions(|it| {
            if !it.damage.contains(&damage) {
                it.damage.push(damage.clone());
            }
        });
        if is_new {
            tracing::error!(%damage, "the store is damaged");
        }
    }

    /// All was verified, and this is all that is wrong: what was known before is gone, because its
    /// segment was rewritten or forgotten.
    pub(super) fn set_damage(&self, damage: Vec<String>) {
        self.change_conditions(|it| it.damage = damage);
    }

    fn change_conditions(&self, change: impl FnOnce(&mut Conditions)) -> bool {
        let mut conditions = self.conditions.lock().unwrap_or_else(PoisonError::into_inner);
        let before = conditions.clone();
        change(&mut conditions);
        let is_new = *conditions != before;
        if is_new {
            self.condition.send_replace(conditions.text());
        }
        is_new
    }

    fn read_only(&self) -> Option<String> {
        let conditions = self.conditions.lock().unwrap_or_else(PoisonError::into_inner);
        conditions.read_only.clone()
    }

    pub(super) fn status(&self) -> Status {
        let present = self.present();
        Status {
            revision: present.state.revision(),
            oldest: self.hub.oldest(),
            n_keys: present.state.n_keys() as u64,
            bytes: self.log.segments().iter().map(|it| u64::from(it.bytes)).sum(),
            bytes_current: present.index.bytes_current(),
            hash: Some(present.hash.0),
            read_only: self.read_only(),
        }
    }
}

impl Present {
    /// Applies one commit to the state, and the index notes where it is.
    fn note(&mut self, written: &Written, time: WallTime) {
        let Written { commit, place, bytes, hash } = written;
        self.hash = *hash;
        let Self { state, index, .. } = self;
        state.apply(commit, |event, before| {
            index.note_event(commit.revision, &EventRecord::of(event), before);
        });
        if !commit.events.is_empty() {
            index.note_commit(commit.revision, *place, (*bytes, commit.events.len()), time);
        }
    }
}

impl Conditions {
    fn text(&self) -> Option<String> {
        let damage = (!self.damage.is_empty())
            .then(|| format!("the store is damaged: {}", self.damage.join(", ")));
        match (&self.read_only, damage) {
            (Some(one), Some(other)) => Some(format!("{one}; {other}")),
            (one, other) => one.clone().or(other),
        }
    }
}
