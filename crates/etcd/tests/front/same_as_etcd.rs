//! The same requests to the front and to a real etcd, and the same answers, error codes and texts
//! from both.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use bytes::Bytes;
use etcd::wire::channel::{CallError, Channel, Timing};
use etcd::wire::messages::*;
use etcd::wire::methods;
use lifecycle::Tasks;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use crate::harness::{PATIENCE, Server, bytes, plain, program};

/// A member of its own, killed with the test.
struct Etcd {
    child: Child,
    channel: Channel,
    tasks: Tasks,
    _dir: tempfile::TempDir,
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Etcd {
    async fn start(program: &Path) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (client, peer) = (test_ports::reserve(), test_ports::reserve());
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let child = Command::new(program)
            .args(["--data-dir".as_ref(), dir.path().join("data").as_os_str()])
            .args(["--listen-client-urls", &url(client), "--advertise-client-urls", &url(client)])
            .args(["--listen-peer-urls", &url(peer), "--initial-advertise-peer-urls", &url(peer)])
            .args(["--initial-cluster", &format!("default={}", url(peer))])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let tasks = Tasks::new();
        let channel = tokio::time::timeout(PATIENCE, Self::connect(client, &tasks)).await;
        Self { child, channel: channel.expect("etcd serves"), tasks, _dir: dir }
    }

