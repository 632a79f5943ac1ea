//! Runs test programs, several at once, since most of what they do is waiting. What one says is shown
//! in one piece when it has ended; what failed is named again at the end.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::binaries::Binary;
use crate::say;

/// Those that last longest, which begin first so that nobody waits for them at the end.
const LONG: &[&str] = &[
    "app --test node",
    "testkit --test storms",
    "app --test guest",
    "app --test kubectl",
    "app --test docs",
    "app --test clients",
    "containers --test embedded",
    "app --test join",
    "app --test alone",
    "app --test conformance",
    "kvstore --lib",
];

struct Outcome<'a> {
    binary: &'a Binary,
    status: ExitStatus,
    text: String,
    time: Duration,
}

pub(super) fn run(binaries: &[Binary], prepare: &(dyn Fn(&mut Command) + Sync)) -> Result<()> {
    let waiting = Mutex::new(in_order(binaries));
    let at_once = thread::available_parallelism().map_or(2, usize::from) + 1;
    let (told, outcomes) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..at_once {
            let (told, waiting) = (told.clone(), &waiting);
            scope.spawn(move || {
                while let Some(binary) = next(waiting) {
                    if told.send(run_one(binary, prepare)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(told);
        report(outcomes)
    })
}

fn in_order(binaries: &[Binary]) -> VecDeque<&Binary> {
    let rank = |it: &Binary| LONG.iter().position(|long| it.name == *long).unwrap_or(LONG.len());
    let mut ordered: Vec<&Binary> = binaries.iter().collect();
    ordered.sort_by_key(|it| rank(it));
    ordered.into()
}

fn next<'a>(waiting: &Mutex<VecDeque<&'a Binary>>) -> Option<&'a Binary> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
}

#[expect(clippy::disallowed_methods, reason = "how long real programs took is told to people")]
fn run_one<'a>(binary: &'a Binary, prepare: &dyn Fn(&mut Command)) -> Result<Outcome<'a>> {
    let doing = || format!("running the tests {}", binary.name);
    let mut output: File = tempfile::tempfile().with_context(doing)?;
    let mut command = Command::new(&binary.program);
    command.stdin(Stdio::null());
    command.current_dir(&binary.directory).env("CARGO_MANIFEST_DIR", &binary.directory);
    command.stdout(output.try_clone().with_context(doing)?);
    command.stderr(output.try_clone().with_context(doing)?);
    prepare(&mut command);
    let started = std::time::Instant::now();
    let status = command.status().with_context(doing)?;
    let time = started.elapsed();
    let mut text = Vec::new();
    output.seek(SeekFrom::Start(0)).with_context(doing)?;
    output.read_to_end(&mut text).with_context(doing)?;
    Ok(Outcome { binary, status, text: String::from_utf8_lossy(&text).into_owned(), time })
}

fn report<'a>(outcomes: mpsc::Receiver<Result<Outcome<'a>>>) -> Result<()> {
    let (mut counts, mut times, mut failed) = (Counts::default(), Vec::new(), Vec::new());
    for outcome in outcomes {
        let Outcome { binary, status, text, time } = outcome?;
        say(&format!("\n     Running {} ({:.1} s)\n{}", binary.name, time.as_secs_f64(), text));
        counts.add(&text);
        times.push((time, &binary.name));
        if !status.success() {
            failed.push(format!("{} ({status})", binary.name));
        }
    }
    times.sort_by(|a, b| b.cmp(a));
    say("\nThe longest:");
    for (time, name) in times.iter().take(12) {
        say(&format!("{:8.1} s  {name}", time.as_secs_f64()));
    }
    say(&format!("\n{} passed, {} failed", counts.passed, counts.failed));
    if !failed.is_empty() {
        bail!("tests failed: {}", failed.join("; "));
    }
    if counts.passed == 0 {
        bail!("no test ran");
    }
    Ok(())
}

/// Of single tests, by what the programs say last.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    passed: u64,
    failed: u64,
}

impl Counts {
    fn add(&mut self, text: &str) {
        for line in text.lines().filter_map(|it| it.strip_prefix("test result: ")) {
            for part in line.split([';', '.']) {
                match part.trim().split_once(' ') {
                    Some((count, "passed")) => self.passed += count.parse().unwrap_or(0),
                    Some((count, "failed")) => self.failed += count.parse().unwrap_or(0),
                    _ => {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_counted_by_the_last_lines_of_programs() {
        let mut counts = Counts::default();
        counts.add("running 2 tests\ntest result: ok. 2 passed; 0 failed; 0 ignored; 0 measured\n");
        counts.add("test result: FAILED. 7 passed; 1 failed; 0 ignored; finished in 1.25s\n");
        assert_eq!(counts, Counts { passed: 9, failed: 1 });
    }

    #[test]
    fn those_that_last_longest_begin_first() {
        let binary = |name: &str| Binary {
            name: name.to_owned(),
            program: "true".into(),
            directory: "/".into(),
        };
        let all = ["api --lib", "app --test guest", "app --test node"].map(binary);
        let names: Vec<_> = in_order(&all).iter().map(|it| it.name.clone()).collect();
        assert_eq!(names, ["app --test node", "app --test guest", "api --lib"]);
    }
}
