//! Kill under load: a child process writes and says what was acknowledged, dies by SIGKILL at some point,
//! and everything it was promised must be there, at the revision it was told.

#![expect(clippy::unwrap_used, reason = "a panic is a failed test")]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::join_all;
use kvstore::embedded::{Embedded, Options};
use kvstore::{KeyRange, Op, RangeRequest, Revision, Store, Txn};
use tempfile::TempDir;

const DIR: &str = "KVSTORE_CRASH_DIR";
const ROUND: &str = "KVSTORE_CRASH_ROUND";
const ROUNDS: u64 = 24;
const WRITERS: u64 = 8;

/// Not a test: the body of the child, which is this program run again with `DIR` set.
#[tokio::test]
async fn child() {
    let (Ok(dir), Ok(round)) = (std::env::var(DIR), std::env::var(ROUND)) else { return };
    let store = Embedded::open(Path::new(&dir), Options::default()).unwrap();
    join_all((0..WRITERS).map(|writer| write_until_killed(&store, &round, writer))).await;
}

async fn write_until_killed(store: &Embedded, round: &str, writer: u64) {
    for n in 0.. {
        let key = format!("{round}/{writer}/{n}");
        let value = Bytes::from(format!("{key}:{}", "x".repeat(500)));
        let writes = vec![
            Op::put(Bytes::from(key.clone()), value.clone()),
            Op::put(Bytes::from(format!("latest/{writer}")), value),
        ];
        let revision = store.txn(Txn::of(writes)).await.unwrap().revision;
        let mut out = std::io::stdout().lock();
        writeln!(out, "ack {} {key}", revision.0).unwrap();
        if n % 16 == 15 && writer == 0 {
            drop(out);
            store.compact(revision).await.unwrap();
        }
    }
}

/// Runs the child until it has acknowledged `n_acks` writes; returns all that it acknowledged.
fn crash(dir: &Path, round: u64, n_acks: usize) -> BTreeMap<u64, String> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env(DIR, dir)
        .env(ROUND, round.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut acks = BTreeMap::new();
    let mut is_killed = false;
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        // The harness may have printed on the same line before. A short line to a pipe is never cut.
        let Some((_, ack)) = line.split_once("ack ") else { continue };
        let (revision, key) = ack.split_once(' ').unwrap();
        let taken = acks.insert(revision.parse().unwrap(), key.to_owned());
        assert_eq!(taken, None, "a revision was given twice");
        if acks.len() >= n_acks && !is_killed {
            child.kill().unwrap();
            is_killed = true;
        }
    }
    child.wait().unwrap();
    assert!(is_killed, "the child ended by itself");
    acks
}

#[tokio::test]
async fn acknowledged_writes_survive_a_kill_and_revisions_never_repeat() {
    let dir = TempDir::new().unwrap();
    let mut acks = BTreeMap::<u64, String>::new();
    let mut newest = Revision(1);
    for round in 0..ROUNDS {
        let n_acks = 1 + usize::try_from(round * 7 % 60).unwrap();
        let fresh = crash(dir.path(), round, n_acks);
        let first = *fresh.keys().next().unwrap();
        assert!(first > newest.0, "revision {first} was used before the crash");
        acks.extend(fresh);
        let store = Embedded::open(dir.path(), Options::default()).unwrap();
        assert!(store.revision().0 >= *acks.keys().next_back().unwrap());
        newest = store.revision();
        check_acknowledged(&store, &acks).await;
    }
}

async fn check_acknowledged(store: &Arc<Embedded>, acks: &BTreeMap<u64, String>) {
    for (revision, key) in acks {
        let request = RangeRequest::latest(KeyRange::one(key.as_bytes()));
        let entries = store.range(request).await.unwrap().entries;
        let Some(entry) = entries.first() else { panic!("{key} at {revision} is lost") };
        assert_eq!(entry.mod_revision, Revision(*revision));
        assert!(entry.value.starts_with(key.as_bytes()));
    }
}
