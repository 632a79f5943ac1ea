//! Real crashes: a child process works on a store and says what was acknowledged, dies by SIGKILL
//! at some moment, and everything it was promised must be there, at the revision it was told, with
//! nothing of the future and no revision given twice.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use stdx::Random;

use super::bench::Scratch;
use crate::embedded::{Embedded, Options};
use crate::{
    Error, KeyRange, KeyValue, LeaseId, Op, Put, PutLease, PutValue, RangeRequest, Revision,
    Store as _, Txn, WatchRequest, txn_anywhere,
};

const WRITERS: u64 = 6;
/// Every so many rounds there is but one, so that its thread writes, not the store's.
const ROUNDS_ALONE: u64 = 4;
const LEASES: i64 = 3;
const ROUNDS_PER_STORE: u64 = 40;
/// Stores that are worked on at once.
const LANES: u64 = 4;

/// How the child is started: a program that calls `kill_child` with the directory and the round.
pub trait Child {
    fn command(&self, dir: &Path, round: u64) -> Command;
}

impl<F: Fn(&Path, u64) -> Command> Child for F {
    fn command(&self, dir: &Path, round: u64) -> Command {
        self(dir, round)
    }
}

/// Kills children `rounds` times, each time after another number of acknowledgements. Some stores
/// are worked on at once: most of a round is waiting for a process and for the disk.
pub fn kill(seed: u64, rounds: u64, child: &(impl Child + Sync)) {
    std::thread::scope(|scope| {
        for lane in 0..LANES {
            let n_rounds = rounds / LANES + u64::from(lane < rounds % LANES);
            let seed = seed.wrapping_add(lane << 32);
            // A panic of one of them is a panic here.
            scope.spawn(move || kill_in_turn(seed, n_rounds, child));
        }
    });
}

/// One child after the other over the same store.
fn kill_in_turn(seed: u64, rounds: u64, child: &impl Child) {
    let random = Random::from_seed(seed);
    let mut scratch = Scratch::new();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime starts");
    let mut newest = Revision(1);
    for round in 0..rounds {
        if round % ROUNDS_PER_STORE == ROUNDS_PER_STORE - 1 {
            // What is checked grows with the store.
            (scratch, newest) = (Scratch::new(), Revision(1));
        }
        let moment = match random.below(4) {
            // Perhaps while it opens the store.
            0 => Moment::After(Duration::from_millis(random.below(60))),
            _ => Moment::Acknowledged(1 + random.below(80)),
        };
        let acks = crash(child.command(scratch.path(), round), moment);
        let recovered = runtime.block_on(check_recovery(scratch.path(), round, &acks, newest));
        newest = recovered.unwrap_or_else(|what| panic!("seed {seed}, round {round}: {what}"));
    }
}

/// When the child is killed.
#[derive(Clone, Copy, Debug)]
enum Moment {
    After(Duration),
    /// When so much was acknowledged.
    Acknowledged(u64),
}

/// What the child said: revision and what was written there.
#[derive(Debug, Default)]
struct Acks {
    writes: BTreeMap<u64, String>,
    /// The newest revision that was acknowledged, and the newest compaction.
    newest: u64,
    compacted: u64,
}

/// Runs the child until that moment; returns all that it acknowledged.
fn crash(mut command: Command, moment: Moment) -> Acks {
    let mut child = command.stdout(Stdio::piped()).spawn().expect("the child starts");
    let output = child.stdout.take().expect("it is piped");
    let (mut acks, mut n_seen, mut is_killed) = (Acks::default(), 0, false);
    if let Moment::After(time) = moment {
        std::thread::sleep(time);
        child.kill().expect("the child can be killed");
        is_killed = true;
    }
    for line in BufReader::new(output).lines() {
        let line = line.expect("the child writes text");
        // A test harness may have printed on the same line before. A short line to a pipe is never
        // cut.
        let Some((_, ack)) = line.split_once("ack ") else { continue };
        let (kind, rest) = ack.split_once(' ').expect("kind and revision");
        let (revision, key) = rest.split_once(' ').unwrap_or((rest, ""));
        let revision: u64 = revision.parse().expect("a number");
        acks.newest = acks.newest.max(revision);
        match kind {
            "write" => {
                let taken = acks.writes.insert(revision, key.to_owned());
                assert_eq!(taken, None, "revision {revision} was given twice");
            }
            "compact" => acks.compacted = acks.compacted.max(revision),
            _ => {}
        }
        n_seen += 1;
        if matches!(moment, Moment::Acknowledged(n) if n_seen >= n) && !is_killed {
            child.kill().expect("the child can be killed");
            is_killed = true;
        }
    }
    child.wait().expect("the child ends");
    assert!(is_killed, "the child ended by itself");
    acks
}