    /// It listens before it serves: only an answer tells.
    async fn connect(port: u16, tasks: &Tasks) -> Channel {
        loop {
            if let Ok(channel) = Channel::connect(&plain(port), Timing::default(), tasks).await
                && channel.unary(methods::RANGE, &of(bytes("x"))).await.is_ok()
            {
                return channel;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Range(RangeRequest),
    Put(PutRequest),
    Delete(DeleteRangeRequest),
    Txn(TxnRequest),
    Compact(i64),
    Grant(i64),
    Revoke(i64),
}

fn of(key: Bytes) -> RangeRequest {
    RangeRequest { key, ..Default::default() }
}

/// The answer without what tells members apart.
async fn answer(channel: &Channel, step: &Step) -> String {
    match step {
        Step::Range(it) => show(channel.unary(methods::RANGE, it).await),
        Step::Put(it) => show(channel.unary(methods::PUT, it).await),
        Step::Delete(it) => show(channel.unary(methods::DELETE_RANGE, it).await),
        Step::Txn(it) => show(channel.unary(methods::TXN, it).await),
        Step::Compact(revision) => {
            let request = CompactionRequest { revision: *revision, physical: true };
            show(channel.unary(methods::COMPACT, &request).await)
        }
        Step::Grant(id) => {
            let request = LeaseGrantRequest { ttl: 1000, id: *id };
            show(channel.unary(methods::LEASE_GRANT, &request).await)
        }
        Step::Revoke(id) => {
            let request = LeaseRevokeRequest { id: *id };
            show(channel.unary(methods::LEASE_REVOKE, &request).await)
        }
    }
}

fn show<T: std::fmt::Debug>(result: Result<T, CallError>) -> String {
    let text = match result {
        Ok(response) => format!("{response:?}"),
        Err(CallError::Status(status)) => return format!("{:?}: {}", status.code, status.message),
        Err(err) => panic!("the call failed: {err}"),
    };
    // The ids and the term are the only numbers that may differ.
    let mut shown = String::new();
    let mut rest = text.as_str();
    while let Some(at) = ["cluster_id: ", "member_id: ", "raft_term: "]
        .iter()
        .filter_map(|it| rest.find(it).map(|at| at + it.len()))
        .min()
    {
        shown.push_str(&rest[..at]);
        rest = rest[at..].trim_start_matches(|it: char| it.is_ascii_digit());
    }
    shown + rest
}

/// Random requests of which most make sense, over few keys.
struct Chance(StdRng);

impl Chance {
    fn one_in(&mut self, n: u32) -> bool {
        self.0.random_ratio(1, n)
    }

    fn key(&mut self) -> Bytes {
        match self.one_in(40) {
            true => Bytes::new(),
            false => bytes(["a", "b", "c", "d", "\u{0}"][self.0.random_range(0..5)]),
        }
    }

    fn end(&mut self) -> Bytes {
        bytes(["", "", "", "c", "e", "\u{0}", "a"][self.0.random_range(0..7)])
    }

    fn revision(&mut self, now: i64) -> i64 {
        match self.0.random_range(0..6) {
            0 => now + self.0.random_range(0..3),
            1 => (now - self.0.random_range(0..10)).max(1),
            _ => 0,
        }
    }

    fn range(&mut self, now: i64) -> RangeRequest {
        let mut request = RangeRequest {
            key: self.key(),
            range_end: self.end(),
            revision: self.revision(now),
            limit: self.0.random_range(0..4),
            keys_only: self.one_in(5),
            count_only: self.one_in(8),
            serializable: self.one_in(2),
            ..Default::default()
        };
        if self.one_in(3) {
            request.sort_order = self.0.random_range(0..3);
            // Without an order etcd cuts before it sorts; then the order of equals is not told.
            request.sort_target =
                if request.sort_order == 0 { 0 } else { [0, 2, 3][self.0.random_range(0..3)] };
        }
        if self.one_in(6) {
            request.min_mod_revision = self.revision(now);
            request.max_create_revision = self.revision(now);
        }
        request
    }

    fn put(&mut self) -> PutRequest {
        PutRequest {
            key: self.key(),
            value: bytes(["", "1", "2"][self.0.random_range(0..3)]),
            lease: if self.one_in(6) { self.0.random_range(1..4) } else { 0 },
            prev_kv: self.one_in(2),
            ignore_value: self.one_in(6),
            ignore_lease: self.one_in(6),
        }
    }

    fn delete(&mut self) -> DeleteRangeRequest {
        DeleteRangeRequest { key: self.key(), range_end: self.end(), prev_kv: self.one_in(2) }
    }

    fn compare(&mut self, now: i64) -> Compare {
        let target = self.0.random_range(0..5);
        let number = self.0.random_range(-1..=2);
        let revision = if self.one_in(2) { number } else { now - number };
        let target_union = match target {
            0 => CompareTargetUnion::Version(number),
            1 => CompareTargetUnion::CreateRevision(revision),
            2 => CompareTargetUnion::ModRevision(revision),
            3 => CompareTargetUnion::Value(bytes(["", "1"][self.0.random_range(0..2)])),
            _ => CompareTargetUnion::Lease(number.max(0)),
        };
        Compare {
            result: self.0.random_range(0..4),
            target,
            key: self.key(),
            range_end: if self.one_in(3) { self.end() } else { Bytes::new() },
            target_union: (!self.one_in(10)).then_some(target_union),
        }
    }

    fn txn(&mut self, now: i64, depth: usize) -> TxnRequest {
        let branch = |chance: &mut Self| {
            let n_ops = chance.0.random_range(0..3);
            (0..n_ops).map(|_| chance.op(now, depth)).collect::<Vec<_>>()
        };
        let (success, failure) = (branch(self), branch(self));
        let n_compares = self.0.random_range(0..3);
        TxnRequest {
            compare: (0..n_compares).map(|_| self.compare(now)).collect(),
            success,
            failure,
        }
    }

    fn op(&mut self, now: i64, depth: usize) -> RequestOp {
        let request = match self.0.random_range(0..8) {
            0 | 1 => RequestOpUnion::Range(self.range(now)),
            2..=4 => RequestOpUnion::Put(self.put()),
            // etcd overlooks keys that are put and deleted at once when the range has no end: not a
            // thing to imitate.
            5 => {
                let range_end = bytes(["", "e"][self.0.random_range(0..2)]);
                RequestOpUnion::DeleteRange(DeleteRangeRequest { range_end, ..self.delete() })
            }
            6 if depth > 0 => RequestOpUnion::Txn(self.txn(now, depth - 1)),
            6 => RequestOpUnion::Put(self.put()),
            _ if self.one_in(10) => return RequestOp { request: None },
            _ => RequestOpUnion::Range(self.range(now)),
        };
        RequestOp { request: Some(request) }
    }

    fn step(&mut self, now: i64) -> Step {
        match self.0.random_range(0..20) {
            0..=5 => Step::Range(self.range(now)),
            6..=10 => Step::Put(self.put()),
            11 | 12 => Step::Delete(self.delete()),
            13..=17 => Step::Txn(self.txn(now, 2)),
            // Of the revisions before the first write, etcd forgets each once; there is nothing in
            // them.
            18 if self.one_in(3) => Step::Compact((now - self.0.random_range(-1..6)).max(2)),
            18 => Step::Range(self.range(now)),
            _ if self.one_in(2) => Step::Grant(self.0.random_range(1..4)),
            _ => Step::Revoke(self.0.random_range(1..4)),
        }
    }
}

/// The seed of the histories; one that failed is repeated with `XEBEC_TEST_SEED`.
fn seed() -> u64 {
    let given = std::env::var("XEBEC_TEST_SEED").ok().and_then(|it| it.parse().ok());
    given.unwrap_or_else(|| StdRng::from_os_rng().random())
}

/// A key that one nested transaction puts and a later one deletes: etcd sees such a conflict only
/// in the other order.
fn is_overlooked(step: &Step) -> bool {
    let Step::Txn(request) = step else { return false };
    let mut writes = Vec::new();
    collect_writes(request, 0, &mut writes);
    let is_conflict = |put: &Write, delete: &Write| match (put, delete) {
        (Write::Put(at, key), Write::Delete(later, range)) => {
            later > at && kvstore::KeyRange::contains(range, key)
        }
        _ => false,
    };
    writes.iter().any(|put| writes.iter().any(|delete| is_conflict(put, delete)))
}

enum Write {
    Put(usize, Bytes),
    Delete(usize, kvstore::KeyRange),
}

/// What the operations of a transaction write, each with its place among the outermost ones.
fn collect_writes(request: &TxnRequest, depth: usize, writes: &mut Vec<Write>) {
    for (n, op) in request.success.iter().chain(&request.failure).enumerate() {
        let at = if depth == 0 { n } else { depth - 1 };
        match &op.request {
            Some(RequestOpUnion::Put(put)) => writes.push(Write::Put(at, put.key.clone())),
            Some(RequestOpUnion::DeleteRange(delete)) => {
                let (start, end) = (delete.key.clone(), delete.range_end.clone());
                let range = match &end[..] {
                    [] => kvstore::KeyRange::one(&start),
                    [0] => kvstore::KeyRange { start, end: Bytes::new() },
                    _ => kvstore::KeyRange { start, end },
                };
                writes.push(Write::Delete(at, range));
            }
            Some(RequestOpUnion::Txn(nested)) => collect_writes(nested, at + 1, writes),
            Some(RequestOpUnion::Range(_)) | None => {}
        }
    }
}

#[tokio::test]
async fn random_histories_have_the_same_answers() {
    let Some(program) = program("XEBEC_TEST_ETCD", "etcd") else { return };
    let etcd = Etcd::start(&program).await;
    let fronts = [Server::memory().await, Server::embedded().await];
    let seed = seed();
    let mut chance = Chance(StdRng::seed_from_u64(seed));
    for n in 0..1000 {
        let step = chance.step(fronts[0].store.revision().0.cast_signed());
        if is_overlooked(&step) {
            continue;
        }
        let expected = answer(&etcd.channel, &step).await;
        for (front, name) in fronts.iter().zip(["memory", "embedded"]) {
            let answered = answer(&front.channel, &step).await;
            // Which of several wrongs of a transaction is named does not matter.
            let is_refused = |it: &str| !it.starts_with("TxnResponse");
            if matches!(step, Step::Txn(_)) && is_refused(&answered) && is_refused(&expected) {
                continue;
            }
            assert_eq!(
                answered, expected,
                "{name}, step {n} with XEBEC_TEST_SEED={seed}: {step:?}"
            );
        }
    }
    for front in fronts {
        front.stop().await;
    }
    etcd.tasks.shutdown(PATIENCE).await.unwrap();
}
