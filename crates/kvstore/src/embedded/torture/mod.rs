//! Random work of the whole engine on a simulated disk, stopped at some operation: what is found
//! afterwards must be a state that the store had, with everything durable, its history as it was,
//! and no revision given twice.

mod inline;
mod model;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use stdx::{Random, SystemClock, World};
use tokio::sync::oneshot;

pub(crate) use self::inline::{Inline, Memory};
use self::model::{Keys, Model, Write};
use super::disk::Simulated;
use super::disk::simulated::{Chance, EIO, ENOSPC, Fault, Stop};
use super::writer::Command;
use super::{Options, Parts};
use crate::hub::Wanted;
use crate::{Error, KeyRange, LeaseId, Op, Put, PutLease, PutValue, RangeRequest, Revision, Txn};

pub use super::disk::simulated::{Failure, Point};

/// Steps of one work.
const STEPS: usize = 48;
const KEYS: usize = 5;

struct Work {
    disk: Simulated,
    parts: Parts,
    model: Model,
    chance: Chance,
    n_leases: i64,
    /// The operation that the machine stops at.
    crash_at: usize,
}

/// How many bytes of values are in memory: none, some, all.
fn value_bytes(at: Point) -> usize {
    [0, 2_000, 32 << 20][(at.work % 3) as usize]
}

/// Crashes at operations of one random work after the other, until there were so many crashes. At
/// one in six of each work: more works find more than more crashes of the same.
pub fn run(seed: u64, n_crashes: usize) -> Result<(), Failure> {
    let mut chance = Chance::new(seed);
    let mut done = 0;
    while done < n_crashes {
        let work = chance.next();
        let n_operations = replay(Point { work, operation: usize::MAX, crash: chance.next() })?;
        done += 1;
        for operation in 0..n_operations {
            if chance.one_in(6) {
                replay(Point { work, operation, crash: chance.next() })?;
                done += 1;
            }
        }
    }
    Ok(())
}

/// One crash. Returns how many operations there were until then.
pub fn replay(at: Point) -> Result<usize, Failure> {
    let failed = |why| Failure { at, why };
    let disk = Simulated::new(at.work);
    let mut chance = Chance::new(at.work);
    while chance.one_in(2) {
        // Something else fails on the way, too.
        disk.fault_at(4 + chance.below(120), some_fault(&mut chance));
    }
    disk.fault_at(at.operation, Fault::Crash);
    let Ok(parts) = open(&disk, value_bytes(at)) else {
        // The disk failed before there was anything.
        return Ok(disk.n_operations());
    };
    let (model, crash_at) = (Model::new(), at.operation);
    let mut work = Work { disk: disk.clone(), parts, model, chance, n_leases: 0, crash_at };
    match work.run() {
        Ok(()) | Err(Stop::Crashed) => {}
        Err(Stop::Broken(why)) => return Err(failed(why)),
    }
    let n_operations = disk.n_operations();
    let Work { parts, mut model, .. } = work;
    drop(parts);
    // Twice: what the first opening did must survive too.
    let once = disk.crash(at.crash);
    let (parts, revision) = reopen(&once, &model, value_bytes(at)).map_err(failed)?;
    settle(&mut model, &parts, revision);
    if at.crash.is_multiple_of(2) {
        parts.writer.close();
    } else {
        drop(parts);
    }
    let again = once.crash(at.crash.wrapping_add(1));
    let (parts, revision) = reopen(&again, &model, value_bytes(at)).map_err(failed)?;
    settle(&mut model, &parts, revision);
    go_on(again, parts, model).map_err(failed)?;
    Ok(n_operations)
}

/// More than a work lays out.
const FAULTS_MAX: usize = 200;

fn some_fault(chance: &mut Chance) -> Fault {
    match chance.below(4) {
        0 => Fault::Refuse(ENOSPC),
        1 => Fault::Partial(ENOSPC),
        2 => Fault::Partial(EIO),
        _ => Fault::Refuse(EIO),
    }
}

fn options(value_bytes: usize) -> Options {
    // Small segments, so that there are rotations and rewrites.
    let world = World { clock: Arc::new(SystemClock), random: Random::from_seed(7) };
    Options { segment_bytes: 1500, ring_commits: 2, value_bytes, world, ..Options::default() }
}

fn open(disk: &Simulated, value_bytes: usize) -> Result<Parts, super::open::Error> {
    Parts::open(Path::new(""), Arc::new(disk.clone()), &options(value_bytes))
}

