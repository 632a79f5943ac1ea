//! Three members that break while clients write, read and watch; then what everyone was told is
//! checked against the one history that etcd has. `XEBEC_TORTURE_ROUNDS` is how many faults there
//! are (three kinds of a few in the suite), and `XEBEC_TORTURE_SEED` chooses them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use etcd::engine::Etcd;
use kvstore::linearizability::{self, Client, History, Recorder, Workload};
use kvstore::validators::Recording;
use kvstore::{Event, KeyRange, Op, Revision, Store as _, Txn, WatchRequest};
use stdx::Random;

use crate::member::{Member, etcd, program};
use crate::network::{Cable, Cluster, enter};
use crate::{config, connect, eventually};

const BOTH: &[Cable] = &[Cable::Clients, Cable::Peers];
const N_CLIENTS: usize = 4;

#[derive(Clone, Copy, Debug)]
enum Fault {
    KillLeader,
    PauseLeader,
    PauseFollower,
    CutOffLeader,
    /// It still talks to clients, and must not tell them anything old.
    CutLeaderFromPeers,
    CutFollowerFromClients,
    RestartAll,
}

const FAULTS: &[Fault] = &[
    Fault::KillLeader,
    Fault::PauseLeader,
    Fault::CutOffLeader,
    Fault::CutLeaderFromPeers,
    Fault::RestartAll,
    Fault::PauseFollower,
    Fault::CutFollowerFromClients,
];

struct Nemesis {
    cluster: Cluster,
    etcdctl: PathBuf,
}

impl Nemesis {
    async fn leader(&self) -> usize {
        let mut leader = None;
        let has_come = async || {
            leader = tokio::task::block_in_place(|| self.cluster.leader(&self.etcdctl));
            leader.is_some()
        };
        eventually("there is a leader", has_come).await;
        leader.unwrap()
    }

    /// Breaks something, waits until clients have made do without it (or, if nobody can, a moment),
    /// and mends it.
    async fn apply(&mut self, fault: Fault, traffic: &Traffic) {
        let leader = self.leader().await;
        let follower = (leader + 1) % 3;
        let cluster = &mut self.cluster;
        match fault {
            Fault::KillLeader => {
                cluster.members[leader].kill();
                traffic.goes_on().await;
                tokio::task::block_in_place(|| cluster.run(leader));
            }
            Fault::PauseLeader | Fault::PauseFollower => {
                let n = if matches!(fault, Fault::PauseLeader) { leader } else { follower };
                cluster.members[n].pause();
                traffic.goes_on().await;
                cluster.members[n].resume();
            }
            Fault::CutOffLeader => {
                cluster.cut(leader, BOTH);
                traffic.goes_on().await;
                cluster.join(leader, BOTH);
            }
            Fault::CutLeaderFromPeers => {
                cluster.cut(leader, &[Cable::Peers]);
                traffic.goes_on().await;
                cluster.join(leader, &[Cable::Peers]);
            }
            Fault::CutFollowerFromClients => {
                cluster.cut(follower, &[Cable::Clients]);
                traffic.goes_on().await;
                cluster.join(follower, &[Cable::Clients]);
            }
            Fault::RestartAll => {
                cluster.members.iter_mut().for_each(Member::kill);
                tokio::task::block_in_place(|| (0..3).for_each(|it| cluster.run(it)));
            }
        }
        traffic.goes_on().await;
    }
}

/// What clients have got done, so that nobody has to guess how long a fault must last.
#[derive(Default)]
struct Traffic {
    is_over: AtomicBool,
    done: Vec<AtomicUsize>,
}

impl Traffic {
    /// Waits until every client has got some more done.
    async fn goes_on(&self) {
        let counts = || self.done.iter().map(|it| it.load(Ordering::SeqCst)).collect::<Vec<_>>();
        let before = counts();
        let has_moved =
            async || counts().iter().zip(&before).all(|(now, before)| *now >= before + 2);
        eventually("clients go on", has_moved).await;
    }
}

/// Reads, writes, swaps and deletes until it is over.
async fn work(n: usize, client: Client, traffic: Arc<Traffic>) {
    let random = Random::from_seed(n as u64);
    let few = Workload {
        operations: 5,
        patience: Duration::from_secs(120),
        pause: Duration::from_millis(5),
        ..Workload::default()
    };
    let mut n_rounds = 0;
    while !traffic.is_over.load(Ordering::SeqCst) {
        n_rounds += 1;
        linearizability::run(&client, &format!("{n}.{n_rounds}"), &random, few).await;
        traffic.done[n].fetch_add(1, Ordering::SeqCst);
    }
}

