//! Developer commands: `cargo xtask test|tidy|bench|torture|fuzz|install-test-deps`.

mod bench;
mod fuzz;
mod process;
mod test;
mod test_deps;
mod tidy;
mod torture;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask <command>

  test               everything that must pass: tools, format, tidy, lints, tests
  tidy               the shape of the repository alone
  bench up           start, idle and scale budgets of `xebec up`, on the release binary
  bench get          what a GET costs the server, by certificate and by token
  torture store      [--rounds N] [--seed S]: at length, everything that tries to break the store, and etcd under it
  fuzz               [SECONDS]: everything that reads foreign bytes, for so long each (60)
  bench store        the store over etcd's API beside etcd itself; `bench store alone` without the rest of Xebec
  install-test-deps  installs the Debian and Python packages that the tests need";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["test"] => test::run(),
        ["tidy"] => tidy::run(&root()),
        ["bench", "up"] => bench::up::measure(&root()),
        ["bench", "get"] => bench::get::measure(&root()),
        ["torture", "store", rest @ ..] => torture::store(rest),
        ["fuzz", rest @ ..] => fuzz::run(rest),
        ["bench", "store"] => bench::store::measure(&root(), bench::store::Ours::Xebec),
        ["bench", "store", "alone"] => {
            bench::store::measure(&root(), bench::store::Ours::FrontAlone)
        }
        ["install-test-deps"] => test_deps::install(&root()).map(|_| ()),
        _ => {
            say(USAGE);
            return ExitCode::from(64);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            say(&format!("error: {err:#}"));
            ExitCode::FAILURE
        }
    }
}

/// The repository: this crate lies two levels below it.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .unwrap_or_else(|| Path::new("."))
        .to_owned()
}

#[expect(clippy::print_stdout, reason = "a command line tool speaks on standard output")]
fn say(text: &str) {
    println!("{text}");
}