/// Opens after a crash, and checks everything that can be read. Returns the revision of the last
/// write that is there.
fn reopen(
    disk: &Simulated,
    model: &Model,
    value_bytes: usize,
) -> Result<(Parts, Revision), String> {
    let parts = open(disk, value_bytes)
        .map_err(|error| format!("cannot open: {}", stdx::error_chain(&error)))?;
    let revision = check(&parts, model)?;
    Ok((parts, revision))
}

/// What was found is what there is, from now on.
fn settle(model: &mut Model, parts: &Parts, revision: Revision) {
    model.forget_after(revision);
    model.durable = revision;
    model.acknowledged = model.acknowledged.max(parts.core.revision());
    model.oldest = parts.core.hub.oldest();
    model.oldest_asked = model.oldest;
    model.leases = parts.core.present().state.leases().map(|(id, _)| id).collect();
    model.leases_maybe.clear();
}

/// A store that survived works: it takes a write with a new revision, and ends cleanly.
fn go_on(disk: Simulated, parts: Parts, model: Model) -> Result<(), String> {
    let chance = Chance::new(1);
    let mut work = Work { disk, parts, model, chance, n_leases: 1_000_000, crash_at: usize::MAX };
    let write = vec![Write::Put(b"after".to_vec(), b"crash".to_vec(), None)];
    match work.write(vec![(write, false)]).and_then(|()| work.clean()) {
        Ok(()) => {}
        Err(Stop::Broken(why)) => return Err(format!("after the crash: {why}")),
        Err(Stop::Crashed) => return Err("after the crash: the disk failed".to_owned()),
    }
    let Work { disk, parts, model, .. } = work;
    let Parts { core, writer, .. } = parts;
    let revision = core.revision();
    writer.close();
    let killed = disk.crash(1);
    let (parts, last) = reopen(&killed, &model, 0)?;
    if (parts.core.revision(), last) != (revision, model.last().0) {
        return Err(format!("after a clean end: {:?} {last:?}", parts.core.revision()));
    }
    Ok(())
}

impl Work {
    fn run(&mut self) -> Result<(), Stop> {
        for _ in 0..STEPS {
            match self.chance.below(16) {
                0..=8 => self.write_some()?,
                9 => self.write_unsynced()?,
                10 => self.lease()?,
                11 | 12 => self.compact()?,
                13 => self.clean()?,
                14 => self.reclaim()?,
                _ => self.parts.writer.sync(),
            }
            self.recover()?;
        }
        check(&self.parts, &self.model).map(drop).map_err(Stop::Broken)
    }

    fn has_crashed(&self) -> bool {
        self.disk.n_operations() > self.crash_at
    }

    fn write_some(&mut self) -> Result<(), Stop> {
        let n_txns = 1 + self.chance.below(3);
        let txns = (0..n_txns).map(|_| {
            let is_relaxed = self.chance.one_in(3);
            let n_writes = 1 + self.chance.below(3);
            let first = self.chance.below(KEYS);
            let writes = (0..n_writes).map(|n| self.some_write((first + n) % KEYS));
            (writes.collect(), is_relaxed)
        });
        let txns = txns.collect();
        self.write(txns)
    }

    /// A relaxed transaction, and a fault before it is synced.
    fn write_unsynced(&mut self) -> Result<(), Stop> {
        let key = self.chance.below(KEYS);
        let write = self.some_write(key);
        self.write(vec![(vec![write], true)])?;
        let next = self.disk.n_operations();
        if next != self.crash_at && self.chance.one_in(4) {
            self.disk.fault_at(next, some_fault(&mut self.chance));
        }
        Ok(())
    }

    fn some_write(&mut self, key: usize) -> Write {
        if self.chance.one_in(12) {
            // What lives long keeps its segment from being rewritten, with all that is needless in
            // it.
            let key = format!("long{key}-{}", self.chance.below(4)).into_bytes();
            return Write::Put(key, vec![b'l'; 500], None);
        }
        let key = format!("key{key}").into_bytes();
        if self.chance.one_in(3) {
            return Write::Delete(key);
        }
        let lease = self.model.leases.first().copied().filter(|_| self.chance.one_in(3));
        let lease = lease.filter(|it| !self.model.leases_maybe.contains(it));
        let size = [1, 40, 300][self.chance.below(3)];
        Write::Put(key, vec![b'a' + (self.chance.next() % 26) as u8; size], lease)
    }

