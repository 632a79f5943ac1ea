//! The extension of the API on two servers: definitions, custom objects, policies and webhook
//! configurations of a corpus are written to both, step by step, and whatever a client could tell
//! apart is shown: verdicts, causes, texts, warnings, what is stored, tables, and what is published
//! as OpenAPI.
//!
//! ```text
//! extension OURS UPSTREAM [--record DIRECTORY] CASE...
//! ```
//!
//! The first two are kubeconfigs; cases are files of steps. With `--record`, what upstream answered
//! is written down, a file for each case, for the tests that have no upstream.

#![expect(clippy::print_stdout, reason = "the result goes to standard output")]
#![expect(clippy::disallowed_methods, reason = "a program of its own, which owns its tasks")]

#[path = "../differ/allowed.rs"]
mod allowed;
mod case;
#[path = "../differ/compare.rs"]
#[expect(dead_code, reason = "shared with the differ, which needs all of it")]
mod compare;
#[path = "../load/connect.rs"]
#[expect(dead_code, reason = "shared with the load, which needs all of it")]
mod connect;
mod normal;
#[path = "../differ/place.rs"]
#[expect(dead_code, reason = "shared with the differ, which needs all of it")]
mod place;
mod play;
mod published;
#[path = "../differ/schema.rs"]
#[expect(dead_code, reason = "shared with the differ, which needs all of it")]
mod schema;
#[path = "../differ/server.rs"]
#[expect(dead_code, reason = "shared with the differ, which needs all of it")]
mod server;
mod verdict;

use std::error::Error;
use std::path::{Path, PathBuf};

use allowed::Allowed;
use case::Case;
use play::Pair;
use server::Server;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let mut next = |what: &str| words.next().ok_or_else(|| format!("{what} is missing"));
    let (ours, upstream) = (next("OURS")?, next("UPSTREAM")?);
    let mut paths: Vec<PathBuf> = words.map(PathBuf::from).collect();
    let mut record = None;
    if paths.first().is_some_and(|it| it.as_os_str() == "--record") && paths.len() > 1 {
        record = Some(paths.remove(1));
        paths.remove(0);
    }
    let allowed = Allowed::read(include_str!("known.json"))?;
    let mut pair =
        Pair { upstream: Server::connect(&upstream).await?, ours: Server::connect(&ours).await? };
    let (mut n_alike, mut n_known, mut n_different) = (0, 0, 0);
    for path in &paths {
        let case = Case::read(path)?;
        let played = play::play(&mut pair, &case, &allowed).await?;
        println!("{} {}", if played.lines.is_empty() { "alike " } else { "DIFFER" }, case.name);
        played.lines.iter().for_each(|it| println!("{it}"));
        n_alike += played.n_alike;
        n_known += played.n_known;
        n_different += played.lines.len();
        if let Some(directory) = &record {
            write(&directory.join(format!("{}.json", case.name)), &played.verdicts)?;
        }
    }
    println!("{n_alike} alike, {n_known} known, {n_different} differ");
    match n_different {
        0 => Ok(()),
        n => Err(format!("{n} differences are not known").into()),
    }
}

/// One verdict in a line.
fn write(path: &Path, verdicts: &[serde_json::Value]) -> Result<()> {
    let lines: Vec<String> = verdicts.iter().map(|it| format!("  {it}")).collect();
    Ok(std::fs::write(path, format!("[\n{}\n]\n", lines.join(",\n")))?)
}
