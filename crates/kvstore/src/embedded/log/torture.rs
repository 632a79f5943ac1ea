//! Random work on a simulated disk, stopped at every operation in turn: what is found afterwards
//! must be a prefix of what was appended, with everything that was synced. For the test suite, and
//! with more rounds for the torture.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;

use super::{Kind, Log, OpenError, Options};
use crate::embedded::disk::Simulated;
use crate::embedded::disk::simulated::{Chance, EIO, ENOSPC, Fault, Stop};

pub use crate::embedded::disk::simulated::{Failure, Point};

/// What there should be.
#[derive(Clone, Default)]
struct Model {
    /// Every record's number, in order.
    appended: Vec<u64>,
    /// How many of them must be there.
    n_synced: usize,
    /// What there is instead if a recovery under way was completed.
    recovered: Option<Vec<u64>>,
    /// What a rewrite dropped, and what one under way would drop.
    dropped: BTreeSet<u64>,
    dropping: BTreeSet<u64>,
    next: u64,
}

struct Work {
    disk: Simulated,
    log: Option<Log>,
    model: Model,
    chance: Chance,
}

/// Crashes at every operation of one random work after the other, until there were so many crashes.
pub fn run(seed: u64, n_crashes: usize) -> Result<(), Failure> {
    let mut chance = Chance::new(seed);
    let mut done = 0;
    while done < n_crashes {
        let work = chance.next();
        let last = Point { work, operation: usize::MAX, crash: chance.next() };
        let n_operations = replay(last)?;
        for operation in 0..n_operations {
            replay(Point { work, operation, crash: chance.next() })?;
        }
        done += n_operations + 1;
    }
    Ok(())
}

/// One crash. Returns how many operations there were until then.
pub fn replay(at: Point) -> Result<usize, Failure> {
    let failed = |why| Failure { at, why };
    let disk = Simulated::new(at.work);
    disk.fault_at(at.operation, Fault::Crash);
    let mut chance = Chance::new(at.work);
    if chance.one_in(3) {
        // Something else fails on the way, too.
        let fault = if chance.one_in(2) { Fault::Refuse(EIO) } else { Fault::Partial(ENOSPC) };
        let operation = chance.below(120);
        if operation != at.operation {
            disk.fault_at(operation, fault);
        }
    }
    let mut work = Work { disk: disk.clone(), log: None, model: Model::default(), chance };
    match work.run() {
        Ok(()) | Err(Stop::Crashed) => {}
        Err(Stop::Broken(why)) => return Err(failed(why)),
    }
    let n_operations = disk.n_operations();
    let mut chance = Chance::new(at.crash);
    // Now and then only the process ends, and what it wrote is in the cache.
    let seed = chance.next();
    let after = if chance.one_in(5) { disk.kill(seed) } else { disk.crash(seed) };
    survive(after, &work.model, &mut chance).map_err(failed)?;
    Ok(n_operations)
}

/// Opens what a crash left, maybe crashing again meanwhile, and goes on with it.
fn survive(mut disk: Simulated, model: &Model, chance: &mut Chance) -> Result<(), String> {
    while chance.one_in(3) {
        disk.fault_at(chance.below(6), Fault::Crash);
        // It may have come to its end before.
        let _ = open(&disk);
        disk = disk.crash(chance.next());
    }
    let (mut log, found) = open(&disk).map_err(|err| format!("cannot open: {err}"))?;
    model.check(&found)?;
    let mut expected = found;
    for _ in 0..3 {
        let number = model.next + expected.len() as u64 + 1_000_000;
        let body = body(number);
        let work = if log.is_empty() || chance.one_in(3) {
            log.rotate(&body)
        } else {
            log.append(&[(Kind::Commit, &body)]).and_then(|_| log.sync())
        };
        work.map_err(|err| format!("cannot go on: {err}"))?;
        expected.push(number);
    }
    drop(log);
    let disk = disk.crash(chance.next());
    let (log, found) = open(&disk).map_err(|err| format!("cannot open again: {err}"))?;
    if found != expected {
        return Err(format!("found {found:?} the second time instead of {expected:?}"));
    }
    check_reader(&log, &expected)
}

