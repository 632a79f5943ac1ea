//! Measures what many CustomResourceDefinitions cost: how long it takes until all are established
//! and shown, and what stays resident, with schemas of about 30 KB.
//!
//! `cargo run --release -p apiserver --example definitions [definitions]`

#![expect(clippy::print_stdout, reason = "a program for people")]

use std::sync::Arc;
use std::time::Duration;

use api::Resource as _;
use api::apiextensions::CustomResourceDefinition;
use apimachinery::User;
use apiserver::{Config, Parts, Server};
use authn::pki::ServiceAccountKey;
use client::{Client, ListOptions};
use kvstore::embedded::{Embedded, Options};
use lifecycle::{Readiness, Tasks};
use serde_json::{Value, json};
use stdx::World;
use tokio::time::Instant;

/// Definitions in each group.
const PER_GROUP: usize = 10;
/// Fields of each schema: about 60 bytes each.
const FIELDS: usize = 450;

#[tokio::main]
async fn main() {
    let n_definitions = std::env::args().nth(1).and_then(|it| it.parse().ok()).unwrap_or(1_000);
    let dir = tempfile::tempdir().expect("a directory");
    let tasks = Tasks::new();
    let parts = Parts {
        store: Embedded::open(dir.path(), Options::default()).expect("a store"),
        world: World::system(),
        tasks: tasks.clone(),
        readiness: Readiness::default(),
        metrics: telemetry::Registry::default(),
        service_account_keys: vec![Arc::new(ServiceAccountKey::create().expect("a key"))],
    };
    let server = Server::start(Config::default(), parts).await.expect("the server starts");
    let client = server.client(User::new("admin", &["system:masters"]), "definitions");
    println!("one definition is {} bytes", definition(0).to_string().len());
    let before = resident();
    let start = Instant::now();
    let api = client.api::<CustomResourceDefinition>();
    for index in 0..n_definitions {
        let definition = definition(index).to_string();
        let definition = CustomResourceDefinition::decode(definition.as_bytes());
        api.create(definition.expect("a definition")).await.expect("created");
    }
    println!("created after {:?}", start.elapsed());
    wait_until_shown(&client, n_definitions).await;
    println!("all {n_definitions} established and shown after {:?}", start.elapsed());
    println!("{} MiB resident beyond", (resident().saturating_sub(before)) >> 20);
    tasks.shutdown(Duration::from_secs(5)).await.expect("stopped");
}

fn definition(index: usize) -> Value {
    let (group, plural) = (format!("g{}.example.com", index / PER_GROUP), format!("r{index}s"));
    let fields = (0..FIELDS).map(|it| {
        (format!("field{it}"), json!({"type": "string", "description": "it says something"}))
    });
    let fields: serde_json::Map<String, Value> = fields.collect();
    json!({
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"plural": plural, "kind": format!("R{index}")},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object",
                    "properties": {"spec": {"type": "object", "properties": fields}},
                }},
            }],
        },
    })
}

async fn wait_until_shown(client: &Client, n_definitions: usize) {
    loop {
        let found = client.discover().await.expect("discovered");
        let n_shown = found.iter().filter(|it| it.resource.group.ends_with(".example.com")).count();
        if n_shown == n_definitions {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // The last of them can be asked for.
    let index = n_definitions - 1;
    let resource = apimachinery::GroupVersionResource::new(
        format!("g{}.example.com", index / PER_GROUP),
        "v1",
        format!("r{index}s"),
    );
    client.dynamic(resource).list("", ListOptions::default()).await.expect("a list");
}

/// Resident bytes of this process.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = text.lines().find(|it| it.starts_with("VmRSS:")).expect("a line");
    let digits: String = line.chars().filter(char::is_ascii_digit).collect();
    digits.parse::<usize>().expect("a number") * 1024
}
