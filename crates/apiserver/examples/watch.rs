//! Measures what watches cost: processor time for an event that 100 watchers of everything get, for
//! one that one of 5,000 gets, what a list beside writes costs both, and resident bytes of a watch
//! that waits. From the store's feed to the frames of the answer, in one process, without
//! connections and TLS.
//!
//! `cargo run --release -p apiserver --example watch`

#![expect(clippy::print_stdout, reason = "a program for people")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use api::Resource;
use api::core::{ConfigMap, Pod};
use apimachinery::{GroupVersionResource, User};
use apiserver::{Config, Parts, Server};
use authn::pki::ServiceAccountKey;
use client::{Client, ListOptions};
use http_body_util::BodyExt as _;
use kvstore::memory::Memory;
use kvstore::{Op, Store, Txn};
use lifecycle::{Readiness, Tasks};
use rustix::time::{ClockId, clock_gettime};
use stdx::World;
use tokio::sync::Notify;

/// Changes between two looks at whether all have been told: less than a watcher's queue holds.
const BURST: usize = 200;

struct Bench {
    store: Arc<dyn Store>,
    server: Arc<Server>,
    client: Client,
    tasks: Tasks,
    told: Arc<Told>,
}

/// How many lines watchers got.
#[derive(Default)]
struct Told {
    n_lines: AtomicUsize,
    /// Whoever gets that far says so; nobody is woken for less.
    n_expected: AtomicUsize,
    is_enough: Notify,
}

impl Told {
    fn add(&self, n_lines: usize) {
        let before = self.n_lines.fetch_add(n_lines, Ordering::SeqCst);
        let n_expected = self.n_expected.load(Ordering::SeqCst);
        if (before..before + n_lines).contains(&n_expected.wrapping_sub(1)) {
            self.is_enough.notify_one();
        }
    }

    /// Waits for so many lines in all; gives up after a minute.
    async fn wait(&self, n_expected: usize) {
        self.n_expected.store(n_expected, Ordering::SeqCst);
        let n_lines = || self.n_lines.load(Ordering::SeqCst);
        let all = async {
            while n_lines() < n_expected {
                self.is_enough.notified().await;
            }
        };
        let in_time = tokio::time::timeout(Duration::from_secs(60), all).await;
        in_time.unwrap_or_else(|_| panic!("{} lines of {n_expected}", n_lines()));
    }
}

#[tokio::main]
async fn main() {
    let bench = Bench::start().await;
    bench.watchers_of_everything().await;
    bench.watchers_of_a_node().await;
    bench.lists_beside_writes().await;
    bench.idle().await;
    bench.tasks.shutdown(Duration::from_secs(10)).await.expect("stopped");
}

/// Processor time of this process.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    let (seconds, nanos) = (time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs());
    Duration::from_secs(seconds) + Duration::from_nanos(nanos)
}

fn micros(time: Duration, n: usize) -> f64 {
    time.as_secs_f64() * 1e6 / n as f64
}

fn resource<T: Resource>() -> GroupVersionResource {
    GroupVersionResource::new(T::FACTS.group, T::FACTS.version, T::FACTS.plural)
}

fn admin() -> User {
    User::new("admin", &["system:masters"])
}

fn config_map(name: &str, n: usize) -> (String, String) {
    let json = serde_json::json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": name, "namespace": "default", "uid": "u", "labels": { "app": "watch" } },
        "data": { "n": n.to_string(), "key": "x".repeat(800) },
    });
    (format!("/registry/configmaps/default/{name}"), json.to_string())
}

fn pod(name: &str, node: &str, n: usize) -> (String, String) {
    let json = serde_json::json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": "default", "uid": "u", "annotations": { "n": n.to_string() } },
        "spec": { "nodeName": node, "containers": [{ "name": "a", "image": "b" }] },
    });
    (format!("/registry/pods/default/{name}"), json.to_string())
}

impl Bench {
    async fn start() -> Self {
        let (store, tasks) = (Arc::new(Memory::new()), Tasks::new());
        let key = Arc::new(ServiceAccountKey::create().expect("a key"));
        let parts = Parts {
            store: store.clone(),
            world: World::system(),
            tasks: tasks.clone(),
            readiness: Readiness::default(),
            metrics: telemetry::Registry::default(),
            service_account_keys: vec![key],
        };
        let server = Server::start(Config::default(), parts).await.expect("the server starts");
        let client = server.client(admin(), "watch");
        Self { store, server, client, tasks, told: Arc::default() }
    }

    /// Watches that read whatever comes. Dropping the tasks ends them.
    async fn watch<T: Resource>(&self, n: usize, selector: impl Fn(usize) -> String) -> Tasks {
        let tasks = self.tasks.child("watchers");
        for index in 0..n {
            let list = ListOptions {
                field_selector: Some(selector(index)),
                resource_version: Some("0".to_owned()),
                ..ListOptions::default()
            };
            let body = self.server.watch_body(admin(), resource::<T>(), list).await;
            let mut body = body.unwrap_or_else(|err| panic!("{err}"));
            let told = self.told.clone();
            tasks.spawn("watcher", move |shutdown| async move {
                loop {
                    let frame = tokio::select! {
                        biased;
                        () = shutdown.cancelled() => return,
                        frame = body.frame() => frame,
                    };
                    let Some(Ok(frame)) = frame else { return };
                    let n_lines = frame
                        .data_ref()
                        .map_or(0, |it| it.iter().filter(|byte| **byte == b'\n').count());
                    told.add(n_lines);
                }
            });
        }
        tasks
    }

    async fn count<T: Resource>(&self) -> usize {
        let all = self.client.api::<T>().list("", ListOptions::default()).await;
        all.expect("a list").items.len()
    }