/// Records a watch until the key `key/end` is written.
async fn follow(engine: Arc<Etcd>, request: WatchRequest) -> Recording {
    let after = request.after.unwrap();
    let mut recording = Recording::new(request.clone(), after);
    let mut watch = engine.watch(request).await.unwrap();
    loop {
        recording.next(&mut *watch).await.unwrap();
        let last = recording.batches.last().unwrap();
        if last.events.iter().any(|it| it.key == "key/end") {
            return recording;
        }
    }
}

fn everything() -> WatchRequest {
    WatchRequest::new(KeyRange::prefix(b""), Some(Revision(1)))
}

fn objects() -> WatchRequest {
    WatchRequest::new(KeyRange::prefix(b"key/"), Some(Revision(1)))
}

async fn run(faults: Vec<Fault>, cluster: Cluster, etcdctl: &Path) {
    let urls = cluster.urls();
    let traffic = Arc::new(Traffic {
        is_over: AtomicBool::new(false),
        done: (0..N_CLIENTS).map(|_| AtomicUsize::new(0)).collect(),
    });
    let recorder = Arc::new(Recorder::default());
    let mut engines = Vec::new();
    for n in 0..3 {
        engines.push(server(&urls, n).await);
    }
    // The last one is for reading what there is at the end.
    let late = engines.pop().unwrap();
    let mut watches = Vec::new();
    for engine in &engines {
        watches.push(spawn(follow(engine.clone(), everything())));
        watches.push(spawn(follow(engine.clone(), objects())));
    }
    let clients: Vec<_> = (0..N_CLIENTS)
        .map(|n| {
            let store = engines[n % engines.len()].clone();
            let client = recorder.client(u32::try_from(n).unwrap(), store);
            spawn(work(n, client, traffic.clone()))
        })
        .collect();
    let mut nemesis = Nemesis { cluster, etcdctl: etcdctl.to_owned() };
    for fault in faults {
        println!("{fault:?}");
        nemesis.apply(fault, &traffic).await;
    }
    traffic.is_over.store(true, Ordering::SeqCst);
    for client in clients {
        client.await.unwrap();
    }
    late.txn(Txn::of(vec![Op::put("key/end", "")])).await.unwrap();
    let truth = follow(late, everything()).await;
    let truth: Vec<Event> = truth.events().cloned().collect();
    for watch in watches {
        let recording = watch.await.unwrap();
        kvstore::validators::validate(&recording, &truth).unwrap();
    }
    check(&recorder.history(), &truth);
}

/// One server of several over the cluster, which asks the members in another order than the others.
async fn server(urls: &[String], n: usize) -> Arc<Etcd> {
    let mut endpoints: Vec<&str> = urls.iter().map(String::as_str).collect();
    endpoints.rotate_left(n);
    let mut config = config(&endpoints);
    config.name = format!("server-{n}");
    config.limits.timeout_request = Duration::from_secs(30);
    connect(config).await
}

fn check(history: &History, truth: &[Event]) {
    // Fences are written by no client.
    let history = History { may_skip: true, ..history.clone() };
    let n_unknown = history.operations.iter().filter(|it| it.answered.is_none()).count();
    println!(
        "{} operations, {n_unknown} of them without an answer, {} events",
        history.operations.len(),
        truth.len()
    );
    linearizability::check(&history).unwrap();
    let mut revisions: BTreeMap<&[u8], Revision> = BTreeMap::new();
    let values = truth.iter().filter_map(|it| it.value.as_ref()).filter(|it| !it.value.is_empty());
    for it in values {
        let first = *revisions.entry(&it.value).or_insert(it.mod_revision);
        assert_eq!(first, it.mod_revision, "written by two transactions: {it:?}");
    }
}

#[expect(clippy::disallowed_methods, reason = "a test's runtime ends with the test")]
fn spawn<T: Send + 'static>(
    task: impl Future<Output = T> + Send + 'static,
) -> tokio::task::JoinHandle<T> {
    tokio::spawn(task)
}

/// A number from the environment.
fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|it| it.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_clients_are_told_is_right_while_members_break() {
    if !enter("cluster::what_clients_are_told_is_right_while_members_break") {
        return;
    }
    let Some(etcd) = etcd() else { return };
    let Some(etcdctl) = program("etcdctl", "XEBEC_TEST_ETCDCTL") else { return };
    let Some(cluster) = Cluster::start(&etcd) else { return };
    let faults = match setting("XEBEC_TORTURE_ROUNDS") {
        None => FAULTS[..5].to_vec(),
        Some(rounds) => {
            let seed = setting("XEBEC_TORTURE_SEED").unwrap_or(1);
            println!("XEBEC_TORTURE_SEED={seed}");
            let random = Random::from_seed(seed);
            let pick = |_| FAULTS[random.below(FAULTS.len() as u64) as usize];
            (0..rounds).map(pick).collect()
        }
    };
    run(faults, cluster, &etcdctl).await;
}