    /// Transactions that share a batch.
    fn write(&mut self, txns: Vec<(Vec<Write>, bool)>) -> Result<(), Stop> {
        let mut commands = VecDeque::new();
        let mut answers = Vec::new();
        let mut revision = self.parts.core.revision();
        for (writes, is_relaxed) in txns {
            let written = self.model.write(revision, &writes);
            revision = written.unwrap_or(revision);
            let (reply, answer) = oneshot::channel();
            let txn = Txn::of(writes.into_iter().map(op).collect());
            let txn = if self.chance.one_in(2) { txn } else { txn.without_previous_values() };
            let txn = if is_relaxed { txn.relaxed() } else { txn };
            commands.push_back(Command::Txn(txn, reply.into()));
            answers.push((answer, revision, written.is_some() && !is_relaxed));
        }
        self.parts.writer.execute(commands);
        for (mut answer, revision, is_durable) in answers {
            match answer.try_recv() {
                Ok(Ok(response)) if response.revision == revision => {
                    self.model.acknowledged = self.model.acknowledged.max(revision);
                    if is_durable {
                        self.model.durable = self.model.durable.max(revision);
                    }
                }
                Ok(Err(Error::ReadOnly { .. })) => {}
                // What it overwrites cannot be read.
                Ok(Err(Error::Io { .. })) if self.has_crashed() => return Err(Stop::Crashed),
                other => return Err(Stop::Broken(format!("expected {revision:?}: {other:?}"))),
            }
        }
        Ok(())
    }

    fn lease(&mut self) -> Result<(), Stop> {
        if let Some(id) = self.model.leases.first().copied()
            && self.chance.one_in(2)
            && !self.model.leases_maybe.contains(&id)
        {
            return self.revoke(id);
        }
        self.n_leases += 1;
        let id = LeaseId::new(self.n_leases).expect("counted from 1");
        self.model.leases_maybe.insert(id);
        let (reply, mut answer) = oneshot::channel();
        let grant = Command::Grant(Some(id), Duration::from_secs(600), reply);
        self.parts.writer.execute(VecDeque::from([grant]));
        match answer.try_recv() {
            Ok(Ok(_)) => {
                self.model.leases_maybe.remove(&id);
                self.model.leases.insert(id);
                // What came before it is durable too.
                self.model.durable = self.model.durable.max(self.parts.core.revision());
                Ok(())
            }
            Ok(Err(Error::ReadOnly { .. })) => Ok(()),
            other => Err(Stop::Broken(format!("granting {id:?}: {other:?}"))),
        }
    }

    fn revoke(&mut self, id: LeaseId) -> Result<(), Stop> {
        let bound = self.model.last().1.values().filter(|it| it.lease == Some(id));
        let deletes: Vec<Write> = bound.map(|it| Write::Delete(it.key.to_vec())).collect();
        let before = self.parts.core.revision();
        let revision = self.model.write(before, &deletes).unwrap_or(before);
        self.model.leases_maybe.insert(id);
        let (reply, mut answer) = oneshot::channel();
        self.parts.writer.execute(VecDeque::from([Command::Revoke(id, Some(reply))]));
        match answer.try_recv() {
            Ok(Ok(found)) if found == revision => {
                self.model.leases_maybe.remove(&id);
                self.model.leases.remove(&id);
                self.model.acknowledged = self.model.acknowledged.max(revision);
                self.model.durable = self.model.durable.max(revision);
                Ok(())
            }
            Ok(Err(Error::ReadOnly { .. })) => Ok(()),
            other => Err(Stop::Broken(format!("revoking {id:?}: {other:?}"))),
        }
    }

    fn compact(&mut self) -> Result<(), Stop> {
        let (oldest, newest) = (self.parts.core.hub.oldest().0, self.parts.core.revision().0);
        let last = self.model.last().0.0.min(newest);
        let through = Revision(oldest + self.chance.next() % (last.saturating_sub(oldest) + 1));
        self.model.oldest_asked = self.model.oldest_asked.max(through);
        let (reply, mut answer) = oneshot::channel();
        self.parts.writer.execute(VecDeque::from([Command::Compact(through, reply)]));
        match answer.try_recv() {
            Ok(Ok(())) => {
                self.model.oldest = self.model.oldest.max(through);
                Ok(())
            }
            Ok(Err(Error::ReadOnly { .. })) => Ok(()),
            other => Err(Stop::Broken(format!("compacting {through:?}: {other:?}"))),
        }
    }

    fn clean(&mut self) -> Result<(), Stop> {
        self.parts.cleaner.clean();
        if self.has_crashed() { Err(Stop::Crashed) } else { Ok(()) }
    }

    fn reclaim(&mut self) -> Result<(), Stop> {
        let (reply, mut answer) = oneshot::channel();
        self.parts.writer.execute(VecDeque::from([Command::Reclaim(reply)]));
        self.parts.cleaner.reclaim();
        match answer.try_recv() {
            _ if self.has_crashed() => Err(Stop::Crashed),
            Ok(Ok(()) | Err(Error::ReadOnly { .. } | Error::Io { .. })) => Ok(()),
            other => Err(Stop::Broken(format!("reclaiming: {other:?}"))),
        }
    }

