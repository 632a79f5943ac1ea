//! Three members that break while clients write, read and watch; then what everyone was told is checked against the one
//! history that etcd has. `XEBEC_TORTURE_ROUNDS` is how many faults there are (three kinds of a few in the suite), and
//! `XEBEC_TORTURE_SEED` chooses them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use etcd::engine::Etcd;
use kvstore::Store as _;
use stdx::Random;

use crate::journal::{Journal, follow};
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

    /// Breaks something, waits until clients have made do without it (or, if nobody can, a moment), and mends it.
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
    /// Waits until every client has had some more acknowledged.
    async fn goes_on(&self) {
        let counts = || self.done.iter().map(|it| it.load(Ordering::SeqCst)).collect::<Vec<_>>();
        let before = counts();
        let has_moved =
            async || counts().iter().zip(&before).all(|(now, before)| *now >= before + 5);
        eventually("clients go on", has_moved).await;
    }
}

async fn client(n: usize, engine: Arc<Etcd>, traffic: Arc<Traffic>, journal: Arc<Journal>) {
    let random = Random::from_seed(n as u64);
    let mut n_ops = 0;
    while !traffic.is_over.load(Ordering::SeqCst) {
        n_ops += 1;
        let is_done = journal.operate(&*engine, &random, &format!("{n}-{n_ops}")).await;
        if is_done {
            traffic.done[n].fetch_add(1, Ordering::SeqCst);
        }
    }
}

async fn run(faults: Vec<Fault>, cluster: Cluster, etcdctl: &Path) {
    let urls = cluster.urls();
    let traffic = Arc::new(Traffic {
        is_over: AtomicBool::new(false),
        done: (0..N_CLIENTS).map(|_| AtomicUsize::new(0)).collect(),
    });
    let journal = Arc::new(Journal::default());
    let mut engines = Vec::new();
    for n in 0..2 {
        let mut endpoints: Vec<&str> = urls.iter().map(String::as_str).collect();
        endpoints.rotate_left(n);
        let mut config = config(&endpoints);
        config.name = format!("server-{n}");
        config.limits.timeout_request = Duration::from_secs(30);
        engines.push(connect(config).await);
    }
    let mut clients = Vec::new();
    let mut watches = Vec::new();
    for engine in &engines {
        watches.push(spawn(follow(engine.clone())));
    }
    for n in 0..N_CLIENTS {
        let engine = engines[n % engines.len()].clone();
        clients.push(spawn(client(n, engine, traffic.clone(), journal.clone())));
    }
    let mut nemesis = Nemesis { cluster, etcdctl: etcdctl.to_owned() };
    for fault in faults {
        println!("{fault:?}");
        nemesis.apply(fault, &traffic).await;
    }
    traffic.is_over.store(true, Ordering::SeqCst);
    for client in clients {
        client.await.unwrap();
    }
    let last = engines[0].txn(kvstore::Txn::of(vec![kvstore::Op::put("end", "")])).await.unwrap();
    let mut histories = Vec::new();
    for watch in watches {
        histories.push(watch.await.unwrap());
    }
    let n = journal.check(&histories, last.revision);
    println!("{n} operations and {} events are right", histories[0].len());
    let counts: BTreeMap<_, _> = journal.counts();
    println!("{counts:?}");
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
