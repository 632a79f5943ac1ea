//! What controllers make of the same objects, whoever they are: scenarios are played against a
//! cluster, each in a namespace of its own, and what there is at rest is written down in a form in
//! which two runs can be compared.
//!
//! ```text
//! scenarios play KUBECONFIG OUT CASE...
//! scenarios hold KUBECONFIG OUT CASE...
//! scenarios look-again KUBECONFIG OUT CASE...
//! ```
//!
//! Cases are files of steps; `OUT` is the JSON file with what was seen, by case. What `hold` leaves
//! `look-again` looks at when another manager has come, and has shown that it works.

#![expect(clippy::print_stderr, reason = "what is under way is told to people")]
#![expect(clippy::disallowed_methods, reason = "a program of its own, which owns its tasks")]

mod case;
#[path = "../load/connect.rs"]
#[expect(dead_code, reason = "shared with the load, which needs all of it")]
mod connect;
mod kept;
mod normal;
mod server;

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::sync::{Arc, Mutex};

use serde_json::Value;

use case::Case;
use server::Server;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Cases at a time: most of each is waiting.
const WORKERS: usize = 8;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Play,
    Hold,
    LookAgain,
}

impl Way {
    fn parse(text: &str) -> Result<Self> {
        match text {
            "play" => Ok(Self::Play),
            "hold" => Ok(Self::Hold),
            "look-again" => Ok(Self::LookAgain),
            _ => Err(format!("{text}: there are play, hold and look-again").into()),
        }
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut next = |what: &str| arguments.next().ok_or_else(|| format!("{what} is missing"));
    let way = Way::parse(&next("play, hold or look-again")?)?;
    let (kubeconfig, out) = (next("KUBECONFIG")?, next("OUT")?);
    if way == Way::LookAgain {
        case::await_manager(&mut Server::connect(&kubeconfig).await?).await?;
    }
    let cases = arguments.map(|it| Case::read(Path::new(&it))).collect::<Result<Vec<_>>>()?;
    let waiting = Arc::new(Mutex::new(cases));
    let seen = Arc::new(Mutex::new(BTreeMap::<String, Value>::new()));
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..WORKERS {
        let (waiting, seen, kubeconfig) = (waiting.clone(), seen.clone(), kubeconfig.clone());
        workers.spawn(async move {
            let mut server = Server::connect(&kubeconfig).await?;
            loop {
                let case = waiting.lock().expect("nobody panics").pop();
                let Some(case) = case else { return Result::Ok(()) };
                let outcome = match way {
                    Way::Play => case.play(&mut server).await,
                    Way::Hold => case.hold(&mut server).await,
                    Way::LookAgain => case.look_again(&mut server).await,
                };
                let outcome = outcome.unwrap_or_else(|err| Value::String(format!("error: {err}")));
                eprintln!("played {}", case.name);
                seen.lock().expect("nobody panics").insert(case.name, outcome);
            }
        });
    }
    while let Some(worker) = workers.join_next().await {
        worker??;
    }
    let seen = seen.lock().expect("nobody panics");
    std::fs::write(out, serde_json::to_string_pretty(&*seen)?)?;
    Ok(())
}
