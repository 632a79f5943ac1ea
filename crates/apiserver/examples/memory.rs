//! Measures what one object costs in memory: resident bytes per ConfigMap of about 1.9 KB, in a
//! server over the embedded store.
//!
//! `cargo run --release -p apiserver --example memory [objects]`

#![expect(clippy::print_stdout, reason = "a program for people")]

use std::sync::Arc;
use std::time::Duration;

use api::core::ConfigMap;
use apimachinery::User;
use apiserver::{Config, Parts, Server};
use authn::pki::ServiceAccountKey;
use client::{Client, ListOptions};
use futures_util::future::join_all;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kvstore::embedded::{Embedded, Options};
use lifecycle::{Readiness, Tasks};
use stdx::World;

/// Objects written at once.
const WRITERS: usize = 200;

#[tokio::main]
async fn main() {
    let n_objects = std::env::args().nth(1).and_then(|it| it.parse().ok()).unwrap_or(20_000);
    let dir = tempfile::tempdir().expect("a directory");
    let key = Arc::new(ServiceAccountKey::create().expect("a key"));
    let used = measure(dir.path(), &key, n_objects).await;
    println!("{used} resident bytes per object");
}

async fn measure(dir: &std::path::Path, key: &Arc<ServiceAccountKey>, n_objects: usize) -> usize {
    let options = Options::default();
    let store = Embedded::open(dir, options).expect("a store");
    let tasks = Tasks::new();
    let parts = Parts {
        store,
        world: World::system(),
        tasks: tasks.clone(),
        readiness: Readiness::default(),
        metrics: telemetry::Registry::default(),
        service_account_keys: vec![key.clone()],
    };
    let server = Server::start(Config::default(), parts).await.expect("the server starts");
    let client = server.client(User::new("admin", &["system:masters"]), "memory");
    write(&client, 0, WRITERS).await;
    let before = resident();
    write(&client, WRITERS, n_objects).await;
    let used = resident() - before;
    let options = ListOptions { limit: Some(1), ..ListOptions::default() };
    let list = client.api::<ConfigMap>().list("default", options).await.expect("a list");
    println!("one object is {} bytes of JSON", list.items[0].bytes.len());
    tasks.shutdown(Duration::from_secs(5)).await.expect("stopped");
    used / (n_objects - WRITERS)
}

async fn write(client: &Client, first: usize, end: usize) {
    for start in (first..end).step_by(WRITERS) {
        let api = client.api::<ConfigMap>();
        let created = (start..end.min(start + WRITERS)).map(|it| api.create(config_map(it)));
        for created in join_all(created).await {
            created.expect("created");
        }
    }
}

fn config_map(index: usize) -> ConfigMap {
    let metadata = ObjectMeta {
        name: Some(format!("object-{index:06}")),
        namespace: Some("default".to_owned()),
        labels: Some([("app".to_owned(), "memory".to_owned())].into()),
        ..ObjectMeta::default()
    };
    let data = Some([("key".to_owned(), "x".repeat(1_450))].into());
    ConfigMap { metadata, data, ..ConfigMap::default() }
}

/// Resident bytes of this process.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = text.lines().find(|it| it.starts_with("VmRSS:")).expect("a line");
    let digits: String = line.chars().filter(char::is_ascii_digit).collect();
    digits.parse::<usize>().expect("a number") * 1024
}
