//! Two API servers, asked the same: objects made from the schemas of every kind and from its
//! example, whole and with one thing changed, are created, updated, patched and applied in dry run
//! on both; answers that a client could tell apart are counted and shown, by what differs.
//!
//! ```text
//! differ OURS UPSTREAM [--requests N] [--kind K] [--seed S] [--show N] EXAMPLE...
//! ```
//!
//! The first two are kubeconfigs, examples are files with one JSON object each.

#![expect(clippy::print_stdout, reason = "the result goes to standard output")]
#![expect(clippy::disallowed_methods, reason = "a program of its own, which owns its tasks")]

mod allowed;
mod compare;
#[path = "../load/connect.rs"]
#[expect(dead_code, reason = "shared with the load, which needs all of it")]
mod connect;
mod flags;
mod grow;
mod live;
mod mutate;
mod place;
mod report;
mod requests;
mod run;
mod schema;
mod seeds;
mod server;

use std::collections::VecDeque;
use std::error::Error;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::Mutex;

use allowed::Allowed;
use flags::Flags;
use report::Report;
use run::Kind;
use schema::Schemas;
use seeds::Act;
use server::Server;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Kinds at a time, with a connection to each server each.
const WORKERS: usize = 16;

/// Of the Service that is there for real, in the range that both servers have.
const SERVICE_ADDRESS: &str = "10.96.200.7";

/// What all kinds have in common.
struct Shared {
    flags: Flags,
    schemas: Schemas,
    allowed: Allowed,
    report: Mutex<Report>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let flags = Flags::parse(std::env::args().skip(1))?;
    let mut upstream = Server::connect(&flags.upstream).await?;
    let kinds = Mutex::new(kinds(&flags, &mut upstream).await?);
    let shared = Arc::new(Shared {
        schemas: upstream.schemas().await?,
        allowed: Allowed::read(include_str!("allowed.json"))?,
        report: Mutex::default(),
        flags,
    });
    let kinds = Arc::new(kinds);
    let workers: Vec<_> = (0..WORKERS)
        .map(|_| {
            let (shared, kinds) = (shared.clone(), kinds.clone());
            tokio::spawn(async move {
                loop {
                    let Some(kind) = kinds.lock().await.pop_front() else { break };
                    if let Err(err) = run::run(&shared, &kind).await {
                        println!("{}: {err}", kind.name);
                    }
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await?;
    }
    print!("{}", shared.report.lock().await.print(shared.flags.n_shown));
    Ok(())
}

/// Those that upstream serves and that have an example.
async fn kinds(flags: &Flags, upstream: &mut Server) -> Result<VecDeque<Kind>> {
    let resources = upstream.resources().await?;
    let mut kinds = VecDeque::new();
    for path in &flags.examples {
        let mut example: Value = serde_json::from_str(&std::fs::read_to_string(path)?)?;
        let text = |name: &str| example[name].as_str().unwrap_or_default().to_owned();
        let key = (text("apiVersion"), text("kind"));
        let is_asked = flags.kind.as_ref().is_none_or(|it| *it == key.1);
        let Some(resource) = resources.get(&key).filter(|_| is_asked) else { continue };
        if let Some(metadata) = example["metadata"].as_object_mut() {
            metadata.remove("namespace");
        }
        // Two groups may have the same name for theirs.
        let of = resource.root.trim_start_matches('/').replace(['/', '.'], "-");
        let namespace = format!("differ-{}-{of}", resource.plural);
        // An event is where the object is that it is about.
        for about in ["involvedObject", "regarding"] {
            if let Some(about) = example.get_mut(about) {
                about["namespace"] = Value::from(namespace.as_str());
            }
        }
        // Each server would give it another.
        let is_service = key.1 == "Service";
        if is_service {
            example["spec"]["clusterIP"] = Value::from(SERVICE_ADDRESS);
        }
        let mut seeds = seeds::of_kind(include_str!("seeds.json"), &example)?;
        for seed in seeds.iter_mut().filter(|_| is_service) {
            seed.manifest["spec"]["clusterIP"] = Value::from(SERVICE_ADDRESS);
        }
        let acts = Act::of_kind(include_str!("acts.json"), &key.1)?;
        let (name, resource) = (format!("{} {}", key.0, key.1), resource.clone());
        kinds.push_back(Kind { name, example, seeds, acts, resource, namespace, n_requests: 0 });
    }
    let n = flags.n_requests / kinds.len().max(1);
    kinds.iter_mut().for_each(|it| it.n_requests = n);
    Ok(kinds)
}