    /// Goes on if something failed, as the writer's thread would.
    fn recover(&mut self) -> Result<(), Stop> {
        // Each attempt may meet another of the faults that are laid out; there are not many.
        for _ in 0..FAULTS_MAX {
            if self.has_crashed() {
                return Err(Stop::Crashed);
            }
            if !self.parts.writer.is_failed() {
                return Ok(());
            }
            self.parts.writer.recover();
            if !self.parts.writer.is_failed() {
                // What was refused did not happen.
                let revision = self.parts.core.revision();
                self.model.forget_after(revision);
                self.model.leases_maybe.clear();
                self.model.oldest_asked = self.model.oldest;
                self.model.acknowledged = self.model.acknowledged.max(revision);
                self.model.durable = self.model.last().0;
            }
        }
        Err(Stop::Broken("the disk works again, and the store does not".to_owned()))
    }
}

fn op(write: Write) -> Op {
    match write {
        Write::Delete(key) => Op::delete(&key),
        Write::Put(key, value, lease) => Op::Put(Put {
            key: key.into(),
            value: PutValue::Bytes(value.into()),
            lease: lease.map_or(PutLease::None, PutLease::Bound),
        }),
    }
}

/// Checks everything that can be read. Returns the revision of the last write that is there.
fn check(parts: &Parts, model: &Model) -> Result<Revision, String> {
    let core = &parts.core;
    let (revision, oldest) = (core.revision(), core.hub.oldest());
    if revision < model.acknowledged {
        return Err(format!("{revision:?} is before {:?}", model.acknowledged));
    }
    if oldest < model.oldest || oldest > model.oldest_asked {
        return Err(format!("the oldest is {oldest:?}, and {:?} was asked", model.oldest_asked));
    }
    let present = range(parts, None)?;
    // The record of the last write is dropped when it was a deletion that history does not reach.
    let committed = core.present().index.last().unwrap_or(Revision::EMPTY);
    let last = committed.max(oldest);
    if last < model.durable {
        return Err(format!("lost {:?} and all after {last:?}", model.durable));
    }
    if model.at(last) != Some(&present) {
        return Err(format!("revision {last:?} is {present:?}, not {:?}", model.at(last)));
    }
    check_history(parts, model, oldest, last)?;
    let leases: Vec<LeaseId> = core.present().state.leases().map(|(id, _)| id).collect();
    let is_known = |id: &LeaseId| model.leases.contains(id) || model.leases_maybe.contains(id);
    let is_kept = |id: &LeaseId| leases.contains(id) || model.leases_maybe.contains(id);
    if !leases.iter().all(is_known) || !model.leases.iter().all(is_kept) {
        return Err(format!("leases {leases:?} instead of {:?}", model.leases));
    }
    Ok(last)
}

/// Every revision that can be read is what it was, and the events lead from one to the next.
fn check_history(
    parts: &Parts,
    model: &Model,
    oldest: Revision,
    last: Revision,
) -> Result<(), String> {
    for at in model.states.range(oldest..=last).map(|(at, _)| *at).chain([oldest]) {
        let found = range(parts, Some(at))?;
        if Some(&found) != model.at(at) {
            return Err(format!("{at:?} is {found:?}, not {:?}", model.at(at)));
        }
    }
    let range = KeyRange::prefix(b"");
    let mut keys = model.at(oldest).cloned().unwrap_or_default();
    let mut from = oldest.next();
    while from <= last {
        let wanted = Wanted { range: range.clone(), from, through: last, previous: true };
        let past = parts.core.commits(&wanted).map_err(|it| stdx::error_chain(&it))?;
        for commit in &past.commits {
            for event in &commit.events {
                let before = match &event.value {
                    Some(entry) => keys.insert(event.key.to_vec(), entry.clone()),
                    None => keys.remove(event.key.as_ref()),
                };
                if before != event.previous {
                    return Err(format!("{event:?} is after {before:?}"));
                }
            }
            if model.states.get(&commit.revision) != Some(&keys) {
                return Err(format!("the events of {:?} lead to {keys:?}", commit.revision));
            }
        }
        from = past.through.next();
    }
    Ok(())
}

fn range(parts: &Parts, at: Option<Revision>) -> Result<Keys, String> {
    let request = RangeRequest { at, ..RangeRequest::latest(KeyRange::prefix(b"")) };
    let response = match at {
        None => parts.core.range_kept(&request),
        Some(at) => parts.core.range_at(&request, at),
    };
    let response = response.map_err(|error| stdx::error_chain(&error))?;
    Ok(response.entries.into_iter().map(|it| (it.key.to_vec(), it)).collect())
}