/// The numbers of the records that are found; their content is checked.
fn open(disk: &Simulated) -> Result<(Log, Vec<u64>), OpenError> {
    let options = Options { segment_bytes: 4096, threads: 1, salt: 0x5a17 };
    let mut found = Vec::new();
    let log = Log::open(Arc::new(disk.clone()), &options, &mut |frame| {
        found.push(parse(&frame.body)?);
        Ok(())
    })?;
    Ok((log, found))
}

fn check_reader(log: &Log, expected: &[u64]) -> Result<(), String> {
    let reader = log.reader();
    let mut found = Vec::new();
    for frame in reader.all() {
        let frame = frame.map_err(|err| err.to_string())?;
        let alone = reader.frame(frame.place).map_err(|err| err.to_string())?;
        if alone.check != frame.check {
            return Err("a frame alone differs from the same in a walk".to_owned());
        }
        found.push(parse(&frame.body)?);
    }
    for segment in reader.segments() {
        reader.verify(segment.id).map_err(|err| err.to_string())?;
    }
    if found == expected {
        return Ok(());
    }
    Err(format!("readers find {found:?} instead of {expected:?}"))
}

impl Work {
    fn run(&mut self) -> Result<(), Stop> {
        let (log, _) = self.open()?;
        self.log = Some(log);
        let n_steps = 10 + self.chance.below(30);
        for _ in 0..n_steps {
            self.step()?;
        }
        Ok(())
    }

    fn step(&mut self) -> Result<(), Stop> {
        let log = self.log.as_ref().ok_or(Stop::Crashed)?;
        if log.is_failed() {
            return self.recover();
        }
        if log.is_empty() {
            return self.rotate();
        }
        match self.chance.below(16) {
            0..7 => self.append(),
            7..12 => self.sync(),
            12 => self.rotate(),
            13..15 => self.rewrite(),
            _ => self.reopen(),
        }
    }

    fn append(&mut self) -> Result<(), Stop> {
        let n_bodies = 1 + self.chance.below(4);
        let bodies: Vec<Vec<u8>> = (0..n_bodies).map(|_| body(self.model.take())).collect();
        let batch: Vec<_> = bodies.iter().map(|it| (Kind::Commit, it.as_slice())).collect();
        let log = self.log()?;
        if log.is_full(batch.len(), bodies.iter().map(Vec::len).sum()) {
            self.model.give_back(n_bodies);
            return self.rotate();
        }
        let appended = log.append(&batch);
        self.check_alive(appended.is_err())
    }

    fn sync(&mut self) -> Result<(), Stop> {
        let is_synced = self.log()?.sync().is_ok();
        if is_synced {
            self.model.n_synced = self.model.appended.len();
        }
        self.check_alive(!is_synced)
    }

    fn rotate(&mut self) -> Result<(), Stop> {
        self.sync()?;
        if self.log()?.is_failed() {
            return Ok(());
        }
        let body = body(self.model.take());
        let is_rotated = self.log()?.rotate(&body).is_ok();
        if is_rotated {
            self.model.n_synced = self.model.appended.len();
        }
        self.check_alive(!is_rotated)
    }

    fn recover(&mut self) -> Result<(), Stop> {
        let number = self.model.next;
        self.model.next += 1;
        let mut recovered = self.model.appended[..self.model.n_synced].to_vec();
        recovered.push(number);
        self.model.recovered = Some(recovered.clone());
        let is_recovered = self.log()?.recover(&body(number)).is_ok();
        if is_recovered {
            self.model.n_synced = recovered.len();
            self.model.appended = recovered;
            self.model.recovered = None;
        }
        self.check_alive(!is_recovered)
    }

    fn rewrite(&mut self) -> Result<(), Stop> {
        let reader = self.log()?.reader();
        let sealed: Vec<u32> =
            reader.segments().iter().filter(|it| it.is_sealed).map(|it| it.id).collect();
        if sealed.is_empty() {
            return Ok(());
        }
        let start = self.chance.below(sealed.len());
        let n_segments = 1 + self.chance.below((sealed.len() - start).min(3));
        let one_in = 1 + self.chance.below(4);
        let mut chance = self.chance.clone();
        self.chance.next();
        let mut dropping = BTreeSet::new();
        let rewritten = reader.rewrite(&sealed[start..start + n_segments], &mut |frame| {
            let is_dropped = chance.one_in(one_in);
            if is_dropped {
                dropping.extend(parse(&frame.body));
            }
            (!is_dropped).then(|| frame.body.clone())
        });
        self.model.dropping.extend(&dropping);
        if let Ok(rewritten) = &rewritten {
            if rewritten.is_synced {
                self.model.dropped.extend(dropping);
            }
            for (old, new) in &rewritten.moved {
                let bodies = (reader.frame(*old), reader.frame(*new));
                let is_same = matches!(&bodies, (Ok(old), Ok(new)) if old.body == new.body);
                if !is_same && !self.has_crashed() {
                    return Err(Stop::Broken("a frame changed when it was moved".to_owned()));
                }
            }
        }
        self.check_alive(rewritten.is_err())
    }

