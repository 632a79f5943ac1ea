//! Who sits here writes: the writer's own thread, or a caller who is alone. A transaction that
//! nobody else's could share a sync with gains nothing from another thread, and going there and
//! back costs more than all the rest of it.
//!
//! Such a caller waits for the disk in a worker of its runtime, which may be the one that was to
//! look after the timers and connections of that runtime while the others sleep. So it sits down
//! only while the writer's thread looks on, which calls another worker when a write takes long.

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::time::Instant;

use super::reply::Outcome;
use super::{Command, Writer};
use crate::embedded::own::own;
use crate::{Durability, Op, Txn};

/// How often the writer's thread looks while others sit here. Connections may be held up for as
/// long by a disk that hangs.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// So many commands must have come one by one, none later than a look after the one before, and
/// have been carried out quickly.
const STREAK: u32 = 8;
/// With a slower disk a caller's worker would wait too long, and the way to another thread and back
/// is nothing beside it.
const QUICK: Duration = Duration::from_millis(1);
/// What can take long is left to the writer's thread.
const OPS_MAX: usize = 8;

pub(in crate::embedded) struct Seat {
    place: Mutex<Place>,
    /// The runtime of the caller who sits here, or sat here last.
    runtime: Mutex<Option<Handle>>,
}

struct Place {
    /// `None` when the store is closed.
    writer: Option<Writer>,
    /// The writer's thread comes by every now and then: callers may sit down.
    is_watched: bool,
    /// A caller was sent away because it is not.
    is_wanted: bool,
    /// Somebody sat here since the writer's thread came by.
    was_used: bool,
    streak: Streak,
}

/// Commands that came to the writer's thread one by one.
#[derive(Default)]
struct Streak {
    n_commands: u32,
    last: Option<Instant>,
}

impl Seat {
    pub(in crate::embedded) fn new(writer: Writer) -> Self {
        let (writer, streak) = (Some(writer), Streak::default());
        let place = Place { writer, is_watched: false, is_wanted: false, was_used: false, streak };
        Self { place: Mutex::new(place), runtime: Mutex::new(None) }
    }

    /// Carries it out in this thread, if it is alone and small; else it is given back.
    pub(in crate::embedded) fn txn_here(&self, mut txn: Txn) -> Result<Outcome, Txn> {
        if !is_small(&txn) {
            return Err(txn);
        }
        let Ok(mut place) = self.place.try_lock() else { return Err(txn) };
        if !place.is_watched {
            place.is_wanted = true;
            return Err(txn);
        }
        let Some(runtime) = runtime_with_others() else { return Err(txn) };
        let Some(writer) = &mut place.writer else { return Err(txn) };
        *self.runtime.lock().unwrap_or_else(PoisonError::into_inner) = Some(runtime);
        own(&mut txn);
        let started = Instant::now();
        let outcome = writer.carry_out(|reply| Command::Txn(txn, reply.into()));
        place.was_used = true;
        if started.elapsed() > QUICK {
            (place.is_watched, place.streak) = (false, Streak::default());
        }
        Ok(outcome)
    }

    /// When the writer's thread is to come by again, if no command comes before.
    pub(super) fn look(&self) -> Option<Instant> {
        let Some(mut place) = self.try_sit() else {
            self.call_another();
            return Some(Instant::now() + LOOK_EVERY);
        };
        let goes_on = place.was_used || place.is_wanted;
        place.is_watched = goes_on && place.streak.n_commands >= STREAK;
        (place.was_used, place.is_wanted) = (false, false);
        let next = place.is_watched.then(|| Instant::now() + LOOK_EVERY);
        let due = place.writer.as_ref().and_then(Writer::wake_at);
        [due, next].into_iter().flatten().min()
    }

    /// For the writer's thread: with commands, as soon as nobody else sits here; without, if nobody
    /// does.
    pub(super) fn write<T>(
        &self,
        n_commands: usize,
        work: impl FnOnce(&mut Writer) -> T,
    ) -> Option<T> {
        let mut place = match self.try_sit() {
            Some(place) => place,
            None if n_commands == 0 => return None,
            None => {
                self.call_another();
                let mut place = self.place.lock().expect("a caller's write did not panic");
                place.streak = Streak::default();
                place
            }
        };
        let started = Instant::now();
        let done = place.writer.as_mut().map(work);
        if n_commands > 0 {
            place.streak.note(n_commands, started);
        }
        done
    }

    /// Nobody sits here any more.
    pub(super) fn clear(&self) -> Option<Writer> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner).writer.take()
    }

    fn try_sit(&self) -> Option<MutexGuard<'_, Place>> {
        match self.place.try_lock() {
            Ok(place) => Some(place),
            Err(TryLockError::WouldBlock) => None,
            Err(TryLockError::Poisoned(_)) => panic!("a caller's write panicked"),
        }
    }

    /// Has another worker of the caller's runtime wake up, which then looks after everything that
    /// the caller's cannot.
    fn call_another(&self) {
        if let Some(runtime) = &*self.runtime.lock().unwrap_or_else(PoisonError::into_inner) {
            runtime.spawn(async {});
        }
    }
}

impl Streak {
    fn note(&mut self, n_commands: usize, started: Instant) {
        let goes_on = n_commands == 1
            && started.elapsed() < QUICK
            && self.last.is_some_and(|it| started.duration_since(it) < LOOK_EVERY);
        self.n_commands = if goes_on { self.n_commands.saturating_add(1) } else { 0 };
        self.last = Some(started);
    }
}

fn is_small(txn: &Txn) -> bool {
    let mut ops = txn.then.iter().chain(&txn.otherwise);
    txn.durability == Durability::Durable
        && txn.compares.len() + txn.then.len() + txn.otherwise.len() <= OPS_MAX
        && txn.compares.iter().all(|it| it.keys.single().is_some())
        && ops.all(|it| match it {
            Op::Put(_) => true,
            Op::Delete(range) => range.single().is_some(),
            Op::Range(request) => request.at.is_none() && request.range.single().is_some(),
            Op::Txn(_) => false,
        })
}

/// The caller's runtime, if other workers can go on while one of them waits.
fn runtime_with_others() -> Option<Handle> {
    let runtime = Handle::try_current().ok()?;
    let has_others = runtime.runtime_flavor() == RuntimeFlavor::MultiThread
        && runtime.metrics().num_workers() > 1;
    has_others.then_some(runtime)
}
