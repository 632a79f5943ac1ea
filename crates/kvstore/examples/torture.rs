//! `cargo xtask torture store`: everything that tries to break the store, at length. Says the seed
//! first, so that whatever breaks can be had again, and counts what it has done.

#![expect(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a command line tool speaks on standard output, and says how long things took"
)]

use std::cell::Cell;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use kvstore::embedded;
use kvstore::torture::{self, Engine};

/// With one round; more multiply them.
const CRASHES_LOG: usize = 60_000;
const CRASHES_ENGINE: usize = 60_000;
const KILLS: u64 = 2_000;
const MODELS: u64 = 300;
const WATCHES: u64 = 40;
const CLIENTS: u64 = 40;
const SAMPLES: u64 = 20;
/// Every history of up to so many steps is tried on engines without threads, and some of so many on
/// those with.
const HISTORY_STEPS: u32 = 6;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["child", dir, round] => kill_child(Path::new(dir), round.parse().expect("a round")),
        ["replay", work, operation, crash] => replay([work, operation, crash]),
        [rounds, seed, only @ ..] => {
            run(rounds.parse().expect("rounds"), seed.parse().expect("a seed"), &only.join(" "));
        }
        _ => println!(
            "usage: torture ROUNDS SEED [a part's name], or torture replay WORK OPERATION CRASH"
        ),
    }
}

fn run(rounds: u64, seed: u64, only: &str) {
    let n = |count: u64| count * rounds;
    let n_crashes = |count: usize| count * usize::try_from(rounds).expect("fits");
    println!("seed {seed}, rounds {rounds}");
    let n_parts = Cell::new(0);
    let part = |name: &str, work: &dyn Fn() -> u64| {
        if name.contains(only) {
            n_parts.set(n_parts.get() + 1);
            part(name, work);
        }
    };
    part("crash points of the log", &|| {
        let count = n_crashes(CRASHES_LOG);
        embedded::log::torture::run(seed, count).unwrap_or_else(|it| panic!("seed {seed}: {it}"));
        count as u64
    });
    part("crash points of the engine", &|| {
        let count = n_crashes(CRASHES_ENGINE);
        embedded::torture::run(seed, count).unwrap_or_else(|it| panic!("seed {seed}: {it}"));
        count as u64
    });
    for (engine, name) in [(Engine::Memory, "memory"), (Engine::ON_DISK, "embedded")] {
        part(&format!("answers of all histories of up to {HISTORY_STEPS} steps, {name}"), &|| {
            let tally = torture::exhaustive(engine, HISTORY_STEPS);
            println!("{:>12}  histories, {} stores", tally.histories, tally.stores);
            tally.checks
        });
    }
    part("answers of some histories on a real disk", &|| {
        let sampled = Engine::ALL.map(|it| torture::sampled(it, seed, n(SAMPLES), HISTORY_STEPS));
        sampled.iter().map(|it| it.checks).sum()
    });
    part("random histories against the model", &|| {
        torture::models(seed, n(MODELS));
        n(MODELS)
    });
    part("watches with slow readers and compaction", &|| {
        torture::watches(seed, n(WATCHES));
        n(WATCHES)
    });
    part("concurrent clients, linearizability", &|| {
        torture::linearizable(seed, n(CLIENTS));
        n(CLIENTS)
    });
    part("processes killed", &|| {
        torture::kill(seed, n(KILLS), &child);
        n(KILLS)
    });
    assert!(n_parts.get() > 0, "no part is called {only:?}");
    println!("nothing broke");
}

/// One crash of the engine again, as a failure names it.
fn replay(numbers: [&str; 3]) {
    let [work, operation, crash] = numbers.map(|it| it.parse().expect("a number"));
    let operation = usize::try_from(operation).expect("fits");
    match embedded::torture::replay(embedded::torture::Point { work, operation, crash }) {
        Ok(_) => println!("survived"),
        Err(failure) => panic!("{failure}"),
    }
}

fn part(name: &str, work: &dyn Fn() -> u64) {
    let started = Instant::now();
    let count = work();
    println!("{count:>12}  {name} ({:.1} s)", started.elapsed().as_secs_f64());
}

fn child(dir: &Path, round: u64) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.arg("child").arg(dir).arg(round.to_string());
    command
}

fn kill_child(dir: &Path, round: u64) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let work = torture::kill_child(dir, round, std::io::stdout());
    runtime.expect("a runtime starts").block_on(work);
}