/// Returns the revision that the store is at.
async fn check_recovery(
    dir: &Path,
    round: u64,
    acks: &Acks,
    newest: Revision,
) -> Result<Revision, String> {
    let store = Embedded::open(dir, Options::default()).map_err(|it| stdx::error_chain(&it))?;
    if let Some((first, _)) = acks.writes.first_key_value()
        && *first <= newest.0
    {
        return Err(format!(
            "revision {first} had been given before: the store was at {}",
            newest.0
        ));
    }
    let revision = store.revision();
    if revision.0 < acks.newest || store.oldest().0 < acks.compacted {
        return Err(format!("it went back to {revision:?} from {acks:?}"));
    }
    let all = RangeRequest::latest(KeyRange::prefix(format!("{round}/").as_bytes()));
    let response = store.range(all).await.map_err(|it| it.to_string())?;
    let found: BTreeMap<&Bytes, &KeyValue> =
        response.entries.iter().map(|it| (&it.key, it)).collect();
    for (revision, key) in &acks.writes {
        let entry = found.get(&Bytes::copy_from_slice(key.as_bytes()));
        let entry = entry.ok_or_else(|| format!("{key} at {revision} is lost"))?;
        if entry.mod_revision.0 != *revision || !entry.value.starts_with(key.as_bytes()) {
            return Err(format!("{key} at {revision} came back as {entry:?}"));
        }
    }
    check_history(&store).await?;
    check_leases(&store).await?;
    store.close().await;
    Ok(revision)
}

/// A prefix has no holes: each writer's numbers are there up to some number, and the history leads
/// to the present.
async fn check_history(store: &Embedded) -> Result<(), String> {
    let read = async |at: Option<Revision>| {
        let request = RangeRequest { at, ..RangeRequest::latest(KeyRange::prefix(b"")) };
        store.range(request).await.map_err(|it| it.to_string())
    };
    let present = read(None).await?.entries;
    let mut numbers: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for entry in &present {
        let text = String::from_utf8_lossy(&entry.key).into_owned();
        if let Some((writer, n)) = text.rsplit_once('/')
            && let Ok(n) = n.parse()
            && writer != "latest"
            && writer != "leased"
        {
            numbers.entry(writer.to_owned()).or_default().push(n);
        }
    }
    for (writer, mut found) in numbers {
        found.sort_unstable();
        if found.iter().enumerate().any(|(n, it)| *it != n as u64) {
            return Err(format!("writer {writer} has a hole in {found:?}"));
        }
    }
    let oldest = store.oldest();
    let mut keys: BTreeMap<Bytes, KeyValue> =
        read(Some(oldest)).await?.entries.into_iter().map(|it| (it.key.clone(), it)).collect();
    let request = WatchRequest::new(KeyRange::prefix(b""), Some(oldest));
    let mut watch = store.watch(request).await.map_err(|it| it.to_string())?;
    while watch.progress() < store.revision() {
        for event in watch.next().await.map_err(|it| it.to_string())?.events {
            match event.value {
                Some(entry) => keys.insert(event.key, entry),
                None => keys.remove(&event.key),
            };
        }
    }
    if !keys.values().eq(present.iter()) {
        return Err("the history does not lead to the present".to_owned());
    }
    Ok(())
}

async fn check_leases(store: &Embedded) -> Result<(), String> {
    let leases = store.leases().await.map_err(|it| it.to_string())?;
    let all = RangeRequest::latest(KeyRange::prefix(b"leased/"));
    for entry in store.range(all).await.map_err(|it| it.to_string())?.entries {
        if entry.lease.is_none_or(|it| !leases.contains(&it)) {
            return Err(format!("{entry:?} outlived its lease"));
        }
    }
    Ok(())
}

/// The child: writes until it is killed, and says to `output` what was acknowledged.
pub async fn kill_child(dir: &Path, round: u64, output: impl Write) {
    let store = Embedded::open(dir, Options::default()).expect("the store opens");
    let output = Mutex::new(output);
    let say = |kind: &str, revision: Revision, key: &str| {
        let mut output = output.lock().expect("nobody panics with it");
        writeln!(output, "ack {kind} {} {key}", revision.0).expect("somebody listens");
        output.flush().expect("somebody listens");
    };
    if round.is_multiple_of(ROUNDS_ALONE) {
        return write(&store, round, 0, &say).await;
    }
    let writers = (0..WRITERS).map(|writer| write(&store, round, writer, &say));
    tokio::join!(biased; join_all(writers), lease(&store, round, &say));
}

async fn write(store: &Embedded, round: u64, writer: u64, say: &impl Fn(&str, Revision, &str)) {
    for n in 0u64.. {
        let key = format!("{round}/{writer}/{n}");
        let value = format!("{key}:{}", "x".repeat(500));
        let ops =
            vec![Op::put(key.clone(), value.clone()), Op::put(format!("latest/{writer}"), value)];
        // Half of the writers are relaxed: the end of the process loses nothing of theirs either.
        let txn = Txn::of(ops);
        let txn = if writer.is_multiple_of(2) { txn } else { txn.relaxed() };
        let revision = txn_anywhere(store, txn).await.expect("the disk has room").revision;
        say("write", revision, &key);
        if n % 16 == 15 && writer == 0 {
            match store.compact(revision).await {
                Ok(()) => say("compact", revision, ""),
                Err(Error::Compacted { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
}

async fn lease(store: &Embedded, round: u64, say: &impl Fn(&str, Revision, &str)) {
    for n in 0i64.. {
        let id = LeaseId::new(1 + n % LEASES).expect("not zero");
        match store.lease_grant(Some(id), Duration::from_secs(1000)).await {
            Ok(_) => {}
            Err(Error::LeaseExists { .. }) => {
                let revision = store.lease_revoke(id).await.expect("the lease is there");
                say("revoke", revision, "");
                continue;
            }
            Err(error) => panic!("{error}"),
        }
        let (key, value) = (format!("leased/{}", n % 7), PutValue::Bytes(round.to_string().into()));
        let put = Put { key: key.into(), value, lease: PutLease::Bound(id) };
        store.txn(Txn::of(vec![Op::Put(put)])).await.expect("the disk has room");
    }
}
