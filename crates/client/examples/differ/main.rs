//! Two API servers, asked the same: `differ OURS UPSTREAM MANIFEST...`, where the first two are
//! kubeconfigs and the others files with one JSON object each. Every object is sent to both, whole
//! and with one thing changed at a time, to be created in dry run; answers that a client could tell
//! apart are printed, by kind and by what differs.

#![expect(clippy::print_stdout, reason = "the result goes to standard output")]
#![expect(clippy::disallowed_methods, reason = "a program of its own, which owns its tasks")]

mod compare;
#[path = "../load/connect.rs"]
#[expect(dead_code, reason = "shared with the load, which needs all of it")]
mod connect;
mod mutate;
mod server;

use std::collections::BTreeMap;
use std::error::Error;

use serde_json::{Value, json};

use compare::{Answer, Difference};
use server::Server;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Of differences of one sort that are shown.
const SHOWN_MAX: usize = 3;

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [ours, upstream, manifests @ ..] = arguments.as_slice() else {
        return Err("differ OURS UPSTREAM MANIFEST...".into());
    };
    let (mut ours, mut upstream) = (Server::connect(ours).await?, Server::connect(upstream).await?);
    let places = ours.places().await?;
    let (mut n_asked, mut found) = (0, BTreeMap::<String, Vec<String>>::new());
    for manifest in manifests {
        let mut object: Value = serde_json::from_str(&std::fs::read_to_string(manifest)?)?;
        let Some(place) = places.get(&kind_of(&object)) else { continue };
        if place.contains("/namespaces/") {
            object["metadata"]["namespace"] = json!("default");
        }
        let path = format!("{place}?dryRun=All&fieldValidation=Strict");
        for (what, changed) in mutate::all(&object) {
            let body = changed.to_string();
            let (a, b) = (upstream.post(&path, &body).await, ours.post(&path, &body).await);
            n_asked += 1;
            // One that answers nothing has met a mistake of its own.
            let Ok(expected) = a else {
                upstream.reconnect().await?;
                continue;
            };
            let seen = b.unwrap_or(Answer { code: 0, body: Value::Null });
            if let Some(difference) = compare::compare(&expected, &seen) {
                note(&mut found, &kind_of(&object).1, &what, &difference);
            }
        }
    }
    print(n_asked, &found);
    Ok(())
}

fn kind_of(object: &Value) -> (String, String) {
    let text = |name: &str| object[name].as_str().unwrap_or_default().to_owned();
    (text("apiVersion"), text("kind"))
}

fn note(
    found: &mut BTreeMap<String, Vec<String>>,
    kind: &str,
    what: &str,
    difference: &Difference,
) {
    let Difference { of, upstream, ours } = difference;
    let text = format!("  {what}\n    upstream  {upstream}\n    ours      {ours}");
    found.entry(format!("{kind}: {of}")).or_default().push(text);
}

fn print(n_asked: usize, found: &BTreeMap<String, Vec<String>>) {
    for (what, all) in found {
        println!("{what}, {} times", all.len());
        all.iter().take(SHOWN_MAX).for_each(|it| println!("{it}"));
    }
    let n_found: usize = found.values().map(Vec::len).sum();
    let same = 100.0 * (n_asked - n_found) as f64 / n_asked.max(1) as f64;
    println!("{n_asked} requests, {n_found} answered otherwise: {same:.2} % alike");
}