    fn reopen(&mut self) -> Result<(), Stop> {
        let log = self.log.take().ok_or(Stop::Crashed)?;
        if self.chance.one_in(2) {
            // Closing may fail, which is no worse than not closing.
            if log.close().is_ok() {
                self.model.n_synced = self.model.appended.len();
            }
        }
        let (log, found) = self.open()?;
        self.model.check(&found).map_err(Stop::Broken)?;
        self.model.appended = found;
        self.model.n_synced = self.model.appended.len();
        self.model.dropping.clear();
        self.log = Some(log);
        Ok(())
    }

    fn open(&self) -> Result<(Log, Vec<u64>), Stop> {
        let opened = match open(&self.disk) {
            // The fault on the way. It passes.
            Err(OpenError::Io { .. }) => open(&self.disk),
            opened => opened,
        };
        opened.map_err(|err| self.stop(&err.to_string()))
    }

    fn log(&mut self) -> Result<&mut Log, Stop> {
        self.log.as_mut().ok_or(Stop::Crashed)
    }

    fn has_crashed(&self) -> bool {
        use crate::embedded::disk::Disk as _;
        self.disk.list().is_err()
    }

    fn check_alive(&self, has_failed: bool) -> Result<(), Stop> {
        if has_failed && self.has_crashed() { Err(Stop::Crashed) } else { Ok(()) }
    }

    fn stop(&self, why: &str) -> Stop {
        if self.has_crashed() { Stop::Crashed } else { Stop::Broken(why.to_owned()) }
    }
}

impl Model {
    fn take(&mut self) -> u64 {
        self.appended.push(self.next);
        self.next += 1;
        self.next - 1
    }

    fn give_back(&mut self, n: usize) {
        self.appended.truncate(self.appended.len() - n);
        self.next -= n as u64;
    }

    fn check(&self, found: &[u64]) -> Result<(), String> {
        if self.is_prefix(&self.appended, found)
            || self.recovered.as_ref().is_some_and(|it| self.is_prefix(it, found))
        {
            return Ok(());
        }
        let Self { appended, n_synced, recovered, dropped, dropping, .. } = self;
        Err(format!(
            "found {found:?}, but appended {appended:?}, of which {n_synced} synced, recovering to {recovered:?}, \
             dropped {dropped:?}, dropping {dropping:?}"
        ))
    }

    /// Whether `found` is a beginning of `all` that reaches what was synced, without what was
    /// dropped.
    fn is_prefix(&self, all: &[u64], found: &[u64]) -> bool {
        let mut found = found.iter().peekable();
        let mut reached = 0;
        for number in all {
            if found.peek() == Some(&number) && !self.dropped.contains(number) {
                found.next();
            } else if !self.dropped.contains(number) && !self.dropping.contains(number) {
                break;
            }
            reached += 1;
        }
        found.next().is_none() && reached >= self.n_synced
    }
}

/// A body that can be told from every other: most are small, some span sectors, some are nearly all
/// zeros.
fn body(number: u64) -> Vec<u8> {
    let mut chance = Chance::new(number);
    let length = match chance.below(8) {
        0 => 0,
        1..6 => chance.below(100),
        6 => chance.below(1000),
        _ => chance.below(3000),
    };
    let mut body = number.to_le_bytes().to_vec();
    if chance.one_in(3) {
        body.resize(8 + length, 0);
        body.push(1);
    } else {
        body.extend((0..length).map(|_| chance.next() as u8));
    }
    body
}

fn parse(found: &Bytes) -> Result<u64, String> {
    let number = found.first_chunk::<8>().ok_or("a body is too short")?;
    let number = u64::from_le_bytes(*number);
    if body(number) != found.as_ref() {
        return Err(format!("the body of {number} is not what was written"));
    }
    Ok(number)
}