    /// Makes `n` changes; each is to reach `n_each` watchers. Returns the processor time.
    async fn change(
        &self,
        n: usize,
        n_each: usize,
        make: impl Fn(usize) -> (String, String),
    ) -> Duration {
        let changes: Vec<_> = (0..n).map(make).collect();
        self.told.n_lines.store(0, Ordering::SeqCst);
        let before = cpu();
        for (burst, changes) in changes.chunks(BURST).enumerate() {
            let mut revision = 0;
            for (key, value) in changes {
                let op = Op::put(key.clone().into_bytes(), value.clone().into_bytes());
                let txn = Txn::when(Vec::new(), vec![op]).without_previous_values();
                revision = self.store.txn(txn).await.expect("written").revision.0;
            }
            let expected = (burst * BURST + changes.len()) * n_each;
            self.told.wait(expected).await;
            // Also when nobody watches.
            let options = ListOptions {
                resource_version: Some(revision.to_string()),
                limit: Some(1),
                ..ListOptions::default()
            };
            self.client.api::<ConfigMap>().list("kube-system", options).await.expect("a list");
        }
        cpu() - before
    }

    async fn watchers_of_everything(&self) {
        const WATCHERS: usize = 100;
        const CHANGES: usize = 4_000;
        let make = |n: usize| config_map(&format!("c{}", n % 500), n);
        self.change(CHANGES, 0, make).await;
        let alone = self.change(CHANGES, 0, make).await;
        let watchers = self.watch::<ConfigMap>(WATCHERS, |_| String::new()).await;
        self.told.wait(WATCHERS * self.count::<ConfigMap>().await).await;
        let watched = self.change(CHANGES, WATCHERS, make).await;
        end(watchers).await;
        println!(
            "a change that nobody watches: {:.2} us; with {WATCHERS} watchers of everything: {:.2} us for each event that one gets",
            micros(alone, CHANGES),
            micros(watched.saturating_sub(alone), CHANGES * WATCHERS),
        );
    }

    async fn watchers_of_a_node(&self) {
        const WATCHERS: usize = 5_000;
        const CHANGES: usize = 20_000;
        let make = |n: usize| pod(&format!("p{}", n % WATCHERS), &format!("n{}", n % WATCHERS), n);
        self.change(CHANGES, 0, make).await;
        let alone = self.change(CHANGES, 0, make).await;
        let node = |n: usize| format!("spec.nodeName=n{n}");
        let watchers = self.watch::<Pod>(WATCHERS, node).await;
        self.told.wait(WATCHERS).await;
        let watched = self.change(CHANGES, 1, make).await;
        end(watchers).await;
        println!(
            "a change of a pod that nobody watches: {:.2} us; with {WATCHERS} watchers of one node each: {:.2} us more",
            micros(alone, CHANGES),
            micros(watched.saturating_sub(alone), CHANGES),
        );
    }

    /// What a list of all costs beside writes, and the longest that a write waits.
    async fn lists_beside_writes(&self) {
        const OBJECTS: usize = 50_000;
        const LISTS: usize = 50;
        let make = |n: usize| config_map(&format!("l{n:06}"), n);
        self.change(OBJECTS, 0, make).await;
        let options =
            ListOptions { resource_version: Some("0".to_owned()), ..ListOptions::default() };
        let before = cpu();
        for _ in 0..LISTS {
            let list =
                self.client.api::<ConfigMap>().list("", options.clone()).await.expect("a list");
            assert!(list.items.len() >= OBJECTS);
        }
        println!(
            "a list of {OBJECTS} objects, not encoded: {:.0} us",
            micros(cpu() - before, LISTS)
        );
        let (client, tasks) = (self.client.clone(), self.tasks.child("lists"));
        tasks.spawn("lists", move |shutdown| async move {
            while !shutdown.is_cancelled() {
                let _ = client.api::<ConfigMap>().list("", options.clone()).await;
                tokio::task::yield_now().await;
            }
        });
        let mut waits: Vec<Duration> = Vec::new();
        for n in 0..2_000 {
            let (key, value) = make(n);
            let start = tokio::time::Instant::now();
            let op = Op::put(key.into_bytes(), value.into_bytes());
            let txn = Txn::when(Vec::new(), vec![op]).without_previous_values();
            let revision = self.store.txn(txn).await.expect("written").revision.0;
            let options = ListOptions {
                resource_version: Some(revision.to_string()),
                limit: Some(1),
                ..ListOptions::default()
            };
            self.client.api::<Pod>().list("none", options).await.expect("a list");
            waits.push(start.elapsed());
        }
        end(tasks).await;
        waits.sort_unstable();
        let at = |part: f64| waits[((waits.len() - 1) as f64 * part) as usize].as_micros();
        println!(
            "from a write to its sight, while another lists all the time: p50 {} us, p99 {} us, longest {} us",
            at(0.5),
            at(0.99),
            at(1.0),
        );
    }

    async fn idle(&self) {
        const WATCHERS: usize = 5_000;
        let before = resident();
        let watchers = self.watch::<Pod>(WATCHERS, |n| format!("spec.nodeName=idle{n}")).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        println!("a watch that waits: {} resident bytes", (resident() - before) / WATCHERS);
        end(watchers).await;
    }
}

async fn end(tasks: Tasks) {
    tasks.cancel();
    tasks.ended().await;
}

/// Resident bytes of this process.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = text.lines().find(|it| it.starts_with("VmRSS:")).expect("a line");
    let digits: String = line.chars().filter(char::is_ascii_digit).collect();
    digits.parse::<usize>().expect("a number") * 1024
}
