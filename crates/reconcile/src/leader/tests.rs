//! Two candidates and one lease, under paused time.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::Stored;
use api::coordination::lease::Lease;
use api::object::meta_of;
use api::{ApiObject, Resource as _};
use apimachinery::{ApiError, GroupResource, Reason};
use bytes::Bytes;
use client::{
    Client, Discovered, Payload, Reply, Request, Transport, Verb, WatchEvent, WatchEventKind,
    WatchStream,
};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _};
use lifecycle::Tasks;
use stdx::World;
use telemetry::Registry;
use tokio::sync::broadcast;

use super::{Election, Terms, with_leadership, with_leaderships};

/// One lease with an optimistic lock.
#[derive(Default)]
struct Server {
    lease: Mutex<Option<Lease>>,
    /// Who watches; nobody may, where there is none.
    watches: Option<broadcast::Sender<WatchEvent>>,
}

impl Server {
    fn watched() -> Arc<Self> {
        Arc::new(Self { watches: Some(broadcast::channel(64).0), ..Self::default() })
    }

    fn tell(&self, object: &Arc<Stored>) {
        let Some(watches) = &self.watches else { return };
        let (kind, object) = (WatchEventKind::Modified, object.clone());
        let _ = watches.send(WatchEvent { kind, object, is_initial_end: false });
    }
}

/// One candidate's way to the server, which can break.
struct Line {
    server: Arc<Server>,
    is_down: AtomicBool,
    n_calls: AtomicUsize,
}

impl Line {
    fn answer(&self, request: Request) -> Result<Reply, ApiError> {
        self.n_calls.fetch_add(1, Ordering::Relaxed);
        if self.is_down.load(Ordering::Relaxed) {
            return Err(ApiError::new(Reason::ServiceUnavailable, "down"));
        }
        let resource = GroupResource::new("coordination.k8s.io", "leases");
        let mut lease = self.server.lease.lock().unwrap();
        let sent = match &request.payload {
            Payload::Object(object) => object.downcast_ref::<Lease>().cloned(),
            Payload::Empty | Payload::Patch(..) | Payload::Delete(_) => None,
        };
        let version = lease.as_ref().and_then(|it| it.metadata.resource_version.clone());
        match (request.verb, sent) {
            (Verb::Create, Some(mut sent)) if lease.is_none() => {
                sent.metadata.resource_version = Some("1".to_owned());
                *lease = Some(sent);
            }
            (Verb::Create, _) => return Err(ApiError::already_exists(&resource, "test")),
            (Verb::Update, Some(mut sent)) => {
                if sent.metadata.resource_version != version {
                    return Err(ApiError::modified(&resource, "test"));
                }
                let next: u64 = version.unwrap().parse().unwrap();
                sent.metadata.resource_version = Some((next + 1).to_string());
                *lease = Some(sent);
            }
            _ => {}
        }
        let lease = lease.as_ref().ok_or_else(|| ApiError::not_found(&resource, "test"))?;
        let bytes = Bytes::from(ApiObject::encode(lease));
        let stored = Arc::new(Stored::new(meta_of(lease.metadata(), Vec::new()), bytes));
        if request.verb == Verb::Update {
            self.server.tell(&stored);
        }
        Ok(Reply::Object(stored))
    }
}

impl Transport for Line {
    fn call(&self, request: Request) -> BoxFuture<'_, Result<Reply, ApiError>> {
        let answer = self.answer(request);
        async { answer }.boxed()
    }

    fn watch(&self, _request: Request) -> BoxFuture<'_, Result<WatchStream, ApiError>> {
        let watch = self.server.watches.as_ref().map(broadcast::Sender::subscribe);
        let events = watch.map(|watch| {
            let next = |mut watch: broadcast::Receiver<WatchEvent>| async move {
                watch.recv().await.ok().map(|it| (Ok(it), watch))
            };
            futures_util::stream::unfold(watch, next).boxed()
        });
        async { events.ok_or_else(ApiError::no_such_resource) }.boxed()
    }

    fn get_path(&self, _path: String) -> BoxFuture<'_, Result<Bytes, ApiError>> {
        async { Err(ApiError::no_such_resource()) }.boxed()
    }

    fn discover(&self) -> BoxFuture<'_, Result<Vec<Discovered>, ApiError>> {
        async { Ok(Vec::new()) }.boxed()
    }
}

struct Candidate {
    line: Arc<Line>,
    tasks: Tasks,
    is_leading: Arc<AtomicBool>,
    /// Whether it was told so.
    has_lost: Arc<AtomicBool>,
    metrics: Registry,
}

