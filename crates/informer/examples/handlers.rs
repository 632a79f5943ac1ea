//! What telling one more handler of an event costs:
//! `cargo run --release -p informer --example handlers`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use api::core::config_map::ConfigMap;
use api::object::meta_of;
use api::{Resource as _, Stored};
use apimachinery::ApiError;
use bytes::Bytes;
use client::{
    Client, Discovered, Reply, Request, Transport, WatchEvent, WatchEventKind, WatchStream,
};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use informer::{EventHandler, Factory};
use lifecycle::Tasks;
use stdx::World;

const HANDLERS: u64 = 80;
const EVENTS: u64 = 100_000;
const ROUNDS: usize = 5;

/// One object, which changes again and again.
struct Changes(Vec<Arc<Stored>>);

fn stored(version: u64) -> Arc<Stored> {
    let json = format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"namespace":"default","name":"a","resourceVersion":"{version}"}}}}"#
    );
    let bytes = Bytes::from(json);
    let object = ConfigMap::decode(&bytes).expect("a ConfigMap");
    Arc::new(Stored::new(meta_of(object.metadata(), Vec::new()), bytes))
}

impl Transport for Changes {
    fn call(&self, _request: Request) -> BoxFuture<'_, Result<Reply, ApiError>> {
        async { Err(ApiError::no_such_resource()) }.boxed()
    }

    fn watch(&self, _request: Request) -> BoxFuture<'_, Result<WatchStream, ApiError>> {
        let events: Vec<Result<WatchEvent, ApiError>> = self
            .0
            .iter()
            .enumerate()
            .map(|(index, object)| {
                let kind = match index {
                    0 => WatchEventKind::Added,
                    1 => WatchEventKind::Bookmark,
                    _ => WatchEventKind::Modified,
                };
                let is_initial_end = kind == WatchEventKind::Bookmark;
                Ok(WatchEvent { kind, object: object.clone(), is_initial_end })
            })
            .collect();
        async { Ok(stream::iter(events).chain(stream::pending()).boxed()) }.boxed()
    }

    fn get_path(&self, _path: String) -> BoxFuture<'_, Result<Bytes, ApiError>> {
        async { Err(ApiError::no_such_resource()) }.boxed()
    }

    fn discover(&self) -> BoxFuture<'_, Result<Vec<Discovered>, ApiError>> {
        async { Ok(Vec::new()) }.boxed()
    }
}

/// As little as a handler can do.
#[derive(Default)]
struct Count(AtomicU64);

impl EventHandler<ConfigMap> for Count {
    fn on_add(&self, _object: &Arc<ConfigMap>, _is_initial: bool) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn on_update(&self, _old: &Arc<ConfigMap>, _new: &Arc<ConfigMap>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn on_delete(&self, _last: &Arc<ConfigMap>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// From the start to the last event, as `handlers` hear them.
#[expect(clippy::disallowed_methods, reason = "real time is what is measured")]
async fn follow(changes: &[Arc<Stored>], handlers: u64) -> Duration {
    let (tasks, world) = (Tasks::new(), World::system());
    let client = Client::new(Arc::new(Changes(changes.to_vec())), "handlers");
    let factory = Factory::new(client, world, &tasks);
    let informer = factory.informer::<ConfigMap>();
    let ears: Vec<Arc<Count>> = (0..handlers).map(|_| Arc::default()).collect();
    ears.iter().for_each(|it| informer.add_event_handler(it.clone()));
    let heard = |ear: &Count| ear.0.load(Ordering::Relaxed);
    let began = Instant::now();
    factory.start();
    while heard(&ears[0]) <= EVENTS {
        tokio::task::yield_now().await;
    }
    let elapsed = began.elapsed();
    tasks.cancel();
    assert!(ears.iter().all(|it| heard(it) == EVENTS + 1), "every handler has heard all");
    elapsed
}

#[expect(clippy::print_stdout, reason = "its purpose")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let changes: Vec<Arc<Stored>> = (1..=EVENTS + 2).map(stored).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut costs: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let one = runtime.block_on(follow(&changes, 1)).as_nanos() as f64;
            let many = runtime.block_on(follow(&changes, 1 + HANDLERS)).as_nanos() as f64;
            (many - one) / (EVENTS * HANDLERS) as f64
        })
        .collect();
    costs.sort_by(f64::total_cmp);
    println!("{:.1} ns per event and handler, {HANDLERS} handlers", costs[ROUNDS / 2]);
    Ok(())
}
