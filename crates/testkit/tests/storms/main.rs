//! All controllers while nodes die, calls fail, containers crash and turn unready, templates change
//! and others take over the lead: quotas and budgets hold at every moment, Jobs count what ended,
//! no two pods have one identity, nothing is left over, and in the end there is rest.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod autoscaled;
mod bounded;
mod cast;
mod claims;
mod guarded;
mod mirrored;
mod objects;
mod runs;
mod sets;
mod tenants;

use std::time::Duration;

use stdx::Random;
use testkit::{Cluster, Options};

use cast::Cast;

const NODES: u64 = 8;
const ROUNDS: usize = 8;
/// Pods that run on, most of the time.
const RESTLESS: &str = "flaps=10 crashes=5";
/// And all the time when they are older than this.
const RESTLESS_FOR: Duration = Duration::from_secs(140);
/// For four hours at most.
const LOOK: Duration = Duration::from_secs(20);
const LOOKS_MAX: u32 = 4 * 3600 / 20;

fn run<T>(simulation: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(simulation)
}

async fn storm(cluster: &mut Cluster, seed: u64, cast: &Cast) {
    cluster.faults.set_rate(40);
    let random = cluster.world.random.clone();
    let mut dead: Vec<String> = Vec::new();
    for round in 0..ROUNDS {
        let victim = format!("sim-{}", random.below(NODES));
        cluster.fleet.kill(&victim);
        dead.push(victim);
        bounded::change(cluster, round).await;
        for player in &cast.players {
            player.change(&cluster.admin, &random, round + 1).await;
        }
        for _ in 0..4 {
            tokio::time::sleep(Duration::from_millis(1 + random.below(9_000))).await;
            guarded::evict(&cluster.admin, seed).await;
        }
        if random.below(2) == 0 {
            cluster.change_leader().await.unwrap();
        }
        if dead.len() > 2 || random.below(2) == 0 {
            let index = random.below(dead.len() as u64) as usize;
            cluster.fleet.revive(&dead.swap_remove(index));
        }
    }
    cluster.faults.set_rate(0);
    dead.iter().for_each(|it| cluster.fleet.revive(it));
    bounded::calm(&cluster.admin).await;
    for player in &cast.players {
        player.calm(&cluster.admin, &random).await;
    }
}

/// What is not as it should be in the end.
async fn missing(cluster: &Cluster, cast: &Cast) -> Vec<String> {
    let mut missing = guarded::missing(&cluster.admin).await;
    missing.extend(bounded::missing(&cluster.admin).await);
    for player in &cast.players {
        missing.extend(player.missing(&cluster.admin).await);
    }
    missing
}

async fn converge(cluster: &Cluster, seed: u64, cast: &Cast) {
    for _ in 0..LOOKS_MAX {
        if missing(cluster, cast).await.is_empty() {
            return;
        }
        tokio::time::sleep(LOOK).await;
    }
    panic!("seed {seed}:\n{}", missing(cluster, cast).await.join("\n"));
}

async fn simulate(seed: u64, cast: &Cast) {
    let options = Options { seed, nodes: usize::try_from(NODES).unwrap() };
    let mut cluster = Cluster::start(options).await.unwrap();
    // What those draw who make something is not what the cluster draws.
    let random = Random::from_seed(seed);
    bounded::make(&cluster, cast.script()).await;
    guarded::make(&cluster.admin, cast.script()).await;
    for player in &cast.players {
        player.make(&cluster.admin, &random, cast.script()).await;
    }
    storm(&mut cluster, seed, cast).await;
    converge(&cluster, seed, cast).await;
    if cast.is_restless {
        // Until the youngest pod is quiet.
        tokio::time::sleep(RESTLESS_FOR).await;
        converge(&cluster, seed, cast).await;
    }
    let history = cluster.history().await.unwrap();
    let mut found = testkit::violations(&cluster.admin).await.unwrap();
    found.extend(bounded::violations(&cluster.admin, &history).await);
    for player in &cast.players {
        found.extend(player.violations(&cluster.admin, &history).await);
    }
    found.extend(cluster.fleet.doubles());
    assert!(found.is_empty(), "seed {seed}:\n{}", found.join("\n"));
    tokio::time::sleep(Duration::from_secs(30)).await;
    let settled = cluster.history().await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let writes = cluster.history().await.unwrap().writes_since(&settled);
    assert_eq!(writes.keys().collect::<Vec<_>>(), ["leases/kube-node-lease"], "seed {seed}");
    cluster.stop().await.unwrap_or_else(|err| panic!("seed {seed}: {err}"));
}

/// Fifty seeds by default, each with another cast; `cargo xtask torture controllers --seeds 1000`
/// goes through as many as one likes, all with everybody.
#[test]
fn quotas_and_budgets_hold_and_jobs_count_right_whatever_happens() {
    let wanted = std::env::var("SEEDS").ok();
    let seeds = wanted.as_deref().unwrap_or("1..51");
    let (first, end) = seeds.split_once("..").expect("a range of numbers");
    let (first, end): (u64, u64) = (first.parse().unwrap(), end.parse().unwrap());
    let is_whole = wanted.is_some();
    let cast = |seed: u64| if is_whole { Cast::everybody() } else { Cast::of(seed) };
    let n_threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    std::thread::scope(|scope| {
        for thread in 0..n_threads {
            scope.spawn(move || {
                for seed in (first + thread..end).step_by(n_threads as usize) {
                    run(simulate(seed, &cast(seed)));
                }
            });
        }
    });
    // Else the budget was held because nobody wanted anything of it.
    let (evicted, refused) = guarded::asked();
    assert!(is_whole || (evicted > 50 && refused > 50), "{evicted} evicted, {refused} refused");
}