fn candidate(server: &Arc<Server>, world: &World, identity: &str) -> Candidate {
    let has_lost = Arc::new(AtomicBool::new(false));
    let lost = has_lost.clone();
    let candidate = stand(server, world, identity, |tasks, election, flag| {
        let lead = |tasks: Tasks| async move { work(&tasks, flag) };
        with_leadership(tasks, election, lead, move || lost.store(true, Ordering::Relaxed));
    });
    Candidate { has_lost, ..candidate }
}

/// One that stands again after a loss.
fn tireless(server: &Arc<Server>, world: &World, identity: &str) -> Candidate {
    stand(server, world, identity, |tasks, election, flag| {
        with_leaderships(tasks, election, move |tasks| {
            let flag = flag.clone();
            async move { work(&tasks, flag) }
        });
    })
}

fn stand(
    server: &Arc<Server>,
    world: &World,
    identity: &str,
    start: impl FnOnce(&Tasks, Election, Arc<AtomicBool>),
) -> Candidate {
    let line = Arc::new(Line {
        server: server.clone(),
        is_down: AtomicBool::new(false),
        n_calls: AtomicUsize::new(0),
    });
    let (tasks, is_leading) = (Tasks::new(), Arc::<AtomicBool>::default());
    let metrics = Registry::default();
    let election = Election {
        client: Client::new(line.clone(), "test"),
        world: world.clone(),
        name: "test",
        identity: identity.to_owned(),
        terms: Terms::default(),
        metrics: metrics.clone(),
    };
    start(&tasks, election, is_leading.clone());
    Candidate { line, tasks, is_leading, has_lost: Arc::default(), metrics }
}

/// Takes a second to end.
fn work(tasks: &Tasks, flag: Arc<AtomicBool>) {
    tasks.spawn("work", |shutdown| async move {
        assert!(!flag.swap(true, Ordering::Relaxed), "the last term's work goes on");
        shutdown.cancelled().await;
        seconds(1).await;
        flag.store(false, Ordering::Relaxed);
    });
}

impl Candidate {
    fn is_leading(&self) -> bool {
        self.is_leading.load(Ordering::Relaxed)
    }

    fn has_lost(&self) -> bool {
        self.has_lost.load(Ordering::Relaxed)
    }
}

async fn seconds(n_seconds: u64) {
    tokio::time::sleep(Duration::from_secs(n_seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn the_second_leads_soon_after_the_first_releases() {
    let (server, world) = (Arc::default(), World::simulated(1));
    let one = candidate(&server, &world, "one");
    seconds(1).await;
    let two = candidate(&server, &world, "two");
    seconds(60).await;
    assert_eq!((one.is_leading(), two.is_leading()), (true, false));
    one.tasks.shutdown(Duration::from_secs(5)).await.unwrap();
    seconds(4).await;
    assert_eq!((one.is_leading(), two.is_leading()), (false, true));
    let lease = server.lease.lock().unwrap().clone().unwrap().spec.unwrap();
    assert_eq!(lease.holder_identity.as_deref(), Some("two"));
    assert_eq!(lease.lease_transitions, Some(1));
    two.tasks.shutdown(Duration::from_secs(5)).await.unwrap();
    assert_eq!((one.has_lost(), two.has_lost()), (false, false), "they gave it back");
}

#[tokio::test(start_paused = true)]
async fn who_finds_another_in_its_lease_has_lost_at_once() {
    let (server, world) = (Arc::default(), World::simulated(1));
    let one = candidate(&server, &world, "one");
    seconds(5).await;
    if let Some(lease) = server.lease.lock().unwrap().as_mut() {
        lease.spec.as_mut().unwrap().holder_identity = Some("two".to_owned());
        lease.metadata.resource_version = Some("100".to_owned());
    }
    seconds(4).await;
    assert_eq!((one.is_leading(), one.has_lost()), (false, true));
    one.tasks.shutdown(Duration::from_secs(5)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_stops_before_another_starts() {
    let (server, world) = (Arc::default(), World::simulated(1));
    let one = candidate(&server, &world, "one");
    seconds(1).await;
    let two = candidate(&server, &world, "two");
    seconds(30).await;
    one.line.is_down.store(true, Ordering::Relaxed);
    let mut n_leaderless = 0;
    for _ in 0..30 {
        seconds(1).await;
        assert!(!(one.is_leading() && two.is_leading()), "two leaders");
        n_leaderless += u32::from(!one.is_leading() && !two.is_leading());
    }
    assert!(two.is_leading());
    assert!((1..=9).contains(&n_leaderless), "{n_leaderless} s without a leader");
    assert_eq!((one.has_lost(), two.has_lost()), (true, false));
    one.tasks.shutdown(Duration::from_secs(5)).await.unwrap();
    two.tasks.shutdown(Duration::from_secs(5)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn one_that_stands_again_leads_again() {
    let (server, world) = (Arc::default(), World::simulated(1));
    let one = tireless(&server, &world, "one");
    seconds(1).await;
    let two = tireless(&server, &world, "two");
    seconds(30).await;
    for _ in 0..3 {
        one.line.is_down.store(true, Ordering::Relaxed);
        seconds(40).await;
        assert_eq!((one.is_leading(), two.is_leading()), (false, true));
        one.line.is_down.store(false, Ordering::Relaxed);
        seconds(40).await;
        assert_eq!((one.is_leading(), two.is_leading()), (false, true), "it does not take it back");
        two.line.is_down.store(true, Ordering::Relaxed);
        seconds(40).await;
        assert_eq!((one.is_leading(), two.is_leading()), (true, false));
        two.line.is_down.store(false, Ordering::Relaxed);
    }
    // Nobody else stands: whoever lost it for a while takes it back, when the work of before has
    // ended.
    two.tasks.shutdown(Duration::from_secs(5)).await.unwrap();
    one.line.is_down.store(true, Ordering::Relaxed);
    seconds(40).await;
    assert!(!one.is_leading());
    one.line.is_down.store(false, Ordering::Relaxed);
    seconds(4).await;
    assert!(one.is_leading());
    one.tasks.shutdown(Duration::from_secs(5)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn who_watches_the_lease_asks_nothing_and_takes_it_at_once() {
    let (server, world) = (Server::watched(), World::simulated(1));
    let one = candidate(&server, &world, "one");
    seconds(1).await;
    let two = candidate(&server, &world, "two");
    seconds(1).await;
    let n_calls = || two.line.n_calls.load(Ordering::Relaxed);
    let asked = n_calls();
    seconds(600).await;
    assert_eq!((two.is_leading(), n_calls()), (false, asked));
    one.tasks.shutdown(Duration::from_secs(5)).await.unwrap();
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!((one.is_leading(), two.is_leading()), (false, true));
    two.tasks.shutdown(Duration::from_secs(5)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_leader_renews_with_one_call_and_shows_that_it_leads() {
    let (server, world) = (Server::watched(), World::simulated(1));
    let one = candidate(&server, &world, "one");
    // Once it has made the lease it does not know how it came back.
    seconds(3).await;
    let shows = |it: &Candidate, status: u8, slow: u8| {
        let page = it.metrics.render();
        let status = format!("leader_election_master_status{{name=\"test\"}} {status}");
        let slow = format!("leader_election_slowpath_total{{name=\"test\"}} {slow}");
        let has = |line: &str| page.lines().any(|it| it == line);
        assert!(has(&status) && has(&slow), "{status} {slow}\n{page}");
    };
    let n_calls = || one.line.n_calls.load(Ordering::Relaxed);
    let asked = n_calls();
    seconds(20).await;
    assert_eq!(n_calls() - asked, 10);
    shows(&one, 1, 0);
    let two = candidate(&server, &world, "two");
    seconds(1).await;
    shows(&two, 0, 0);
    // Somebody wrote to the lease: it is read, and renewed all the same.
    server.lease.lock().unwrap().as_mut().unwrap().metadata.resource_version =
        Some("100".to_owned());
    seconds(4).await;
    shows(&one, 1, 1);
    assert!(one.is_leading());
    one.tasks.shutdown(Duration::from_secs(5)).await.unwrap();
    shows(&one, 0, 1);
    two.tasks.shutdown(Duration::from_secs(5)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn who_watches_takes_the_lease_of_one_that_is_silent() {
    let (server, world) = (Server::watched(), World::simulated(1));
    let one = candidate(&server, &world, "one");
    seconds(1).await;
    let two = candidate(&server, &world, "two");
    seconds(30).await;
    one.line.is_down.store(true, Ordering::Relaxed);
    seconds(12).await;
    assert_eq!((one.is_leading(), two.is_leading()), (false, false));
    seconds(4).await;
    assert_eq!((one.is_leading(), two.is_leading()), (false, true));
    one.tasks.shutdown(Duration::from_secs(5)).await.unwrap();
    two.tasks.shutdown(Duration::from_secs(5)).await.unwrap();
}
